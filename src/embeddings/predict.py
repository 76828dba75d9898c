"""Lightning's predict loop over a stimulus table, streaming vectors to a file."""

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

from src import configs
from src.embeddings import image_cache, microbatches
from src.embeddings.batches import Pictures, Resized, Sentences
from src.embeddings.writer import VectorFile, finish
from src.encoders import Network
from src.encoders.preprocessing import normalised
from src.encoders.trainer import engine
from src.errors import InputError
from src.stimuli import IMAGE_ROLES, Table

log = logging.getLogger(__name__)

# Batches of pictures that are not worth the start of processes.
FEW_BATCHES = 10


def predict(
    network: Network,
    table: Table,
    batch_size: int,
    trainer: configs.TrainerConfig,
    path: Path,
    store: Path,
    count: int = 1,
    load: Callable[[], Network] | None = None,
) -> tuple[list[int], float]:
    """Embed every stimulus of a table into a safetensors file.

    Args:
        network: encoder in memory.
        table: stimuli of one role.
        batch_size: stimuli in a batch: on a GPU, of a forward pass.
        trainer: where Lightning computes.
        path: of the file to write.
        store: folder of resized pictures, of all models.
        count: number of processes, one per device.
        load: function that several processes are handed, pickled, to read the encoder themselves.

    Returns:
        The shape of the vectors, and the seconds that they took, with the resizing of pictures where the
        store lacked them.

    Raises:
        InputError: a picture cannot be read any more, a sentence does not fit, or a process was killed.
        RuntimeError: a process failed.
    """
    start = time.perf_counter()
    module = _Module(load if load and count > 1 else lambda: network, table, batch_size, trainer, store)
    several: dict[str, Any] = {} if count == 1 else {"devices": count, "strategy": "ddp_spawn"}
    callbacks = [Writer(path, len(table.frame)), RichProgressBar(leave=False)]
    lightning_trainer = engine(trainer, callbacks=callbacks, use_distributed_sampler=False, **several)
    if count == 1:
        lightning_trainer.predict(module, return_predictions=False)
    else:
        # Pictures are resized once, and what cannot be embedded is refused, before any process starts.
        module.batches(network)
        _predict_spawned(lightning_trainer, module, count)
    return finish(path), time.perf_counter() - start


def _predict_spawned(lightning_trainer: lightning.Trainer, module: _Module, count: int) -> None:
    """Predict in processes of Lightning's strategy `ddp_spawn`, none of which outlives the call."""
    role = module.table.role
    try:
        lightning_trainer.predict(module, return_predictions=False)
    except ProcessExitedException as error:
        raise InputError(
            f"{role}: process {error.error_index + 1} of {count} was ended by {error.signal_name} while it "
            "embedded them: memory, or room on the disk, may have run out. Nothing of it is kept; the same "
            "command embeds them anew. Choose fewer trainer.devices, or a smaller model.batch_size."
        ) from None
    except ProcessRaisedException as error:
        *_, message = str(error).rpartition(f"{InputError.__module__}.{InputError.__qualname__}: ")
        if message != str(error):
            raise InputError(message.strip()) from None
        raise RuntimeError(f"{role}: of {count} processes one failed\n{error}") from None
    finally:
        launcher = lightning_trainer.strategy.launcher
        assert isinstance(launcher, _MultiProcessingLauncher)
        launcher.kill(signal.SIGKILL)
        for process in launcher.procs:
            process.join()


class _Module(lightning.LightningModule):
    """Encode batches: each process loads the encoder, makes the same batches, and embeds its share."""

    def __init__(
        self,
        load: Callable[[], Network],
        table: Table,
        batch_size: int,
        trainer: configs.TrainerConfig,
        store: Path,
    ) -> None:
        super().__init__()
        # Processes may be more than batches.
        self.allow_zero_length_dataloader_with_multiple_devices = True
        self.load, self.table, self.batch_size, self.store = load, table, batch_size, store
        self.workers, self.threads = trainer.workers, torch.get_num_threads()
        self.image = table.role in IMAGE_ROLES
        self.network: Any = None
        self.at_once: int | None = None
        self.data: Pictures | Resized | Sentences
        self.values: Tensor | None

    def setup(self, stage: str) -> None:  # noqa: ARG002 - Lightning names it
        """Load the encoder and make its batches; see Lightning's hook."""
        # Lightning divides threads among processes, and their number moves the last bits of a sum.
        torch.set_num_threads(self.threads)
        self.network = self.load()
        values, self.data = self.batches(self.network)
        # A buffer: it follows the network to its device.
        self.register_buffer("values", values)

    def batches(self, network: Network) -> tuple[Tensor | None, Pictures | Resized | Sentences]:
        """Return all batches, and of resized pictures the values that their bytes stand for."""
        if not self.image:
            return None, Sentences(network, self.table.frame["sentence"].tolist(), self.batch_size)
        split = network.halves()
        if split is None:
            log.info(
                "%s: of preprocessing of an unknown kind nothing is kept for other models", self.table.role
            )
        elif (rows := image_cache.resized(self.table, split, self.store)) is not None:
            return split.values, Resized(rows, self.batch_size)
        return None, Pictures(self.table.frame["path"].tolist(), network, self.batch_size)

    def predict_dataloader(self) -> DataLoader[Any]:
        """Deal whole batches to processes in turn: a vector is computed beside the same others as in one."""
        share = range(self.trainer.global_rank, len(self.data), self.trainer.world_size)
        # What is tokenised or resized already needs no processes: they would only cost their start.
        needed = isinstance(self.data, Pictures) and len(share) > FEW_BATCHES
        return DataLoader(
            self.data,
            batch_size=None,
            sampler=share,
            num_workers=self.workers if needed else 0,
            # Lightning does not wait for copies from pinned memory.
            pin_memory=isinstance(self.trainer.accelerator, CUDAAccelerator),
        )

    def on_predict_start(self) -> None:
        """End a process of several at once by the signals that would wait for the others to answer."""
        if self.trainer.world_size > 1:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_DFL)

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

    def __init__(self, path: Path, rows: int) -> None:
        super().__init__(write_interval="batch")
        self.path, self.rows = path, rows
        self.file: VectorFile | None = None
        self.waiting: tuple[Tensor, Tensor] | None = None

    def write_on_batch_end(self, _: Any, __: Any, prediction: tuple[Tensor, Tensor], *___: Any) -> None:
        """See Lightning's `BasePredictionWriter`."""
        self._write()
        self.waiting = prediction

    def on_predict_end(self, *_: Any) -> None:
        """Write the last batch; see Lightning's hook."""
        self._write()

    def _write(self) -> None:
        if self.waiting is None:
            return
        index, vectors = self.waiting
        if self.file is None:
            self.file = VectorFile(self.path, (self.rows, *vectors.shape[1:]))
        self.file.write(index.cpu().numpy(), vectors.float().cpu().numpy())
        self.waiting = None
