"""Find the weights of a generative model, and what loads it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from src.configs import GenerateConfig, HfConfig, TinyConfig, TinyVlmConfig, VlmHfConfig
from src.encoders.processor import check_precision
from src.generators import hub_weights, tiny, tiny_vlm
from src.generators.causal import Causal
from src.generators.multimodal import Multimodal


def check_device(cfg: GenerateConfig) -> None:
    """Check that this machine computes in the model's precision.

    Raises:
        InputError: it does not.
    """
    if isinstance(cfg.llm, HfConfig | VlmHfConfig):
        check_precision("llm.precision", cfg.llm.precision, cfg.trainer.accelerator)


def find(cfg: GenerateConfig) -> tuple[dict[str, str], Callable[[], Causal | Multimodal] | None]:
    """Find a model's weights.

    Returns:
        Revision and hashes of the weights, and what loads the model; nothing and None if a server has it, or
        answers need no model.

    Raises:
        InputError: see `hub_weights.find`.
    """
    llm = cfg.llm
    if isinstance(llm, TinyConfig):
        return {"revision": "random"}, partial(tiny.load, llm)
    if isinstance(llm, TinyVlmConfig):
        return {"revision": "random"}, partial(tiny_vlm.load, llm)
    if not isinstance(llm, HfConfig | VlmHfConfig):
        return {}, None
    published = hub_weights.find(llm)
    accelerator = cfg.trainer.accelerator
    gpu = accelerator == "gpu" or (accelerator == "auto" and torch.cuda.is_available())
    load = partial(hub_weights.load, published, torch.device("cuda" if gpu else "cpu"))
    return {**published.said(), **published.files()}, load
