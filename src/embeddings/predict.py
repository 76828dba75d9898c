"""Lightning's predict loop over a stimulus table, streaming vectors to a file."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import BasePredictionWriter, RichProgressBar
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from src import configs
from src.embeddings.writer import VectorFile
from src.encoders import Network
from src.encoders.engine import engine
from src.errors import InputError
from src.stimuli import IMAGE_ROLES, Table, pictures


def predict(
    network: Network, table: Table, batch_size: int, trainer: configs.TrainerConfig, path: Path
) -> tuple[list[int], float]:
    """Embed every stimulus of a table into a safetensors file.

    Args:
        network: the encoder in memory.
        table: stimuli of one role.
        batch_size: stimuli per forward pass.
        trainer: where Lightning computes.
        path: of the file to write.

    Returns:
        The shape of the vectors, and the seconds that the loop took.

    Raises:
        InputError: a picture cannot be read any more, or a sentence does not fit.
    """
    image = table.role in IMAGE_ROLES
    data: Dataset[Any]
    if image:
        data = _Pictures(table.frame["path"].tolist(), network)
    else:
        data = _Sentences(network, table.frame["sentence"].tolist(), batch_size)
    # Sentences are tokenised already: processes of their own would only cost their start.
    workers = trainer.workers if image and len(data) > 10 * batch_size else 0
    loader = DataLoader(data, batch_size=batch_size if image else None, shuffle=False, num_workers=workers)
    writer = _Writer(path, len(table.frame))
    looked_with = engine(trainer, callbacks=[writer, RichProgressBar(leave=False)])
    start = time.perf_counter()
    looked_with.predict(_Module(network, image), loader, return_predictions=False)
    return writer.close(), time.perf_counter() - start


class _Pictures(Dataset[tuple[int, Tensor]]):
    def __init__(self, paths: Sequence[str], network: Network) -> None:
        self.paths, self.transform = paths, network.transform

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[int, Tensor]:
        try:
            return index, self.transform(pictures.read(self.paths[index]))
        except OSError as error:
            raise InputError(f"{self.paths[index]}: cannot be read any more ({error}).") from None


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
            self.batches += [own[start : start + most] for start in range(0, len(own), most)]

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor, Tensor]:
        """Rows of the table, which sentence of the batch each of them has, and the batch's tokens."""
        chosen = self.batches[index]
        rows = [self.rows[one] for one in chosen.tolist()]
        which = torch.arange(len(rows)).repeat_interleave(torch.tensor([len(own) for own in rows]))
        return torch.cat(rows), which, self.tokens[chosen, : int(self.lengths[chosen[0]])]


class _Module(lightning.LightningModule):
    def __init__(self, network: Any, image: bool) -> None:
        super().__init__()
        self.network, self.image = network, image

    def predict_step(self, batch: tuple[Tensor, ...], _: int) -> tuple[Tensor, Tensor]:
        if self.image:
            index, shown = batch
            return index, self.network.encode_images(shown)
        rows, which, tokens = batch
        return rows, self.network.encode_texts(tokens)[which]


class _Writer(BasePredictionWriter):
    """Scatters each batch by the index that it carries: loaders may reorder, ranks interleave."""

    def __init__(self, path: Path, rows: int) -> None:
        super().__init__(write_interval="batch")
        self.path, self.rows = path, rows
        self.file: VectorFile | None = None

    def write_on_batch_end(self, _: Any, __: Any, prediction: tuple[Tensor, Tensor], *___: Any) -> None:
        index, vectors = prediction
        if self.file is None:
            self.file = VectorFile(self.path, (self.rows, *vectors.shape[1:]))
        self.file.write(index.cpu().numpy(), vectors.float().cpu().numpy())

    def close(self) -> list[int]:
        if self.file is None:
            raise RuntimeError(f"{self.path}: the predict loop wrote nothing")
        return self.file.close()
