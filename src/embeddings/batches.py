"""Batch the stimuli of a table for the predict loop, independently of the process that embeds them.

Batches of pictures are split into microbatches that suit the memory allocator.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor
from torch.nn.modules.module import register_module_forward_hook
from torch.utils.data import Dataset

from src.embeddings import image_cache
from src.encoders import Network

# Minimum average number of sentences per common prefix that makes batches of a single prefix efficient.
MIN_PER_PREFIX = 64
# Maximum bytes of a tensor, safely below the 32 MB above which glibc maps memory.
MAX_BYTES = 24 << 20
Transform = Callable[[Image.Image], Tensor]


class Pictures(Dataset[tuple[Tensor, Tensor]]):
    """Batches of pictures: rows of the table [b], and bytes of resized pictures or pixels, [b, 3, H, W].

    With `transform`, the pictures are paths, read and preprocessed on access.
    """

    def __init__(
        self, pictures: np.ndarray | Sequence[str], batch_size: int, transform: Transform | None = None
    ) -> None:
        self.pictures, self.transform = pictures, transform
        self.starts = range(0, len(pictures), batch_size)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        first = self.starts[index]
        batch = self.pictures[first : first + self.starts.step]
        if self.transform is None:
            pixels = torch.from_numpy(np.array(batch))
        else:
            pixels = torch.stack([self.transform(image_cache.read(path)) for path in batch])
        return torch.arange(first, first + len(batch)), pixels


class Sentences(Dataset[tuple[Tensor, Tensor, Tensor]]):
    """Batches of distinct sentences of the same length, with common prefixes as far as possible.

    A batch has at most as many tokens as `batch_size` sentences that fill the context.
    """

    def __init__(self, network: Network, sentences: Sequence[str], batch_size: int) -> None:
        tokens = network.tokenize(sentences)
        # Tokens of distinct sentences, sorted, so that a template's are adjacent; rows of each sentence.
        self.tokens, sentence_of_row = torch.unique(tokens, dim=0, return_inverse=True)
        self.rows = sentence_of_row.argsort(stable=True).split(sentence_of_row.bincount().tolist())
        self.lengths = network.lengths(self.tokens)
        max_tokens = batch_size * tokens.shape[1]
        self.batches = []
        for length in sorted({*self.lengths.tolist()}):
            same_length, limit = (self.lengths == length).nonzero().flatten(), max(1, max_tokens // length)
            tokens = self.tokens[same_length, : length - 1]
            # Mask [rows - 1, length]: the prefix of this length differs from that of the previous row.
            cuts = (tokens[1:] != tokens[:-1]).int().cummax(dim=1).values.bool()
            # The longest prefix that leaves `MIN_PER_PREFIX` rows per group on average.
            depth = int((cuts.sum(dim=0) < max(1, len(tokens) // MIN_PER_PREFIX)).sum())
            ends = (cuts[:, depth - 1].nonzero().flatten() + 1).tolist() if depth else []
            for first, last in pairwise([0, *ends, len(tokens)]):
                group = same_length[first:last]
                self.batches += [group[start : start + limit] for start in range(0, len(group), limit)]

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return rows of the table, the index of each row's sentence in the batch, and the batch's tokens."""
        sentences = self.batches[index]
        rows = [self.rows[sentence] for sentence in sentences.tolist()]
        sentence_of_row = torch.arange(len(rows)).repeat_interleave(torch.tensor([*map(len, rows)]))
        return torch.cat(rows), sentence_of_row, self.tokens[sentences, : int(self.lengths[sentences[0]])]


def microbatch_size(encode: Callable[[Tensor], Tensor], pixels: Float[Tensor, "n 3 height width"]) -> int:
    """Return the number of pictures per pass: on a CPU, as many as `MAX_BYTES` per tensor allow; else all.

    glibc maps allocations above 32 MB from the kernel, which clears them, and unmaps them on release
    (mallopt(3), M_MMAP_THRESHOLD): with a large batch, every layer maps and clears its memory anew. A GPU's
    allocator reuses memory, and large batches are the most efficient. On a CPU, the encoder is run on a
    single picture to measure the largest output tensor of any of its modules.
    """
    if pixels.device.type != "cpu":
        return len(pixels)
    sizes = [1]

    def record(_: object, __: object, output: object) -> None:
        if isinstance(output, Tensor):
            sizes.append(output.nbytes)

    with register_module_forward_hook(record):
        encode(pixels[:1])
    return max(1, MAX_BYTES // max(sizes))


def encode_in_microbatches(
    encode: Callable[[Tensor], Tensor], pixels: Float[Tensor, "n 3 height width"], size: int
) -> Float[Tensor, "n *queries width"]:
    """Embed a batch in passes of at most `size` pictures."""
    return torch.cat([encode(chunk) for chunk in pixels.chunk(math.ceil(len(pixels) / size))])
