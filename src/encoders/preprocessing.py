"""A library's preprocessing in two halves: a picture becomes bytes of one shape, the bytes become numbers.

The first half, done by the library's own steps, takes nearly all of the time and is the same for every model
of one geometry. The second treats each byte by itself: the library is asked once what it makes of each of the
256 values in each channel, and from then on that is looked up, bit-equal on any device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from PIL import Image
from torch import Tensor

from src.storage.versions import versions

# Step of torchvision or open_clip -> what decides its bytes.
STEPS = {
    "Resize": ("size", "interpolation", "max_size", "antialias"),
    "ResizeKeepRatio": ("size", "interpolation", "longest", "random_scale_prob", "random_aspect_prob"),
    "CenterCrop": ("size",),
    "CenterCropOrPad": ("size", "fill"),
    "MaybeConvertMode": ("mode",),
}
# Of a processor of transformers: what decides its second half alone, or names it.
SECOND = {"do_rescale", "rescale_factor", "do_normalize", "image_mean", "image_std"}
NAMES = {"image_processor_type", "processor_class", "return_tensors"}


@dataclass(frozen=True)
class Halves:
    """Both halves of a preprocessing.

    Attributes:
        geometry: all that decides the bytes: the library's steps, what they are told, versions.
        resized: bytes [3, H, W] of an RGB picture.
        values: what becomes of each byte in each channel, [3, 256].
    """

    geometry: Mapping[str, Any]
    resized: Callable[[Image.Image], UInt8[np.ndarray, "3 height width"]]
    values: Float[Tensor, "3 256"]


def normalised(
    pixels: UInt8[Tensor, "n 3 height width"], values: Float[Tensor, "3 256"]
) -> Float[Tensor, "n 3 height width"]:
    """The second half: pixels as a model takes them, on the device where they are."""
    first = torch.arange(0, values.numel(), 256, dtype=torch.int32, device=pixels.device)[:, None, None]
    flat, found = values.flatten(), torch.empty(pixels.shape, dtype=values.dtype, device=pixels.device)
    # One picture at a time stays in a CPU's cache: half the time. A GPU is asked once.
    size = 1 if pixels.device.type == "cpu" else len(pixels)
    for own, part in zip(torch.split(found, size), torch.split(pixels, size), strict=True):
        torch.index_select(flat, 0, (part.int() + first).flatten(), out=own.view(-1))
    return found


def of_torchvision(transform: Any) -> Halves | None:
    """Halves of a transform as open_clip composes it; None where it is of another kind."""
    from torchvision.transforms import Compose

    steps = list(getattr(transform, "transforms", ()))
    names = [type(step).__name__ for step in steps]
    first, second = names[:-2], names[-2:]
    if not first or not {*first} <= {*STEPS} or second != ["MaybeToTensor", "Normalize"]:
        return None
    told = [
        [name, {what: repr(getattr(step, what)) for what in STEPS[name]}]
        for name, step in zip(first, steps, strict=False)
    ]
    shrink, finish = Compose(steps[:-2]), Compose(steps[-2:])
    return Halves(
        _geometry(told, "torchvision", "open_clip_torch"),
        lambda picture: np.asarray(shrink(picture)).transpose(2, 0, 1),
        finish(_every_byte())[:, 0],
    )


def of_transformers(processor: Any) -> Halves | None:
    """Halves of BLIP's processor of pictures, computed with pillow; None of any other."""
    told = {name: said for name, said in processor.to_dict().items() if name not in SECOND | NAMES}
    # What is padded is padded with numbers that no byte becomes.
    if type(processor).__name__ != "BlipImageProcessorPil" or told.get("do_pad"):
        return None

    def pixels(picture: Image.Image, **without: bool) -> Any:
        return processor(picture, return_tensors="np", **without)["pixel_values"][0]

    values = torch.from_numpy(pixels(_every_byte(), do_resize=False, do_center_crop=False)[:, 0])
    if values.dtype != torch.float32:
        return None
    return Halves(
        _geometry(
            [["BlipImageProcessorPil", {name: repr(said) for name, said in told.items()}]], "transformers"
        ),
        lambda picture: pixels(picture, do_rescale=False, do_normalize=False),
        values,
    )


def _geometry(steps: list[Any], *libraries: str) -> dict[str, Any]:
    return {"steps": steps, "versions": versions("pillow", *libraries)}


def _every_byte() -> Image.Image:
    """A picture of one row, whose pixel v is v in each channel."""
    return Image.fromarray(np.repeat(np.arange(256, dtype=np.uint8)[None, :, None], 3, axis=2))
