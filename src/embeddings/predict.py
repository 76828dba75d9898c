"""Lightning's predict loop over a stimulus table, streaming vectors to a file."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import torch
from lightning.pytorch.accelerators import CUDAAccelerator
from lightning.pytorch.callbacks import BasePredictionWriter, RichProgressBar
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from src import configs
from src.embeddings import pixels
from src.embeddings.writer import VectorFile
from src.encoders import Network
from src.encoders.engine import engine
from src.encoders.halves import Halves, normalised
from src.stimuli import IMAGE_ROLES, Table

log = logging.getLogger(__name__)

# Sentences of one beginning that are worth a forward pass of their own.
FEW = 64


def predict(
    network: Network,
    table: Table,
    batch_size: int,
    trainer: configs.TrainerConfig,
    path: Path,
    store: Path,
) -> tuple[list[int], float]:
    """Embed every stimulus of a table into a safetensors file.

    Args:
        network: the encoder in memory.
        table: stimuli of one role.
        batch_size: stimuli per forward pass.
        trainer: where Lightning computes.
        path: of the file to write.
        store: folder of resized pictures, of all models.

    Returns:
        The shape of the vectors, and the seconds that they took, with the resizing of pictures where the
        store lacked them.

    Raises:
        InputError: a picture cannot be read any more, or a sentence does not fit.
    """
    start = time.perf_counter()
    image = table.role in IMAGE_ROLES
    data: Dataset[Any]
    split = None
    if image:
        split, data = _shown(network, table, batch_size, store)
    else:
        data = _Sentences(network, table.frame["sentence"].tolist(), batch_size)
    # What is tokenised or resized already needs no processes: they would only cost their start.
    workers = trainer.workers if isinstance(data, _Pictures) and len(data) > 10 * batch_size else 0
    writer = _Writer(path, len(table.frame))
    looked_with = engine(trainer, callbacks=[writer, RichProgressBar(leave=False)])
    loader = DataLoader(
        data,
        batch_size=batch_size if isinstance(data, _Pictures) else None,
        shuffle=False,
        num_workers=workers,
        # Lightning does not wait for copies from pinned memory.
        pin_memory=isinstance(looked_with.accelerator, CUDAAccelerator),
    )
    looked_with.predict(_Module(network, image, split), loader, return_predictions=False)
    return writer.close(), time.perf_counter() - start


def _shown(
    network: Network, table: Table, batch_size: int, store: Path
) -> tuple[Halves | None, _Resized | _Pictures]:
    split = network.halves()
    if split is None:
        log.info("%s: of preprocessing of an unknown kind nothing is kept for other models", table.role)
    elif (rows := pixels.resized(table, split, store)) is not None:
        return split, _Resized(rows, batch_size)
    return None, _Pictures(table.frame["path"].tolist(), network)


class _Resized(Dataset[tuple[Tensor, Tensor]]):
    """Batches of bytes of pictures."""

    def __init__(self, rows: np.ndarray, batch_size: int) -> None:
        self.rows, self.starts = rows, range(0, len(rows), batch_size)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        first = self.starts[index]
        batch = self.rows[first : first + self.starts.step]
        return torch.arange(first, first + len(batch)), torch.from_numpy(np.array(batch))


class _Pictures(Dataset[tuple[int, Tensor]]):
    def __init__(self, paths: Sequence[str], network: Network) -> None:
        self.paths, self.transform = paths, network.transform

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[int, Tensor]:
        return index, self.transform(pixels.read(self.paths[index]))


class _Sentences(Dataset[tuple[Tensor, Tensor, Tensor]]):
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


class _Module(lightning.LightningModule):
    def __init__(self, network: Any, image: bool, split: Halves | None) -> None:
        super().__init__()
        self.network, self.image = network, image
        self.values: Tensor | None
        # A buffer: it follows the network to its device.
        self.register_buffer("values", split.values if split else None)

    def predict_step(self, batch: tuple[Tensor, ...], _: int) -> tuple[Tensor, Tensor]:
        if not self.image:
            rows, which, tokens = batch
            return rows, self.network.encode_texts(tokens)[which]
        index, shown = batch
        if self.values is not None:
            shown = normalised(shown, self.values)
        return index, self.network.encode_images(shown)


class _Writer(BasePredictionWriter):
    """Scatters each batch by the index that it carries: loaders may reorder, ranks interleave.

    One batch behind: a GPU computes the next while the last is written.
    """

    def __init__(self, path: Path, rows: int) -> None:
        super().__init__(write_interval="batch")
        self.path, self.rows = path, rows
        self.file: VectorFile | None = None
        self.waiting: tuple[Tensor, Tensor] | None = None

    def write_on_batch_end(self, _: Any, __: Any, prediction: tuple[Tensor, Tensor], *___: Any) -> None:
        self._write()
        self.waiting = prediction

    def _write(self) -> None:
        if self.waiting is None:
            return
        index, vectors = self.waiting
        if self.file is None:
            self.file = VectorFile(self.path, (self.rows, *vectors.shape[1:]))
        self.file.write(index.cpu().numpy(), vectors.float().cpu().numpy())

    def close(self) -> list[int]:
        self._write()
        if self.file is None:
            raise RuntimeError(f"{self.path}: the predict loop wrote nothing")
        return self.file.close()
