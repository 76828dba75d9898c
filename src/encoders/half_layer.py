"""Time a transformer layer and a convolution in half precision, and print how much longer than in float32.

A program of its own, for a processor that lacks an instruction ends it by a signal. It imports nothing of
the project.

python src/encoders/half_layer.py bf16 2         precision, threads
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
TURNS = 3
PICTURES = 8


class Block(nn.Module):
    """Attention as open_clip calls it, and an MLP, of ViT-B/32's size."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(768, 12, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(768, 3072), nn.GELU(), nn.Linear(3072, 768))

    def forward(self, x: Tensor) -> Tensor:
        """Compute the block: [N, tokens, 768] of the same."""
        attended: Tensor = self.mlp(self.attention(x, x, x, need_weights=False)[0])
        return attended


def slowdown(encode: Callable[[Tensor], Tensor], shown: Tensor, dtype: torch.dtype) -> float:
    """Return the time in half precision over the time in float32, each the shortest of alternate turns.

    Args:
        encode: the layer.
        shown: its input, float32.
        dtype: bfloat16 or float16.
    """
    times: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(TURNS):
        for half, seconds in times.items():
            start = time.perf_counter()
            with torch.inference_mode(), torch.autocast("cpu", dtype, enabled=half):
                encode(shown.to(dtype) if half else shown)  # as the layer before leaves it
            seconds.append(time.perf_counter() - start)
    return min(times[True]) / min(times[False])


def main(precision: str, threads: str) -> None:
    """Print the slowdown of a layer of ViT-B/32 and of its patch embedding, one number each.

    Args:
        precision: bf16 or fp16.
        threads: of torch.
    """
    torch.set_num_threads(int(threads))
    patches = nn.Conv2d(3, 768, kernel_size=32, stride=32)
    print(slowdown(Block().eval(), torch.rand(PICTURES, 50, 768), DTYPES[precision]))
    print(slowdown(patches, torch.rand(PICTURES, 3, 224, 224), DTYPES[precision]))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except RuntimeError as error:  # torch's, where it has no kernel
        sys.exit(print(error) or 1)
