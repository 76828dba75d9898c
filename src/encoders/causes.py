"""Find the cause of a difference from published scores: change a single thing, and compare."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from open_clip.transformer import QuickGELU
from PIL import Image
from torch import Tensor, nn

from src.configs import GoldenConfig
from src.encoders.verification import Comparison, compare, compare_tokens
from src.errors import InputError, brief

# Classes of activations in open_clip, timm and transformers.
QUICK = {"QuickGELU", "QuickGELUActivation"}
PLAIN = {"GELU", "GELUActivation", "GELUTanh", "PytorchGELUTanh"}
# What is changed: classes that are replaced -> name of the change, class put in their place, remedy.
ACTIVATIONS = (
    (PLAIN, "QuickGELU", QuickGELU, "the id lacks -quickgelu (of transformers: hidden_act in config.json)"),
    (
        QUICK,
        "plain GELU",
        nn.GELU,
        "the id has -quickgelu, or hidden_act in config.json quick_gelu, in error",
    ),
)
FILTERS = {"bicubic": Image.Resampling.BICUBIC, "bilinear": Image.Resampling.BILINEAR}
RESIZE_REMEDY = "resizing in the preprocessing config is not that of the publisher"
PADDING_REMEDY = "padding of the texts is not that of the publisher"
CASE_REMEDY = "the publisher's tokenizer converts texts to lower case"
PRECISION_REMEDY = "the publisher computed in another precision: set model.precision, or widen the tolerance"


@dataclass(frozen=True)
class Trial:
    """Scores after a single change."""

    change: str  # what was changed, for "with ..."
    remedy: str  # what it means if the scores agree
    comparison: Comparison | None = None  # None: the change cannot be tried
    reason: str = ""  # why it cannot be tried


def try_causes(
    network: Any, picture: Image.Image, golden: GoldenConfig, reload: Callable[[str], Any], precision: str
) -> Iterator[Trial]:
    """Yield a trial for each usual cause.

    Args:
        network: loaded network.
        picture: picture of the published scores.
        golden: published scores.
        reload: precision -> the network loaded in that precision.
        precision: current precision.
    """
    yield from _try_activations(network, picture, golden)
    yield from _try_resizing(network, picture, golden)
    yield from _try_texts(network, picture, golden)
    for other in ("fp32", "bf16", "fp16"):
        if other != precision:
            yield _try_precision(reload, other, picture, golden)


def _try_precision(
    reload: Callable[[str], Any], precision: str, picture: Image.Image, golden: GoldenConfig
) -> Trial:
    change = f"model.precision={precision}"
    return _attempt(change, PRECISION_REMEDY, lambda: compare(reload(precision), picture, golden))


def _attempt(change: str, remedy: str, compute: Callable[[], Comparison]) -> Trial:
    """Return the trial of a change; networks may not accept it."""
    try:
        return Trial(change, remedy, compute())
    except (InputError, RuntimeError, ValueError, TypeError, IndexError) as error:
        return Trial(change, remedy, reason=brief(str(error) or repr(error)))


def _try_activations(network: Any, picture: Image.Image, golden: GoldenConfig) -> Iterator[Trial]:
    """Yield trials with each kind of GELU replaced by the other."""
    names = {type(module).__name__ for module in network.modules()}
    for replaced, change, activation, remedy in ACTIVATIONS:
        if names & replaced:
            with _replace_activations(network, replaced, activation):
                yield _attempt(change, remedy, lambda: compare(network, picture, golden))
    if not names & (QUICK | PLAIN):
        yield Trial("another activation", "", reason="the network has no GELU")


@contextmanager
def _replace_activations(network: nn.Module, names: set[str], activation: type[nn.Module]) -> Iterator[None]:
    """Replace the activations of the named classes within this block."""
    places = [
        (parent, name, child)
        for parent in network.modules()
        for name, child in parent.named_children()
        if type(child).__name__ in names
    ]
    for parent, name, _ in places:
        setattr(parent, name, activation())
    try:
        yield
    finally:
        for parent, name, child in places:
            setattr(parent, name, child)


def _try_resizing(network: Any, picture: Image.Image, golden: GoldenConfig) -> Iterator[Trial]:
    """Yield trials with the picture resized before the network's preprocessing, which then only crops it."""
    shape = tuple(network.transform(picture).shape)
    if len(shape) != 3 or shape[0] != 3:
        reason = "the network reads patches, whose number depends on the picture's shape"
        yield Trial("another resizing", RESIZE_REMEDY, reason=reason)
        return
    height, width = shape[1:]
    scale = max(width / picture.width, height / picture.height)
    covering = max(width, int(picture.width * scale)), max(height, int(picture.height * scale))
    for geometry, size in (("then cropped", covering), ("to a square, uncropped", (width, height))):
        for name, resample in FILTERS.items():
            for with_antialias in (True, False):
                resized = _resize(picture, size, resample, with_antialias)
                change = f"{name} resizing {'with' if with_antialias else 'without'} antialias, {geometry}"
                yield _attempt(change, RESIZE_REMEDY, partial(compare, network, resized, golden))


def _resize(
    picture: Image.Image, size: tuple[int, int], resample: Image.Resampling, with_antialias: bool
) -> Image.Image:
    if with_antialias:
        return picture.resize(size, resample)
    scales = picture.width / size[0], 0, 0, 0, picture.height / size[1], 0
    return picture.transform(size, Image.Transform.AFFINE, scales, resample)


def _try_texts(network: Any, picture: Image.Image, golden: GoldenConfig) -> Iterator[Trial]:
    """Yield trials with texts padded otherwise, and in lower case."""
    tokens = network.tokenize(golden.texts)
    padded = _cut_padding(tokens)
    change = "texts padded to the longest"
    if not padded and (longer := _add_padding(network, tokens)) is not None:
        padded, change = [longer], "texts padded to the full length"
    trials = [
        _attempt(change, PADDING_REMEDY, partial(compare_tokens, network, picture, candidate, golden))
        for candidate in padded
    ]
    if trials:
        yield min(trials, key=lambda trial: trial.comparison.largest if trial.comparison else math.inf)
    else:
        reason = "the texts have no padding to cut, and none can be added"
        yield Trial("other padding", PADDING_REMEDY, reason=reason)
    lower = [text.lower() for text in golden.texts]
    if lower != [*golden.texts]:
        yield _attempt(
            "texts in lower case",
            CASE_REMEDY,
            lambda: compare_tokens(network, picture, network.tokenize(lower), golden),
        )


def _cut_padding(tokens: Tensor) -> list[Tensor]:
    """Return tokens without the columns at the end in which all texts repeat the same token.

    The end of a text may be the same token as padding (as in SigLIP), so tokens with one more column are
    returned as well. Empty if there is no padding.
    """
    if (tokens[:, -1] != tokens[0, -1]).any():
        return []
    trailing = (tokens == tokens[:, -1:]).flip(1).cumprod(dim=1).sum(dim=1)
    length = tokens.shape[1] - int(trailing.min())
    return [tokens[:, :end] for end in (length, length + 1) if 0 < end < tokens.shape[1]]


def _add_padding(network: Any, tokens: Tensor) -> Tensor | None:
    """Return tokens padded to the full length with attention; None if the network does not state how."""
    texts = getattr(getattr(network.model, "config", None), "text_config", None)
    length = getattr(texts, "max_position_embeddings", None)
    padding = getattr(texts, "pad_token_id", None)
    if length is None or padding is None or tokens.shape[1] >= length:
        return None
    padded = tokens.where(tokens >= 0, padding)
    return nn.functional.pad(padded, (0, length - tokens.shape[1]), value=padding)
