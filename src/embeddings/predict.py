"""Lightning's predict loop over a stimulus table, streaming vectors to a file."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import torch
from lightning.pytorch.accelerators import CUDAAccelerator
from lightning.pytorch.callbacks import BasePredictionWriter, RichProgressBar
from torch import Tensor
from torch.utils.data import DataLoader

from src import configs
from src.embeddings import image_cache, microbatches
from src.embeddings.batches import Pictures, Resized, Sentences
from src.embeddings.writer import VectorFile
from src.encoders import Network
from src.encoders.preprocessing import Halves, normalised
from src.encoders.trainer import engine
from src.stimuli import IMAGE_ROLES, Table
from src.storage.cache import fingerprint

log = logging.getLogger(__name__)

# Batches of pictures that are not worth the start of processes.
FEW_BATCHES = 10


@dataclass(frozen=True)
class Rank:
    """One of several processes.

    Whole batches are dealt to them in turn: each vector is computed beside the same others as in one process.

    Attributes:
        number: which, from 0.
        of: how many there are.
        marks: see `VectorFile`.
    """

    number: int = 0
    of: int = 1
    marks: Path | None = None


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
        batch_size: stimuli in a batch: on a GPU, of a forward pass.
        trainer: where Lightning computes: on one device.
        path: of the file to write.
        store: folder of resized pictures, of all models.

    Returns:
        The shape of the vectors, and the seconds that they took, with the resizing of pictures where the
        store lacked them.

    Raises:
        InputError: a picture cannot be read any more, or a sentence does not fit.
    """
    start = time.perf_counter()
    writer = look(network, table, batch_size, trainer, path, store)
    if writer.file is None:
        raise RuntimeError(f"{path}: the predict loop wrote nothing")
    return writer.file.close(), time.perf_counter() - start


def look(
    network: Network,
    table: Table,
    batch_size: int,
    trainer: configs.TrainerConfig,
    path: Path,
    store: Path,
    rank: Rank = Rank(),
    **options: Any,
) -> Writer:
    """One process's share of `predict`, in a file that is not yet closed.

    Args:
        rank: which process of how many.
        options: of Lightning's trainer.
    """
    image = table.role in IMAGE_ROLES
    data: Pictures | Resized | Sentences
    split = None
    if image:
        split, data = _shown(network, table, batch_size, store, rank)
    else:
        data = Sentences(network, table.frame["sentence"].tolist(), batch_size)
    own = range(rank.number, len(data), rank.of)
    # What is tokenised or resized already needs no processes: they would only cost their start.
    workers = trainer.workers if isinstance(data, Pictures) and len(own) > FEW_BATCHES else 0
    writer = Writer(path, len(table.frame), rank)
    looked_with = engine(
        trainer, callbacks=[writer, RichProgressBar(leave=False)], use_distributed_sampler=False, **options
    )
    loader = DataLoader(
        data,
        batch_size=None,
        sampler=own,
        num_workers=workers,
        # Lightning does not wait for copies from pinned memory.
        pin_memory=isinstance(looked_with.accelerator, CUDAAccelerator),
    )
    looked_with.predict(_Module(network, image, split), loader, return_predictions=False)
    writer.write()
    return writer


def _shown(
    network: Network, table: Table, batch_size: int, store: Path, rank: Rank
) -> tuple[Halves | None, Resized | Pictures]:
    split = network.halves()
    if split is None:
        log.info("%s: of preprocessing of an unknown kind nothing is kept for other models", table.role)
    elif (rows := _resized(table, split, store, rank)) is not None:
        return split, Resized(rows, batch_size)
    return None, Pictures(table.frame["path"].tolist(), network, batch_size)


def _resized(table: Table, split: Halves, store: Path, rank: Rank) -> np.ndarray | None:
    """Resized by the first process, while the others wait; they take its word that the bytes are intact."""
    rows = image_cache.resized(table, split, store) if rank.number == 0 else None
    if rank.of > 1:
        torch.distributed.barrier()
    path = store / fingerprint(image_cache.decisive(table, split)) / image_cache.FILE
    return np.load(path, mmap_mode="r") if rank.number and path.exists() else rows


class _Module(lightning.LightningModule):
    def __init__(self, network: Any, image: bool, split: Halves | None) -> None:
        super().__init__()
        # Processes may be more than batches.
        self.allow_zero_length_dataloader_with_multiple_devices = True
        self.network, self.image = network, image
        self.at_once: int | None = None
        self.values: Tensor | None
        # A buffer: it follows the network to its device.
        self.register_buffer("values", split.values if split else None)

    def predict_step(self, batch: tuple[Tensor, ...], _: int) -> tuple[Tensor, Tensor]:
        if not self.image:
            rows, which, tokens = batch
            return rows, self.network.encode_texts(tokens)[which]
        index, shown = batch
        # Once: it does not depend on what the pictures show, so that all processes find the same.
        self.at_once = self.at_once or microbatches.at_once(self._seen, shown)
        return index, microbatches.encoded(self._seen, shown, self.at_once)

    def _seen(self, shown: Tensor) -> Tensor:
        vectors: Tensor = self.network.encode_images(
            shown if self.values is None else normalised(shown, self.values)
        )
        return vectors


class Writer(BasePredictionWriter):
    """Scatters each batch by the index that it carries.

    One batch behind: a GPU computes the next while the last is written.
    """

    def __init__(self, path: Path, rows: int, rank: Rank) -> None:
        super().__init__(write_interval="batch")
        self.path, self.rows, self.marks = path, rows, rank.marks
        self.file: VectorFile | None = None
        self.waiting: tuple[Tensor, Tensor] | None = None

    def write_on_batch_end(self, _: Any, __: Any, prediction: tuple[Tensor, Tensor], *___: Any) -> None:
        """See Lightning's `BasePredictionWriter`."""
        self.write()
        self.waiting = prediction

    def write(self) -> None:
        """Put the batch that waits where it belongs."""
        if self.waiting is None:
            return
        index, vectors = self.waiting
        if self.file is None:
            self.file = VectorFile(self.path, (self.rows, *vectors.shape[1:]), self.marks)
        self.file.write(index.cpu().numpy(), vectors.float().cpu().numpy())
        self.waiting = None
