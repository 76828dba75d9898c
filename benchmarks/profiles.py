"""Count parameters and GFLOPs of encoders, and print them in the format of src/encoders/profiles.csv.

python -m benchmarks.profiles
"""

import argparse
import logging
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import open_clip
import pandas as pd
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import Blip2Config, Blip2ForImageTextRetrieval

from src.encoders.blip2 import Blip2
from src.encoders.catalogue import COLUMNS

BLIP2 = "Salesforce/blip2-itm-vit-g"


def measure() -> Iterator[dict[str, str]]:
    """Yield the profile of every open_clip architecture that needs no files of the hub, and of BLIP-2."""
    for name in open_clip.list_models():
        architecture = open_clip.get_model_config(name)
        if "hf_model_name" not in architecture["text_cfg"]:
            yield profile(name, architecture)
    yield _blip2()


def profile(name: str, architecture: dict[str, Any]) -> dict[str, str]:
    """Profile an open_clip architecture on the meta device; GFLOPs: 2 per multiply-add, batch size 1."""
    logging.disable(logging.WARNING)  # open_clip warns of missing weights
    try:
        with torch.device("meta"):
            model = open_clip.create_model(name, load_weights=False, pretrained_text=False, device="meta")
    finally:
        logging.disable(logging.NOTSET)
    model.eval().requires_grad_(False)
    size = model.visual.image_size
    height, width = (size, size) if isinstance(size, int) else size
    pixels = torch.empty(1, 3, height, width, device="meta")
    context = architecture["text_cfg"].get("context_length", 77)
    tokens = torch.zeros(1, context, dtype=torch.long, device="meta")
    image_gflops, vector = _flops(model.encode_image, pixels)
    text_gflops, _ = _flops(model.encode_text, tokens)
    return _row(name, model, image_gflops, text_gflops, int(vector.shape[-1]))


def blip2_config() -> Any:
    """Return the config of `BLIP2`, which needs no files of the hub."""
    return Blip2Config(qformer_config={"use_qformer_text_input": True, "vocab_size": 30523})


def _blip2() -> dict[str, str]:
    with torch.device("meta"):
        model: Any = Blip2ForImageTextRetrieval(blip2_config())
    model = model.to_empty(device="cpu")  # transformers reads its masks: 5 GB of uninitialised memory
    for buffer in model.buffers():
        buffer.zero_()
    tokenizer = SimpleNamespace(pad_token_id=0)
    network = Blip2(model, None, tokenizer, BLIP2, "max", "fp32").eval().requires_grad_(False)
    image_gflops, vector = _flops(network.encode_images, torch.zeros(1, 3, 224, 224))
    text_gflops, _ = _flops(network.encode_texts, torch.ones(1, 16, dtype=torch.long))
    return _row(BLIP2, network, image_gflops, text_gflops, int(vector.shape[-1]))


def _row(name: str, model: Any, image_gflops: float, text_gflops: float, width: int) -> dict[str, str]:
    parameters = sum(weight.numel() for weight in model.parameters())
    cells = (name, f"{parameters / 1e6:.2f}", f"{image_gflops:.2f}", f"{text_gflops:.2f}", str(width))
    return dict(zip(COLUMNS, cells, strict=True))


def _flops(encode: Any, inputs: Any) -> tuple[float, Any]:
    """Return the GFLOPs of encoding inputs, and the resulting vectors."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        vector = encode(inputs)
    return counter.get_total_flops() / 1e9, vector


def main(arguments: list[str] | None = None) -> int:
    """Print the table of profiles; return the exit status."""
    argparse.ArgumentParser("python -m benchmarks.profiles", description=__doc__).parse_args(arguments)
    print(pd.DataFrame(measure(), columns=COLUMNS).to_csv(index=False), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
