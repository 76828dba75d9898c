"""Run Lightning's predict loop over a stimulus table, and stream the vectors to a file."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import torch
from lightning.pytorch.accelerators import CUDAAccelerator
from lightning.pytorch.callbacks import BasePredictionWriter, RichProgressBar
from lightning.pytorch.strategies.launchers.multiprocessing import _MultiProcessingLauncher
from torch import Tensor
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException
from torch.utils.data import DataLoader

from src.configs import TrainerConfig
from src.embeddings import image_cache
from src.embeddings.batches import (
    PictureBatches,
    SentenceBatches,
    encode_in_microbatches,
    measure_microbatch_size,
)
from src.embeddings.writer import VectorFile, find_nonfinite_rows, finish_file
from src.encoders import Network
from src.encoders.preprocessing import SplitPreprocessing, normalise_bytes
from src.encoders.trainer import make_trainer
from src.errors import InputError, first_few
from src.stimuli import IMAGE_ROLES, Table
from src.stimuli.perturbations import Perturbation

log = logging.getLogger(__name__)

# Up to this number of batches of pictures, starting data loader processes takes more time than it saves.
FEW_BATCHES = 10


def predict(
    network: Network,
    table: Table,
    batch_size: int,
    trainer: TrainerConfig,
    path: Path,
    picture_store: Path,
    n_processes: int = 1,
    load: Callable[[], Network] | None = None,
    perturbation: Perturbation | None = None,
) -> tuple[list[int], float]:
    """Embed every stimulus of a table into a safetensors file, in one process per device.

    Args:
        network: encoder.
        table: stimuli.
        batch_size: number of pictures per batch; see `SentenceBatches` for sentences.
        trainer: config of Lightning's trainer.
        path: file to write.
        picture_store: store of resized pictures, which all models share.
        n_processes: number of processes.
        load: function that loads the encoder in each of several processes, for which it is pickled.
        perturbation: perturbation of the table's pictures; None: none.

    Returns:
        Shape of the vectors, and the time that computing them took in seconds, including the resizing of
        pictures that were not stored.

    Raises:
        InputError: a picture is no longer readable, a sentence is too long, a vector contains NaN or
            infinity, or a process was killed.
        RuntimeError: a process failed.
    """
    start = time.perf_counter()
    load = load if load and n_processes > 1 else lambda: network
    module = _EmbeddingModule(load, table, batch_size, trainer, picture_store, perturbation)
    options: dict[str, Any] = {"devices": n_processes, "strategy": "ddp_spawn"} if n_processes > 1 else {}
    options["callbacks"] = [VectorWriter(path, len(table.frame)), RichProgressBar(leave=False)]
    lightning_trainer = make_trainer(trainer, use_distributed_sampler=False, **options)
    if n_processes == 1:
        lightning_trainer.predict(module, return_predictions=False)
    else:
        # Resize pictures, and reject stimuli that cannot be embedded, once before the processes start.
        module.make_batches(network)
        _predict_spawned(lightning_trainer, module, n_processes)
    shape = finish_file(path)
    _refuse_nonfinite(path, table)
    return shape, time.perf_counter() - start


def _refuse_nonfinite(path: Path, table: Table) -> None:
    """Raise `InputError` if a vector contains NaN or infinity: an item left out silently would change N."""
    if rows := find_nonfinite_rows(path):
        items = table.frame["path" if table.role in IMAGE_ROLES else "sentence"].iloc[rows]
        raise InputError(
            f"{table.role}: {len(rows)} of {len(table.frame)} items have no vector of finite numbers: "
            f"{first_few(items)}. Remove them from the data, or use another model (or model.precision=fp32)."
        )


def _predict_spawned(
    lightning_trainer: lightning.Trainer, module: _EmbeddingModule, n_processes: int
) -> None:
    """Predict in the processes of Lightning's strategy `ddp_spawn`, and kill processes that remain."""
    role = module.table.role
    try:
        lightning_trainer.predict(module, return_predictions=False)
    except ProcessExitedException as error:
        raise InputError(
            f"{role}: process {error.error_index + 1} of {n_processes} was ended by {error.signal_name}: "
            "memory or disk space may have run out. Its vectors were discarded. Choose fewer trainer.devices "
            "or a smaller model.batch_size, and run the same command again."
        ) from None
    except ProcessRaisedException as error:
        # The text is a traceback, which ends with the class and the message of the error.
        *_, message = str(error).rpartition(f"{InputError.__module__}.{InputError.__qualname__}: ")
        if message != str(error):
            raise InputError(message.strip()) from None
        raise RuntimeError(f"{role}: one of {n_processes} processes failed\n{error}") from None
    finally:
        launcher = lightning_trainer.strategy.launcher
        assert isinstance(launcher, _MultiProcessingLauncher)
        launcher.kill(signal.SIGKILL)
        for process in launcher.procs:
            process.join()


class _EmbeddingModule(lightning.LightningModule):
    """Lightning module that embeds batches; all processes make the same batches, and each embeds a share."""

    def __init__(
        self,
        load: Callable[[], Network],
        table: Table,
        batch_size: int,
        trainer: TrainerConfig,
        picture_store: Path,
        perturbation: Perturbation | None,
    ) -> None:
        super().__init__()
        # There may be more processes than batches.
        self.allow_zero_length_dataloader_with_multiple_devices = True
        self.load, self.table, self.batch_size = load, table, batch_size
        self.picture_store, self.perturbation = picture_store, perturbation
        self.workers, self.threads = trainer.workers, torch.get_num_threads()
        self.has_images = table.role in IMAGE_ROLES
        self.network: Any = None
        self.microbatch_size: int | None = None  # number of pictures per microbatch
        self.batches: PictureBatches | SentenceBatches
        self.byte_values: Tensor | None

    def setup(self, stage: str) -> None:  # noqa: ARG002 - argument of Lightning's hook
        """Load the encoder and make its batches; see Lightning's hook."""
        # Lightning divides the threads among processes, but their number affects the last bits of sums.
        torch.set_num_threads(self.threads)
        self.network = self.load()
        byte_values, self.batches = self.make_batches(self.network)
        # A buffer moves with the network to its device.
        self.register_buffer("byte_values", byte_values)

    def make_batches(self, network: Network) -> tuple[Tensor | None, PictureBatches | SentenceBatches]:
        """Return the normalised value of each byte in each channel, [3, 256], and all batches.

        The values are None unless the batches are bytes of resized pictures.
        """
        if not self.has_images:
            return None, SentenceBatches(network, self.table.frame["sentence"].tolist(), self.batch_size)
        preprocessing = network.split_preprocessing()
        if preprocessing is None:
            log.info(
                "%s: the preprocessing cannot be split: resized pictures are not stored", self.table.role
            )
        elif (rows := self._load_resized(preprocessing)) is not None:
            return preprocessing.byte_values, PictureBatches(rows, self.batch_size)
        # Pictures whose pixels keep their sizes cannot be stacked.
        size = min(self.batch_size, getattr(network, "max_pictures", None) or self.batch_size)
        reader = image_cache.PictureReader(self.table.frame["path"].tolist(), self.perturbation)
        return None, PictureBatches(reader, size, network.transform)

    def _load_resized(self, preprocessing: SplitPreprocessing) -> np.ndarray | None:
        return image_cache.load_resized(self.table, preprocessing, self.picture_store, self.perturbation)

    def predict_dataloader(self) -> DataLoader[Any]:
        """Load this process's batches; whole batches are dealt to the processes in turn."""
        batch_indices = range(self.trainer.global_rank, len(self.batches), self.trainer.world_size)
        # Tokenised sentences and resized pictures need no data loader processes.
        reads_files = isinstance(self.batches, PictureBatches) and self.batches.transform is not None
        return DataLoader(
            self.batches,
            batch_size=None,
            sampler=batch_indices,
            num_workers=self.workers if reads_files and len(batch_indices) > FEW_BATCHES else 0,
            # From pinned memory, Lightning copies a batch to the GPU without waiting.
            pin_memory=isinstance(self.trainer.accelerator, CUDAAccelerator),
        )

    def on_predict_start(self) -> None:
        """Restore the default signal handlers in each of several processes, so that signals end it."""
        if self.trainer.world_size > 1:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_DFL)

    def predict_step(self, batch: tuple[Tensor, ...], _: int) -> tuple[Tensor, Tensor]:
        if not self.has_images:
            rows, sentence_of_row, tokens = batch
            return rows, self.network.encode_texts(tokens)[sentence_of_row]
        rows, pixels = batch
        # Measured once; the result does not depend on the pictures, so it is the same in all processes.
        self.microbatch_size = self.microbatch_size or measure_microbatch_size(self._encode_images, pixels)
        return rows, encode_in_microbatches(self._encode_images, pixels, self.microbatch_size)

    def _encode_images(self, pixels: Tensor) -> Tensor:
        inputs = pixels if self.byte_values is None else normalise_bytes(pixels, self.byte_values)
        vectors: Tensor = self.network.encode_images(inputs)
        return vectors


class VectorWriter(BasePredictionWriter):
    """Callback that writes vectors to the rows of their stimuli, a batch while the GPU computes the next."""

    def __init__(self, path: Path, rows: int) -> None:
        super().__init__(write_interval="batch")
        self.path, self.rows = path, rows
        self.file: VectorFile | None = None
        # Rows and vectors of the previous batch, in the CPU's memory, and the end of their copies from a GPU.
        self.pending: tuple[Tensor, Tensor, torch.cuda.Event | None] | None = None

    def write_on_batch_end(self, _: Any, __: Any, prediction: tuple[Tensor, Tensor], *___: Any) -> None:
        """Write the previous batch; see Lightning's `BasePredictionWriter`."""
        self._write()
        # A GPU works in order: to copy the previous batch only now would wait for this one as well.
        rows, vectors = (tensor.to("cpu", non_blocking=tensor.is_cuda) for tensor in prediction)
        is_copied = torch.cuda.current_stream().record_event() if prediction[1].is_cuda else None
        self.pending = rows, vectors, is_copied

    def on_predict_end(self, *_: Any) -> None:
        """Write the last batch; see Lightning's hook."""
        self._write()

    def _write(self) -> None:
        if self.pending is None:
            return
        rows, vectors, is_copied = self.pending
        if is_copied is not None:
            is_copied.synchronize()
        if self.file is None:
            self.file = VectorFile(self.path, (self.rows, *vectors.shape[1:]))
        self.file.write(rows.numpy(), vectors.float().numpy())
        self.pending = None
