"""Split batches of pictures into microbatches that suit the memory allocator.

glibc maps allocations above 32 MB from the kernel, which clears them, and unmaps them on release
(mallopt(3), M_MMAP_THRESHOLD): with a large batch, every layer maps and clears its memory anew. A GPU's
allocator reuses memory, and large batches are the most efficient.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.modules.module import register_module_forward_hook

# Maximum bytes of a tensor, safely below the 32 MB above which glibc maps memory.
MAX_BYTES = 24 << 20


def microbatch_size(encode: Callable[[Tensor], Tensor], pixels: Float[Tensor, "n 3 height width"]) -> int:
    """Return the number of pictures per pass: on a CPU, as many as `MAX_BYTES` per tensor allow; else all.

    On a CPU, the encoder is run on a single picture to measure its tensors.
    """
    if pixels.device.type != "cpu":
        return len(pixels)
    return max(1, MAX_BYTES // _largest_output(encode, pixels[:1]))


def encode_in_microbatches(
    encode: Callable[[Tensor], Tensor], pixels: Float[Tensor, "n 3 height width"], size: int
) -> Float[Tensor, "n *queries width"]:
    """Embed a batch in passes of at most `size` pictures."""
    return torch.cat([encode(chunk) for chunk in pixels.chunk(math.ceil(len(pixels) / size))])


def _largest_output(encode: Callable[[Tensor], Tensor], pixels: Tensor) -> int:
    """Return the bytes of the largest output tensor of any module of an encoder."""
    sizes = [1]

    def record(_: object, __: object, output: object) -> None:
        if isinstance(output, Tensor):
            sizes.append(output.nbytes)

    with register_module_forward_hook(record):
        encode(pixels)
    return max(sizes)
