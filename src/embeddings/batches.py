"""Group the stimuli of a table into batches, which do not depend on the number of processes.

Batches of pictures are split into microbatches whose tensors suit the memory allocator.
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

from src.embeddings.image_cache import PictureReader
from src.encoders import Network

# Sentences are grouped by the longest prefix that at least this number of sentences share on average.
MIN_PER_PREFIX = 64
# Maximum number of bytes of a tensor on a CPU, below the 32 MB above which glibc maps memory.
MAX_BYTES = 24 << 20
Transform = Callable[[Image.Image], Tensor]


class PictureBatches(Dataset[tuple[Tensor, Tensor]]):
    """Batches of pictures: rows of the table [b], and resized bytes or preprocessed pixels [b, 3, H, W].

    `pictures` are resized bytes [N, 3, H, W] or, with `transform`, a reader of pictures to preprocess.
    """

    def __init__(
        self, pictures: np.ndarray | PictureReader, batch_size: int, transform: Transform | None = None
    ) -> None:
        self.pictures, self.transform = pictures, transform
        self.starts = range(0, len(pictures), batch_size)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        first = self.starts[index]
        rows = range(first, min(first + self.starts.step, len(self.pictures)))
        if self.transform is None:
            assert isinstance(self.pictures, np.ndarray)
            pixels = torch.from_numpy(np.array(self.pictures[first : rows.stop]))
        else:
            assert isinstance(self.pictures, PictureReader)
            pixels = torch.stack([self.transform(self.pictures.read(row)) for row in rows])
        return torch.arange(first, rows.stop), pixels


class SentenceBatches(Dataset[tuple[Tensor, Tensor, Tensor]]):
    """Batches of distinct sentences with the same number of tokens and, where possible, a common prefix.

    A batch has at most the tokens of `batch_size` padded sentences, so short sentences form larger batches.
    """

    def __init__(self, network: Network, sentences: Sequence[str], batch_size: int) -> None:
        tokens = network.tokenize(sentences)
        # Distinct sentences are sorted, so that sentences with a common prefix are adjacent.
        self.tokens, sentence_of_row = torch.unique(tokens, dim=0, return_inverse=True)
        self.rows = sentence_of_row.argsort(stable=True).split(sentence_of_row.bincount().tolist())
        self.lengths = network.count_relevant_tokens(self.tokens)
        max_tokens = batch_size * tokens.shape[1]
        self.batches = []
        for length in sorted({*self.lengths.tolist()}):
            sentences_of_length = (self.lengths == length).nonzero().flatten()
            max_sentences = max(1, max_tokens // length)
            tokens = self.tokens[sentences_of_length, : length - 1]
            # [sentences - 1, length - 1]: whether a sentence's prefix differs from the previous sentence's.
            is_new_prefix = (tokens[1:] != tokens[:-1]).int().cummax(dim=1).values.bool()
            # Length of the longest prefix that `MIN_PER_PREFIX` sentences share on average.
            prefix_length = int((is_new_prefix.sum(dim=0) < max(1, len(tokens) // MIN_PER_PREFIX)).sum())
            group_starts = (
                is_new_prefix[:, prefix_length - 1].nonzero().flatten() + 1 if prefix_length else []
            )
            for start, end in pairwise([0, *map(int, group_starts), len(tokens)]):
                self.batches += sentences_of_length[start:end].split(max_sentences)

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return rows of the table [r], each row's index into the sentences [r], and tokens [s, length]."""
        sentences = self.batches[index]
        rows = [self.rows[sentence] for sentence in sentences.tolist()]
        sentence_of_row = torch.arange(len(rows)).repeat_interleave(torch.tensor([*map(len, rows)]))
        return torch.cat(rows), sentence_of_row, self.tokens[sentences, : int(self.lengths[sentences[0]])]


def measure_microbatch_size(
    encode: Callable[[Tensor], Tensor], pixels: Float[Tensor, "n 3 height width"]
) -> int:
    """Return the number of pictures per microbatch: on a GPU the whole batch, on a CPU as `MAX_BYTES` allows.

    glibc maps allocations above 32 MB from the kernel, which clears them, and unmaps them on release
    (mallopt(3), M_MMAP_THRESHOLD): with a large batch, every layer would map and clear its memory again. The
    encoder is run on a single picture to measure the largest output tensor of its modules. A GPU's allocator
    reuses memory, and large batches are more efficient there.
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
    """Embed a batch of pictures in microbatches of at most `size`."""
    return torch.cat([encode(chunk) for chunk in pixels.chunk(math.ceil(len(pixels) / size))])
