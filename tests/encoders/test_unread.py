"""Check which texts the tokenizers of each class of encoders do not read whole, without any weights."""

import json

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from src import configs, encoders
from src.encoders.unread import TOO_LONG, UNKNOWN
from tests.encoders.dual_checkpoints import clip_tokenizer_files, dual_files
from tests.encoders.embedder_checkpoints import embedder_files
from tests.encoders.small_checkpoints import blip2_files, open_clip_files, write_folder

LONG = "ab " * 80
TEXTS = ["this is the word calm", "this is the word 快乐", "هذه هي كلمة", LONG, "this is the word Ärger"]


def xlm_roberta_files():
    """Return the files of a tokenizer like XLM-R's, with some letters of Arabic and Chinese."""
    letters = [*"abcdefghijklmnopqrstuvwxyzÄ", *"هذيكلمة", "快"]
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "▁", *letters]
    unigram = Tokenizer(models.Unigram([(piece, -1.0) for piece in pieces], unk_id=3, byte_fallback=False))
    unigram.normalizer = normalizers.NFKC()
    unigram.pre_tokenizer = pre_tokenizers.Metaspace()
    special = [("<s>", 0), ("</s>", 2)]
    unigram.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=special)
    names = {"pad": "<pad>", "unk": "<unk>", "bos": "<s>", "eos": "</s>", "cls": "<s>", "sep": "</s>"}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 64}
    config |= {f"{kind}_token": token for kind, token in names.items()}
    return {"tokenizer.json": unigram.to_str().encode(), "tokenizer_config.json": json.dumps(config).encode()}


def opened(config, files, path):
    """Open an encoder from files without weights."""
    small = {name: content for name, content in files.items() if "safetensors" not in name}
    model = config(name="tried", id=str(write_folder(small, path)), weights="random")
    return encoders.open_published(model, "cpu")


HF, OPEN_CLIP = configs.HfEncoderConfig, configs.OpenClipConfig
UNREAD = {1: UNKNOWN, 2: UNKNOWN, 3: TOO_LONG}


@pytest.mark.parametrize(
    ("name", "tokenizer", "expected"),
    [
        # Chinese-CLIP's [UNK] of BERT; its normaliser takes the dots off Ä.
        ("chinese_clip", {}, UNREAD),
        ("altclip", xlm_roberta_files(), {1: UNKNOWN, 3: TOO_LONG}),
        # SigLIP 2 reads what is not in its vocabulary as bytes.
        ("siglip2", {}, {3: TOO_LONG}),
        # CLIP's unknown token also ends a text, and byte pairs are never unknown.
        ("owlvit", clip_tokenizer_files(), {3: TOO_LONG}),
    ],
)
def test_transformers_tokenizers(name, tokenizer, expected, tmp_path):
    encoder = opened(HF, dual_files(name, tmp_path / "made") | tokenizer, tmp_path / "model")
    assert dict(encoder.find_unread(TEXTS)) == expected
    network = encoder.load()
    for index, text in enumerate(TEXTS):
        if expected.get(index) == TOO_LONG:
            with pytest.raises(encoders.InputError, match="tokens, the context holds"):
                network.tokenize([text])
        else:
            network.tokenize([text])


@pytest.mark.parametrize(
    ("architecture", "tokenizer", "expected"),
    [
        ("ViT-B-32-quickgelu", {}, {3: TOO_LONG}),
        ("ViT-B-16-SigLIP2", {}, UNREAD),
        ("ViT-B-16-SigLIP2", xlm_roberta_files(), {1: UNKNOWN, 3: TOO_LONG, 4: UNKNOWN}),
    ],
)
def test_open_clip_tokenizers(architecture, tokenizer, expected, tmp_path):
    (tmp_path / "made").mkdir()
    files = open_clip_files(architecture, tmp_path / "made") | tokenizer
    encoder = opened(OPEN_CLIP, files, tmp_path / "model")
    assert dict(encoder.find_unread(TEXTS)) == expected


@pytest.mark.thorough
def test_other_families(tmp_path):
    embedder = embedder_files("siglip2", tmp_path / "made")
    (tmp_path / "made-blip2").mkdir()
    blip2 = blip2_files(tmp_path / "made-blip2")
    opened_embedder = opened(configs.SentenceTransformersConfig, embedder, tmp_path / "embedder")
    assert dict(opened_embedder.find_unread(TEXTS)) == {3: TOO_LONG}
    assert dict(opened(configs.Blip2Config, blip2, tmp_path / "blip2").find_unread(TEXTS)) == UNREAD
