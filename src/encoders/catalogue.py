"""Which encoders can be chosen, and what they are: parameters, cost, width."""

from __future__ import annotations

import csv
import functools
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from src import configs
from src.encoders import family_of, published_encoder
from src.errors import InputError
from src.storage import cache

PROFILES = Path(__file__).with_name("profiles.csv")
# What open_clip 2.22.0 lists, the release with just 90: the paper's own list is not at hand.
CAPITANI = Path(__file__).with_name("capitani2024.csv")
COLUMNS = ("architecture", "parameters_millions", "gflops_image", "gflops_text", "width")
BLIP2 = "Salesforce/blip2-itm-vit-g"


def pairs() -> list[str]:
    """Every architecture/weights of open_clip that can be loaded as it was trained."""
    import open_clip

    return [f"{name}/{tag}" for name, tag in open_clip.list_pretrained() if faithful(name, tag) == name]


def faithful(name: str, tag: str) -> str:
    """The architecture with the GELU of the weights: `name`, or its `-quickgelu` twin."""
    import open_clip

    quick = open_clip.get_pretrained_cfg(name, tag).get("quick_gelu", False)
    return name if not quick or open_clip.get_model_config(name).get("quick_gelu") else f"{name}-quickgelu"


def capitani() -> tuple[list[str], int]:
    """The models of Capitani et al. 2024 as far as they can be told, each once.

    Returns:
        Their ids, and of how many names they are the weights: open_clip lists some under two.
    """
    with CAPITANI.open(encoding="utf-8", newline="") as file:
        rows = [(row["architecture"], row["weights"]) for row in csv.DictReader(file)]
    ids = [f"{faithful(name, tag)}/{tag}" for name, tag in rows]
    return list(dict.fromkeys(ids)), len(rows)


@functools.cache
def profiles() -> dict[str, dict[str, str]]:
    """Architecture -> its row of profiles.csv."""
    with PROFILES.open(encoding="utf-8", newline="") as file:
        return {row["architecture"]: row for row in csv.DictReader(file)}


def profile_of(name: str) -> dict[str, str]:
    """Parameters (millions), GFLOPs of an image and of a text, and width of a model's vectors, by its id."""
    row = profiles().get(name) or profiles().get(name.partition("/")[0], {})
    return {column: row.get(column, "unknown") for column in COLUMNS[1:]}


def is_cached(config: configs.PretrainedConfig) -> bool:
    """Whether all files of a model are at hand."""
    with cache.dry():
        try:
            # Weights first: they are what lacks where anything does, and looking for them costs nothing.
            family_of(config).files(config)
            published_encoder(config, "")
        except (cache.NotStored, InputError):
            return False
    return True


def measure() -> Iterator[dict[str, str]]:
    """Profile of every architecture that can be built without files of the hub, and of BLIP-2."""
    import open_clip

    for name in open_clip.list_models():
        architecture = open_clip.get_model_config(name)
        if "hf_model_name" not in architecture["text_cfg"]:
            yield profile(name, architecture)
    yield _blip2()


def profile(name: str, architecture: dict[str, Any]) -> dict[str, str]:
    """Parameters and GFLOPs (2 per multiply-add, batch of one) of an open_clip architecture, on no device."""
    import open_clip
    import torch

    logging.disable(logging.WARNING)  # that it has no weights
    try:
        with torch.device("meta"):
            model = open_clip.create_model(name, load_weights=False, pretrained_text=False, device="meta")
    finally:
        logging.disable(logging.NOTSET)
    model.eval().requires_grad_(False)
    size = model.visual.image_size
    height, width = (size, size) if isinstance(size, int) else size
    pixels = torch.empty(1, 3, height, width, device="meta")
    tokens = torch.zeros(
        1, architecture["text_cfg"].get("context_length", 77), dtype=torch.long, device="meta"
    )
    image, vector = _flops(model.encode_image, pixels)
    text, _ = _flops(model.encode_text, tokens)
    return _row(name, model, image, text, int(vector.shape[-1]))


def _blip2() -> dict[str, str]:
    import torch
    from transformers import Blip2Config, Blip2ForImageTextRetrieval

    config = Blip2Config(qformer_config={"use_qformer_text_input": True, "vocab_size": 30523})
    with torch.device("meta"):
        model: Any = Blip2ForImageTextRetrieval(config)
    model = model.to_empty(device="cpu")  # its masks are looked into: 5 GB of whatever is there
    for buffer in model.buffers():
        buffer.zero_()
    from src.encoders.blip2 import Blip2

    class _Padding:
        pad_token_id = 0

    network = Blip2(model, None, _Padding(), BLIP2).eval().requires_grad_(False)
    image, vector = _flops(network.encode_images, torch.zeros(1, 3, 224, 224))
    text, _ = _flops(network.encode_texts, torch.ones(1, 16, dtype=torch.long))
    return _row(BLIP2, network, image, text, int(vector.shape[-1]))


def _row(name: str, model: Any, image: float, text: float, width: int) -> dict[str, str]:
    parameters = sum(weight.numel() for weight in model.parameters())
    return dict(
        zip(
            COLUMNS, (name, f"{parameters / 1e6:.2f}", f"{image:.2f}", f"{text:.2f}", str(width)), strict=True
        )
    )


def _flops(encode: Any, shown: Any) -> tuple[float, Any]:
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    with torch.no_grad(), FlopCounterMode(display=False) as counted:
        vector = encode(shown)
    return counted.get_total_flops() / 1e9, vector
