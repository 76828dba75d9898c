"""How many pictures of a batch a network is shown at a time.

What glibc hands out above 32 MB it maps from the kernel, which clears it, and gives back at once
(mallopt(3), M_MMAP_THRESHOLD): every layer of a large batch pays for its memory anew. A GPU's allocator keeps
what it had, and wants batches as large as they come.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.modules.module import register_module_forward_hook

# Of one tensor, bytes: with room to what glibc maps.
WIDEST = 24 << 20


def at_once(encode: Callable[[Tensor], Tensor], pixels: Float[Tensor, "n 3 height width"]) -> int:
    """Pictures in a forward pass: on a CPU as many as leave its widest tensor below `WIDEST`, elsewhere all.

    Args:
        encode: the encoder, of which a CPU is shown one picture to see what it needs.
        pixels: a batch.
    """
    if pixels.device.type != "cpu":
        return len(pixels)
    return max(1, WIDEST // _widest(encode, pixels[:1]))


def encoded(
    encode: Callable[[Tensor], Tensor], pixels: Float[Tensor, "n 3 height width"], most: int
) -> Float[Tensor, "n *queries width"]:
    """Vectors of a batch, in passes of at most so many pictures, as even as may be."""
    return torch.cat([encode(part) for part in pixels.chunk(math.ceil(len(pixels) / most))])


def _widest(encode: Callable[[Tensor], Tensor], pixels: Tensor) -> int:
    """Bytes of the largest tensor that a module within an encoder gives."""
    sizes = [1]

    def note(_: object, __: object, made: object) -> None:
        if isinstance(made, Tensor):
            sizes.append(made.nbytes)

    with register_module_forward_hook(note):
        encode(pixels)
    return max(sizes)
