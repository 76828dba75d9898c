"""Split a library's preprocessing in two: resize a picture to bytes, and normalise bytes to numbers.

Resizing, by the library's own steps, takes nearly all of the time and is the same for all models with the
same geometry. Normalising maps each byte separately: the library computes it once for the 256 values of each
channel, and pixels are then looked up in this table, with identical bits on any device.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from PIL import Image
from torch import Tensor

from src.storage.versions import library_versions

# Resizing step of torchvision or open_clip -> attributes that determine the resulting bytes.
STEPS = {
    "Resize": ("size", "interpolation", "max_size", "antialias"),
    "ResizeKeepRatio": ("size", "interpolation", "longest", "random_scale_prob", "random_aspect_prob"),
    "CenterCrop": ("size",),
    "CenterCropOrPad": ("size", "fill"),
    "MaybeConvertMode": ("mode",),
}
# Settings of a processor of transformers that affect only normalising, and settings that only name it.
NORMALISING = {"do_rescale", "rescale_factor", "do_normalize", "image_mean", "image_std"}
NAMING = {"image_processor_type", "processor_class", "return_tensors"}
# Processors of transformers that resize, crop and normalise with pillow and numpy, and do nothing else.
SPLIT_PROCESSORS = {f"{name}ImageProcessorPil" for name in ("Blip", "CLIP", "ChineseCLIP", "Siglip", "ViT")}


@dataclass(frozen=True)
class SplitPreprocessing:
    """Preprocessing in two steps: resizing to bytes, and normalising them."""

    geometry: Mapping[str, Any]  # what determines the bytes: the library's steps, settings, versions
    resize: Callable[[Image.Image], UInt8[np.ndarray, "3 height width"]]
    byte_values: Float[Tensor, "3 256"]  # normalised number of each byte in each channel


def normalise_bytes(
    pixels: UInt8[Tensor, "n 3 height width"], byte_values: Float[Tensor, "3 256"]
) -> Float[Tensor, "n 3 height width"]:
    """Replace each byte of `pixels` by its number in `byte_values`, on their device."""
    offsets = torch.arange(0, byte_values.numel(), 256, dtype=torch.int32, device=pixels.device)[
        :, None, None
    ]
    flat = byte_values.flatten()
    output = torch.empty(pixels.shape, dtype=flat.dtype, device=pixels.device)
    # A single picture fits into a CPU's cache, which halves the time. On a GPU, a single call is fastest.
    size = 1 if pixels.device.type == "cpu" else len(pixels)
    for target, source in zip(torch.split(output, size), torch.split(pixels, size), strict=True):
        torch.index_select(flat, 0, (source.int() + offsets).flatten(), out=target.view(-1))
    return output


def split_torchvision(transform: Any) -> SplitPreprocessing | None:
    """Split a transform composed by open_clip; return None for other kinds."""
    from torchvision.transforms import Compose

    steps = list(getattr(transform, "transforms", ()))
    names = [type(step).__name__ for step in steps]
    resizing, normalising = names[:-2], names[-2:]
    if not resizing or not {*resizing} <= {*STEPS} or normalising != ["MaybeToTensor", "Normalize"]:
        return None
    named = zip(resizing, steps, strict=False)
    settings = [[name, {key: repr(getattr(step, key)) for key in STEPS[name]}] for name, step in named]
    resize, normalise = Compose(steps[:-2]), Compose(steps[-2:])
    return SplitPreprocessing(
        {"steps": settings, "versions": library_versions("pillow", "torchvision", "open_clip_torch")},
        lambda picture: np.asarray(resize(picture)).transpose(2, 0, 1),
        normalise(_draw_every_byte())[:, 0],
    )


def split_transformers(processor: Any) -> SplitPreprocessing | None:
    """Split an image processor of `SPLIT_PROCESSORS`; return None for other kinds."""
    settings = {key: value for key, value in processor.to_dict().items() if key not in NORMALISING | NAMING}
    # Padding adds values that no byte is mapped to, so the table would lack them.
    name = type(processor).__name__
    if name not in SPLIT_PROCESSORS or settings.get("do_pad"):
        return None

    def compute_pixels(picture: Image.Image, **options: bool) -> Any:
        return processor(picture, return_tensors="np", **options)["pixel_values"][0]

    values = torch.from_numpy(compute_pixels(_draw_every_byte(), do_resize=False, do_center_crop=False)[:, 0])
    if values.dtype != torch.float32:
        return None
    step = [name, {key: repr(value) for key, value in settings.items()}]
    resize = functools.partial(compute_pixels, do_rescale=False, do_normalize=False)
    return SplitPreprocessing(
        {"steps": [step], "versions": library_versions("pillow", "transformers")}, resize, values
    )


def _draw_every_byte() -> Image.Image:
    """Draw a picture of 256 x 1 pixels; pixel v has the value v in each channel."""
    return Image.fromarray(np.repeat(np.arange(256, dtype=np.uint8)[None, :, None], 3, axis=2))
