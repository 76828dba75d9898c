"""Build small random checkpoints of the real classes, and write them into folders or the hub's cache."""

import hashlib
import json
from pathlib import Path

import open_clip
import torch
from open_clip.pretrained import get_pretrained_cfg
from safetensors.torch import save_file

COMMIT = "0123456789abcdef0123456789abcdef01234567"
# The tokenizer knows each of these characters, both at the start of a word and within it.
ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789-'"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]

TEXT = {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1}
VISION = {"image_size": 32, "layers": 1, "width": 64, "patch_size": 16}
# Configs of open_clip with small sizes.
SMALL = {
    "ViT-B-32-quickgelu": {"embed_dim": 24, "quick_gelu": True, "vision_cfg": VISION, "text_cfg": TEXT},
    "ViT-L-14-quickgelu": {
        "embed_dim": 32, "quick_gelu": True, "vision_cfg": VISION | {"layers": 2}, "text_cfg": TEXT,
    },
    "RN50": {
        "embed_dim": 16,
        "vision_cfg": {"image_size": 64, "layers": [1, 1, 1, 1], "width": 8, "patch_size": None},
        "text_cfg": TEXT,
    },
    # Like SigLIP: an image tower of timm, a tokenizer in the hub's format, no causal mask, the last token
    # pooled.
    "ViT-B-16-SigLIP2": {
        "embed_dim": 64, "init_logit_bias": -10, "custom_text": True,
        "vision_cfg": {
            "image_size": 160, "timm_model_name": "test_vit", "timm_pool": "map", "timm_proj": "none",
        },
        "text_cfg": {
            "context_length": 64, "vocab_size": 200, "hf_tokenizer_name": "timm/ViT-B-16-SigLIP2",
            "tokenizer_kwargs": {"clean": "canonicalize"}, "width": 32, "heads": 2, "layers": 1,
            "no_causal_mask": True, "proj_bias": True, "pool_type": "last",
        },
    },
}  # fmt: skip


def write_to_cache(cache: Path, repository: str, files: dict[str, bytes], commit: str = COMMIT) -> Path:
    """Write files of a repository into the hub's cache, and return the folder of the snapshot.

    The cache has blobs named by their hash, and a snapshot of links to them.
    """
    home = cache / f"models--{repository.replace('/', '--')}"
    snapshot = home / "snapshots" / commit
    for folder in (home / "blobs", home / "refs", snapshot):
        folder.mkdir(parents=True, exist_ok=True)
    (home / "refs" / "main").write_text(commit)
    for name, content in files.items():
        blob = home / "blobs" / hashlib.sha256(content).hexdigest()
        blob.write_bytes(content)
        (snapshot / name).parent.mkdir(exist_ok=True)
        (snapshot / name).unlink(missing_ok=True)
        (snapshot / name).symlink_to(blob)
    return snapshot


def write_folder(files: dict[str, bytes], path: Path) -> Path:
    """Write files into a folder, and return the folder."""
    path.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_bytes(content)
    return path


def open_clip_files(architecture: str, scratch: Path, seed: int = 0) -> dict[str, bytes]:
    """Return the files of an open_clip model of a small architecture, made in the folder `scratch`."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = build_open_clip(architecture, scratch)
    state = {name: value.contiguous() for name, value in model.state_dict().items()}
    save_file(state, scratch / "weights.safetensors", metadata={"format": "pt"})
    config = {"model_cfg": SMALL[architecture], "preprocess_cfg": {"mean": [0.5] * 3, "std": [0.5] * 3}}
    return {
        "open_clip_model.safetensors": (scratch / "weights.safetensors").read_bytes(),
        "open_clip_config.json": json.dumps(config).encode(),
        **(tokenizer_files() if "hf_tokenizer_name" in SMALL[architecture]["text_cfg"] else {}),
    }


def build_open_clip(architecture: str, scratch: Path) -> torch.nn.Module:
    """Build a small architecture of open_clip with random weights; write its config to `scratch`."""
    config_path = scratch / "config" / "open_clip_config.json"
    config_path.parent.mkdir(parents=True, exist_ok=True)
    config_path.write_text(json.dumps({"model_cfg": SMALL[architecture], "preprocess_cfg": {}}))
    return open_clip.create_model(
        f"local-dir:{config_path.parent}", load_weights=False, pretrained_text=False
    ).eval()


def hub_repository(architecture: str, tag: str) -> str:
    """Return the hub's repository that open_clip lists for these weights."""
    return get_pretrained_cfg(architecture, tag)["hf_hub"].rstrip("/")


def tokenizer_files(**fields: str) -> dict[str, bytes]:
    """Return the files of a tokenizer of characters and four words; `fields` are added to its config."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    pieces = [*SPECIAL, *ALPHABET, *(f"##{character}" for character in ALPHABET), "this", "is", "the", "word"]
    wordpiece = Tokenizer(
        models.WordPiece(vocab={piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]")
    )
    wordpiece.normalizer = normalizers.BertNormalizer(lowercase=True)
    wordpiece.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    wordpiece.decoder = decoders.WordPiece()
    wordpiece.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": 64,
        **{f"{kind}_token": f"[{kind.upper()}]" for kind in ("pad", "unk", "cls", "sep", "mask")},
        **fields,
    }
    tokenizer_config = json.dumps(config).encode()
    return {"tokenizer.json": wordpiece.to_str().encode(), "tokenizer_config.json": tokenizer_config}


def blip2_files(
    scratch: Path, seed: int = 0, pickled: bool = False, sharded: bool = False
) -> dict[str, bytes]:
    """Return the files of a small Blip2ForImageTextRetrieval, as transformers saves them to `scratch`.

    `pickled`: weights in `pytorch_model.bin` instead of safetensors. `sharded`: weights in several files.
    """
    from transformers import Blip2Config, Blip2ForImageTextRetrieval, BlipImageProcessor

    config = Blip2Config(
        vision_config={
            "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2,
            "image_size": 28, "patch_size": 14,
        },
        qformer_config={
            "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
            "encoder_hidden_size": 32, "vocab_size": 200, "max_position_embeddings": 64,
            "use_qformer_text_input": True,
        },
        num_query_tokens=32,
        image_text_hidden_size=16,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Blip2ForImageTextRetrieval(config).eval()
        for weights in model.parameters():  # with the usual SD of 0.02, all vectors would be alike
            torch.nn.init.normal_(weights, std=0.3)
    model.save_pretrained(scratch, max_shard_size="60KB" if sharded else "5GB")
    BlipImageProcessor(size={"height": 28, "width": 28}).save_pretrained(scratch)
    if pickled:
        (scratch / "model.safetensors").unlink()
        torch.save(model.state_dict(), scratch / "pytorch_model.bin")
    return {item.name: item.read_bytes() for item in scratch.iterdir() if item.is_file()} | tokenizer_files()
