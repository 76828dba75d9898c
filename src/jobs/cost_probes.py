"""What work costs on this machine, measured on a scrap of it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from typing import Any

import psutil
import torch

from src import configs, encoders
from src.encoders.preprocessing import Halves
from src.metrics import cosines, mean_outcome, retrieved, unit

PROBED = 64
# Of a network as large as those that others trained.
PROBED_LARGE = 2
LARGE = 10_000_000  # parameters


@dataclass(frozen=True)
class Probe:
    """A network of random weights, timed.

    Attributes:
        image: seconds to preprocess and embed one picture; `image_alone` without preprocessing.
        sentence: seconds to embed one.
        width: of the vectors.
        weights, pixels: bytes of the network and of one preprocessed picture.
        halves: of its preprocessing; None where it is of an unknown kind.
    """

    image: float
    image_alone: float
    sentence: float
    width: int
    weights: float
    pixels: float
    halves: Halves | None


# A word in a template.
SENTENCE = "This is the word {}."
_known: dict[str, Probe] = {}


def network(cfg: configs.RunConfig) -> Probe:
    """Costs of the network that a job names, per picture and sentence; timed once per process."""
    key = repr((cfg.model, cfg.trainer.accelerator))
    if key not in _known:
        _known[key] = _measured(encoders.blank(cfg))
    return _known[key]


def _measured(blank: Any) -> Probe:
    from PIL import Image

    parameters = sum(weight.numel() for weight in blank.parameters())
    probed = PROBED if parameters < LARGE else PROBED_LARGE
    picture = Image.effect_noise((256, 256), 64).convert("RGB")
    pixels = blank.transform(picture)
    batch = pixels.expand(probed, *pixels.shape).contiguous()
    tokens = _sentences(blank, probed)
    with torch.inference_mode():
        image = _seconds(lambda: blank.encode_images(batch)) / probed
        sentence = _seconds(lambda: blank.encode_texts(tokens)) / len(tokens)
        width = blank.encode_texts(tokens[:1]).shape[-1]
    return Probe(
        image=image + _seconds(lambda: blank.transform(picture)),
        image_alone=image,
        sentence=sentence,
        width=int(width),
        weights=4.0 * parameters,
        pixels=4.0 * pixels.numel(),
        halves=blank.halves(),
    )


def _sentences(blank: Any, probed: int) -> torch.Tensor:
    """Tokens of sentences of one template: as many as `probed` sentences that fill the context."""
    longest = blank.tokenize([SENTENCE.format(9)])
    used = int(blank.lengths(longest).max())
    found: torch.Tensor = blank.tokenize(
        [SENTENCE.format(number % 10) for number in range(probed * longest.shape[1] // used)]
    )
    return found[:, :used]


@cache
def similarity_seconds(items: int, width: int) -> float:
    """Seconds per similarity of an analysis: product, top-k and outcome."""
    generator = torch.Generator().manual_seed(0)
    targets, corpus = (unit(torch.randn(n, width, generator=generator)) for n in (PROBED, items))
    outcomes = torch.rand(items, 1, generator=generator)
    k = max(1, min(500, items // 3))
    return _seconds(lambda: mean_outcome(retrieved(cosines(targets, corpus), k), outcomes)) / (PROBED * items)


@cache
def base_memory() -> float:
    """Bytes that every job has in memory before it reads anything."""
    import lightning  # noqa: F401

    return float(psutil.Process().memory_info().rss)


def _seconds(call: Any) -> float:
    call()
    start = time.perf_counter()
    for _ in range(3):
        call()
    return (time.perf_counter() - start) / 3
