"""Run Lightning's predict loop over a stimulus table, and stream the vectors to a file."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.accelerators import CUDAAccelerator
from lightning.pytorch.callbacks import BasePredictionWriter, RichProgressBar
from lightning.pytorch.strategies.launchers.multiprocessing import _MultiProcessingLauncher
from torch import Tensor
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException
from torch.utils.data import DataLoader

from src.configs import TrainerConfig
from src.embeddings import image_cache
from src.embeddings.batches import Pictures, Sentences, encode_in_microbatches, microbatch_size
from src.embeddings.writer import VectorFile, finish
from src.encoders import Network
from src.encoders.preprocessing import normalise_bytes
from src.encoders.trainer import make_trainer
from src.errors import InputError
from src.stimuli import IMAGE_ROLES, Table

log = logging.getLogger(__name__)

# Number of batches of pictures up to which starting data loader processes does not pay off.
FEW_BATCHES = 10


def predict(
    network: Network,
    table: Table,
    batch_size: int,
    trainer: TrainerConfig,
    path: Path,
    store: Path,
    count: int = 1,
    load: Callable[[], Network] | None = None,
) -> tuple[list[int], float]:
    """Embed every stimulus of a table into a safetensors file, in `count` processes, one per device.

    Resized pictures are cached in `store`, which all models share. `load` is pickled, to load the encoder in
    each of several processes.

    Returns:
        Shape of the vectors, and seconds of computing them, including the resizing of pictures that the
        store lacked.

    Raises:
        InputError: a picture cannot be read any more, a sentence does not fit, or a process was killed.
        RuntimeError: a process failed.
    """
    start = time.perf_counter()
    module = _Module(load if load and count > 1 else lambda: network, table, batch_size, trainer, store)
    options: dict[str, Any] = {} if count == 1 else {"devices": count, "strategy": "ddp_spawn"}
    options["callbacks"] = [Writer(path, len(table.frame)), RichProgressBar(leave=False)]
    lightning_trainer = make_trainer(trainer, use_distributed_sampler=False, **options)
    if count == 1:
        lightning_trainer.predict(module, return_predictions=False)
    else:
        # Resize pictures, and reject stimuli that cannot be embedded, once before the processes start.
        module.batches(network)
        _predict_spawned(lightning_trainer, module, count)
    return finish(path), time.perf_counter() - start


def _predict_spawned(lightning_trainer: lightning.Trainer, module: _Module, count: int) -> None:
    """Predict in processes of Lightning's strategy `ddp_spawn`, and end all of them."""
    role = module.table.role
    try:
        lightning_trainer.predict(module, return_predictions=False)
    except ProcessExitedException as error:
        raise InputError(
            f"{role}: process {error.error_index + 1} of {count} was ended by {error.signal_name}: memory or "
            "disk space may have run out. Its vectors were discarded. Choose fewer trainer.devices or a "
            "smaller model.batch_size, and run the same command again."
        ) from None
    except ProcessRaisedException as error:
        # The text is a traceback, which ends with class and message of the process's error.
        *_, message = str(error).rpartition(f"{InputError.__module__}.{InputError.__qualname__}: ")
        if message != str(error):
            raise InputError(message.strip()) from None
        raise RuntimeError(f"{role}: one of {count} processes failed\n{error}") from None
    finally:
        launcher = lightning_trainer.strategy.launcher
        assert isinstance(launcher, _MultiProcessingLauncher)
        launcher.kill(signal.SIGKILL)
        for process in launcher.procs:
            process.join()


class _Module(lightning.LightningModule):
    """Lightning module that embeds batches: each process makes the same batches, and embeds its share."""

    def __init__(
        self, load: Callable[[], Network], table: Table, batch_size: int, trainer: TrainerConfig, store: Path
    ) -> None:
        super().__init__()
        # There may be more processes than batches.
        self.allow_zero_length_dataloader_with_multiple_devices = True
        self.load, self.table, self.batch_size, self.store = load, table, batch_size, store
        self.workers, self.threads = trainer.workers, torch.get_num_threads()
        self.has_images = table.role in IMAGE_ROLES
        self.network: Any = None
        self.size: int | None = None  # number of pictures per microbatch
        self.data: Pictures | Sentences
        self.values: Tensor | None

    def setup(self, stage: str) -> None:  # noqa: ARG002 - argument of Lightning's hook
        """Load the encoder and make its batches; see Lightning's hook."""
        # Lightning divides threads among processes, but their number affects the last bits of a sum.
        torch.set_num_threads(self.threads)
        self.network = self.load()
        values, self.data = self.batches(self.network)
        # A buffer moves with the network to its device.
        self.register_buffer("values", values)

    def batches(self, network: Network) -> tuple[Tensor | None, Pictures | Sentences]:
        """Return the pixel value of each byte in each channel, [3, 256], and all batches.

        The values are None unless resized pictures are stored.
        """
        if not self.has_images:
            return None, Sentences(network, self.table.frame["sentence"].tolist(), self.batch_size)
        split = network.halves()
        if split is None:
            log.info("%s: unknown preprocessing: resized pictures are not stored", self.table.role)
        elif (rows := image_cache.load_resized(self.table, split, self.store)) is not None:
            return split.values, Pictures(rows, self.batch_size)
        return None, Pictures(self.table.frame["path"].tolist(), self.batch_size, network.transform)

    def predict_dataloader(self) -> DataLoader[Any]:
        """Assign complete batches to processes in turn, so that they are the same as in a single process."""
        share = range(self.trainer.global_rank, len(self.data), self.trainer.world_size)
        # Tokenised sentences and resized pictures need no data loader processes.
        reads = isinstance(self.data, Pictures) and self.data.transform is not None
        return DataLoader(
            self.data,
            batch_size=None,
            sampler=share,
            num_workers=self.workers if reads and len(share) > FEW_BATCHES else 0,
            # From pinned memory, Lightning copies a batch to the GPU without waiting.
            pin_memory=isinstance(self.trainer.accelerator, CUDAAccelerator),
        )

    def on_predict_start(self) -> None:
        """Restore the default handlers in each of several processes, so that signals end them at once."""
        if self.trainer.world_size > 1:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_DFL)

    def predict_step(self, batch: tuple[Tensor, ...], _: int) -> tuple[Tensor, Tensor]:
        if not self.has_images:
            rows, sentence_of_row, tokens = batch
            return rows, self.network.encode_texts(tokens)[sentence_of_row]
        rows, pixels = batch
        # Computed once: it does not depend on the pictures' content, so that all processes agree.
        self.size = self.size or microbatch_size(self._vectors, pixels)
        return rows, encode_in_microbatches(self._vectors, pixels, self.size)

    def _vectors(self, pixels: Tensor) -> Tensor:
        inputs = pixels if self.values is None else normalise_bytes(pixels, self.values)
        vectors: Tensor = self.network.encode_images(inputs)
        return vectors


class Writer(BasePredictionWriter):
    """Writer of vectors to the rows of their stimuli.

    A batch is written while the GPU computes the next one.
    """

    def __init__(self, path: Path, rows: int) -> None:
        super().__init__(write_interval="batch")
        self.path, self.rows = path, rows
        self.file: VectorFile | None = None
        self.pending: tuple[Tensor, Tensor] | None = None  # rows and vectors of the previous batch

    def write_on_batch_end(self, _: Any, __: Any, prediction: tuple[Tensor, Tensor], *___: Any) -> None:
        """Write the previous batch; see Lightning's `BasePredictionWriter`."""
        self._write()
        self.pending = prediction

    def on_predict_end(self, *_: Any) -> None:
        """Write the last batch; see Lightning's hook."""
        self._write()

    def _write(self) -> None:
        if self.pending is None:
            return
        rows, vectors = self.pending
        if self.file is None:
            self.file = VectorFile(self.path, (self.rows, *vectors.shape[1:]))
        self.file.write(rows.cpu().numpy(), vectors.float().cpu().numpy())
        self.pending = None
