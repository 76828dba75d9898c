"""What the predict loop is shown: stimuli of a table in batches, which do not depend on who computes them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from src.embeddings import image_cache
from src.encoders import Network

# Sentences of one beginning that are worth a forward pass of their own.
FEW = 64


class Resized(Dataset[tuple[Tensor, Tensor]]):
    """Batches of bytes of pictures."""

    def __init__(self, rows: np.ndarray, batch_size: int) -> None:
        self.rows, self.starts = rows, range(0, len(rows), batch_size)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        first = self.starts[index]
        batch = self.rows[first : first + self.starts.step]
        return torch.arange(first, first + len(batch)), torch.from_numpy(np.array(batch))


class Pictures(Dataset[tuple[Tensor, Tensor]]):
    """Batches of pictures, prepared when they are asked for."""

    def __init__(self, paths: Sequence[str], network: Network, batch_size: int) -> None:
        self.paths, self.transform = paths, network.transform
        self.starts = range(0, len(paths), batch_size)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        first = self.starts[index]
        shown = [
            self.transform(image_cache.read(path)) for path in self.paths[first : first + self.starts.step]
        ]
        return torch.arange(first, first + len(shown)), torch.stack(shown)


class Sentences(Dataset[tuple[Tensor, Tensor, Tensor]]):
    """Batches of sentences, each sentence once: of one length, and as far as may be of one beginning.

    A batch has as many tokens as `batch_size` sentences that fill the context.
    """

    def __init__(self, network: Network, sentences: Sequence[str], batch_size: int) -> None:
        tokens = network.tokenize(sentences)
        # In lexical order, which puts those of a template beside each other.
        self.tokens, same = torch.unique(tokens, dim=0, return_inverse=True)
        self.rows = same.argsort(stable=True).split(same.bincount().tolist())
        self.lengths = network.lengths(self.tokens)
        room = batch_size * tokens.shape[1]
        self.batches = []
        for length in sorted({*self.lengths.tolist()}):
            own, most = (self.lengths == length).nonzero().flatten(), max(1, room // length)
            for part in _alike(own, self.tokens[own, : length - 1]):
                self.batches += [part[start : start + most] for start in range(0, len(part), most)]

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor, Tensor]:
        """Rows of the table, which sentence of the batch each of them has, and the batch's tokens."""
        chosen = self.batches[index]
        rows = [self.rows[one] for one in chosen.tolist()]
        which = torch.arange(len(rows)).repeat_interleave(torch.tensor([len(own) for own in rows]))
        return torch.cat(rows), which, self.tokens[chosen, : int(self.lengths[chosen[0]])]


def _alike(rows: Tensor, tokens: Tensor) -> list[Tensor]:
    """Rows in lexical order, cut where they begin otherwise, as deep as leaves `FEW` a part on average."""
    # Whether a row begins otherwise than the one before it, within so many tokens.
    cuts = (tokens[1:] != tokens[:-1]).int().cummax(dim=1).values.bool()
    deep = int((cuts.sum(dim=0) < max(1, len(rows) // FEW)).sum())
    ends = (cuts[:, deep - 1].nonzero().flatten() + 1).tolist() if deep else []
    return [rows[first:last] for first, last in pairwise([0, *ends, len(rows)])]
