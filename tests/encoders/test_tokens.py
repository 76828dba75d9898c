"""Token ids of awkward words, held against an independent implementation and recorded ids."""

import gzip
import json

import pytest
from open_clip.tokenizer import SimpleTokenizer, bytes_to_unicode, default_bpe

from src.encoders.openclip import OpenClip
from src.errors import InputError

AWKWARD = [
    "This is the word anti-war",
    "THEY ARE THE WORD Ku Klux Klan",
    "Here is the word façade",
    "Here is the word café",
    "Those are the word mother-in-law's",
    "that is the word  two   blanks ",
    "There is the word 24/7",
    "This is the word naïveté",
    "This is the word über-männlich",
    "This is the word <|x|>",
]
# Published with the model: a photo of a cat.
CAT = [49406, 320, 1125, 539, 320, 2368, 49407]
# Recorded once, and equal to both implementations below.
RECORDED = {
    "This is the word anti-war": [49406, 589, 533, 518, 2653, 3564, 268, 2238, 49407],
    "Here is the word façade": [49406, 763, 533, 518, 2653, 778, 10067, 1928, 49407],
}


@pytest.fixture(scope="module")
def ours():
    return OpenClip(None, None, SimpleTokenizer(context_length=77), "clip")


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """transformers' tokeniser, from the same list of merges."""
    from transformers import CLIPTokenizer

    with gzip.open(default_bpe()) as file:
        merges = file.read().decode().split("\n")[1 : 49152 - 256 - 2 + 1]
    signs = list(bytes_to_unicode().values())
    pieces = [*signs, *(sign + "</w>" for sign in signs), *("".join(merge.split()) for merge in merges)]
    vocabulary = {piece: i for i, piece in enumerate([*pieces, "<|startoftext|>", "<|endoftext|>"])}
    folder = tmp_path_factory.mktemp("clip")
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n")
    return CLIPTokenizer.from_pretrained(folder)


def ids(network, sentence):
    row = network.tokenize([sentence])[0].tolist()
    assert set(row[row.index(49407) + 1 :]) <= {0}
    return row[: row.index(49407) + 1]


def test_the_published_ids(ours):
    assert ids(ours, "a photo of a cat") == CAT


@pytest.mark.parametrize("sentence", AWKWARD)
def test_ids_are_those_of_transformers(ours, theirs, sentence):
    assert ids(ours, sentence) == theirs(sentence)["input_ids"]


@pytest.mark.parametrize("sentence", RECORDED)
def test_ids_are_those_recorded(ours, sentence):
    assert ids(ours, sentence) == RECORDED[sentence]


def test_an_over_long_word_is_refused_not_cut(ours):
    fits = "hm " * 75
    assert ours.tokenize([fits])[0, -1] == 49407
    with pytest.raises(InputError, match="needs 78 tokens, the context holds 77"):
        ours.tokenize([fits + "hm"])
    with pytest.raises(InputError, match="'This is the word xqxq"):
        ours.tokenize(["short", f"This is the word {'xq' * 80}"])
