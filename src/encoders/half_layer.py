"""Time a transformer layer and a convolution in half precision, and print the slowdown relative to float32.

This is a separate program, as a processor that lacks an instruction ends it by a signal. It imports nothing
from the project.

python src/encoders/half_layer.py PRECISION THREADS        # such as: bf16 2
"""

import sys
import time
from copy import deepcopy

import torch
from torch import Tensor, nn

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Block(nn.Module):
    """Attention, called in the same way as by open_clip, and an MLP, with the sizes of ViT-B/32."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(768, 12, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(768, 3072), nn.GELU(), nn.Linear(3072, 768))

    def forward(self, x: Tensor) -> Tensor:
        """Compute the block: [N, tokens, 768] from input of the same shape."""
        attended: Tensor = self.mlp(self.attention(x, x, x, need_weights=False)[0])
        return attended


def measure_slowdown(layer: nn.Module, inputs: Tensor, dtype: torch.dtype) -> float:
    """Return a layer's time in half precision relative to float32, with the minima of three runs."""
    half = deepcopy(layer).to(dtype)
    times: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(3):
        for in_half, seconds in times.items():
            start = time.perf_counter()
            with torch.inference_mode(), torch.autocast("cpu", dtype, enabled=in_half):
                # The input has the type of the previous layer's output.
                half(inputs.to(dtype)) if in_half else layer(inputs)
            seconds.append(time.perf_counter() - start)
    return min(times[True]) / min(times[False])


def main(precision: str, threads: str) -> None:
    """Print the slowdowns of a layer of ViT-B/32 and of its patch embedding, on two lines."""
    torch.set_num_threads(int(threads))
    patches = nn.Conv2d(3, 768, kernel_size=32, stride=32)
    print(measure_slowdown(Block().eval(), torch.rand(8, 50, 768), DTYPES[precision]))
    print(measure_slowdown(patches, torch.rand(8, 3, 224, 224), DTYPES[precision]))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except RuntimeError as error:  # torch has no kernel for the precision
        print(error)
        sys.exit(1)
