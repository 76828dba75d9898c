"""Check that a tokenizer that needs a language is told it, and what this changes in keys."""

import pandas as pd
import pytest
import torch
import transformers

from src import encoders
from src.embeddings.store import collect_identity
from src.errors import InputError
from src.stimuli import Table
from tests.encoders.small_checkpoints import open_clip_files, write_folder

SENTENCES = ["esta es la palabra mesa", "hola"]
PHOTOS = ("dataset=photos", "dataset.root=x", "exp=labels_to_scenes", "model.languages=[multilingual]")


def nllb_files(scratch):
    """Return the files of a small tokenizer like NLLB's, which puts the language before the letters."""
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "▁", *"abcdefghijklmnopqrstuvwxyz"]
    tokenizer = transformers.NllbTokenizer(
        vocab={piece: i for i, piece in enumerate(pieces)},
        merges=[],
        additional_special_tokens=["eng_Latn", "spa_Latn"],
        model_max_length=64,
    )
    tokenizer.save_pretrained(scratch)
    return {path.name: path.read_bytes() for path in scratch.iterdir()}


@pytest.fixture
def folder(tmp_path):
    """Write a small open_clip model with the tokenizer of NLLB."""
    (tmp_path / "made").mkdir()
    files = open_clip_files("ViT-B-16-SigLIP2", tmp_path / "made")
    return write_folder(files | nllb_files(tmp_path / "tokenizer"), tmp_path / "nllb")


@pytest.fixture
def opened(job, folder):
    """Return a function that opens the encoder of a job in a language."""

    def open_job(*overrides):
        made = job(*PHOTOS, "model=open_clip", f"model.id={folder}", *overrides)
        return encoders.open_encoder(made.cfg, lambda role: None)

    return open_job


def test_a_tokenizer_puts_the_language_first(opened):
    english, spanish = (opened(f"language={code}") for code in ("en", "es"))
    tokens = {name: each.load().tokenize(SENTENCES) for name, each in (("en", english), ("es", spanish))}
    codes = {name: {*rows[:, 0].tolist()} for name, rows in tokens.items()}
    assert len(codes["en"]) == len(codes["es"]) == 1
    assert codes["en"] != codes["es"]
    assert torch.equal(tokens["en"][:, 1:], tokens["es"][:, 1:])
    assert dict(spanish.find_unread([*SENTENCES, "ñ"])) == {2: "unknown"}


def test_the_language_is_in_the_key_of_texts_alone_and_english_has_the_older_key(opened):
    english, spanish = (opened(f"language={code}") for code in ("en", "es"))
    assert spanish.identity == english.identity
    assert (english.text_identity, spanish.text_identity) == ({}, {"language": "spa_Latn"})
    for role, changes in (("faces", False), ("words", True), ("labels", True)):
        table = Table(role, pd.DataFrame({"id": ["a"]}), 1)
        keys = [collect_identity(each, table, 64) for each in (english, spanish)]
        assert (keys[0] != keys[1]) == changes
        assert "text" not in keys[0]


def test_a_code_that_is_missing_or_unknown_is_refused(opened):
    with pytest.raises(InputError, match=r"needs the code of the language in FLORES-200. Add it to the YAML"):
        opened("language=es", "language.flores=''")
    with pytest.raises(InputError, match="language.flores=xyz_Latn: the model's tokenizer has no such lang"):
        opened("language=es", "language.flores=xyz_Latn").find_unread(SENTENCES)


def test_other_tokenizers_need_no_language(job, tmp_path):
    (tmp_path / "made").mkdir()
    plain = write_folder(open_clip_files("ViT-B-16-SigLIP2", tmp_path / "made"), tmp_path / "plain")
    made = job(*PHOTOS, "model=open_clip", f"model.id={plain}", "language=es")
    encoder = encoders.open_encoder(made.cfg, lambda role: None)
    assert (encoder.in_language, encoder.text_identity) == (None, {})
