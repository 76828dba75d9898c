"""The store of embeddings: one entry per encoder, stimulus table and batch size."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from src import configs
from src.embeddings import microbatches
from src.encoders import Encoder, Network
from src.stimuli import IMAGE_ROLES, Table
from src.storage import cache
from src.storage.versions import declared, versions

log = logging.getLogger(__name__)

TENSOR = "embedding"
FILE = "embedding.safetensors"
# Experiments of one model share its roles: what was read once and verified stays at hand.
KEPT = 8


@dataclass(frozen=True)
class Embeddings:
    """Vectors of one role.

    Attributes:
        vectors: [N, D], or [N, Q, D] where an image has Q vectors; row i belongs to row i of the
            stimulus table.
        hash: SHA-256 of the file that holds them.
        seconds: that computing them took; 0 where they were stored.
        notes: what was changed of vectors that somebody else computed.
    """

    vectors: Tensor
    hash: str
    seconds: float = 0.0
    notes: tuple[str, ...] = ()


_kept: OrderedDict[Path, Embeddings] = OrderedDict()


def embed(
    encoder: Encoder,
    table: Table,
    batch_size: int,
    trainer: configs.TrainerConfig,
    store: Path,
    pictures: Path,
    name: str = "",
    load: Callable[[], Network] | None = None,
) -> Embeddings:
    """Vectors of a table's stimuli, computed only where the store does not hold them intact.

    Args:
        encoder: what looks.
        table: what is shown.
        batch_size: stimuli in a batch; part of the key, for it moves the last bits.
        trainer: where Lightning computes.
        store: folder of the entries.
        pictures: folder of resized pictures, of all models.
        name: of the model, for those who look into the store.
        load: `encoder.load` for other processes: it can be pickled; None: that one can, too.

    Raises:
        InputError: a stimulus cannot be embedded, or the trainer asks for more devices than there are.
    """
    described = decisive(encoder, table, batch_size)
    # Role by role, so that each can be an output of a pipeline by itself.
    entry = store / table.role / cache.fingerprint(described)
    if entry in _kept:
        return _kept[entry]
    seconds: list[float] = []

    def build(folder: Path) -> Mapping[str, Any]:
        from src.embeddings.predict import predict
        from src.encoders.trainer import devices

        shape, taken = predict(
            *(_network(encoder), table, batch_size, trainer, folder / FILE, pictures),
            count=devices(trainer),
            load=load or encoder.load,
        )
        seconds.append(taken)
        log.info("embedded %d %s in %.1f s", len(table.frame), table.role, taken)
        weights = dict(encoder.weights())
        used = versions("torch", "torchvision", "lightning", "pillow")
        return described | {"model": name, "shape": shape, "versions": used, "weights": weights}

    cache.fetch(entry.parent, entry.name, build)
    cache.touch(entry)
    found = Embeddings(
        load_file(entry / FILE)[TENSOR], cache.manifest(entry)["files"][FILE]["sha256"], sum(seconds)
    )
    _kept[entry] = replace(found, seconds=0.0)
    while len(_kept) > KEPT:
        _kept.popitem(last=False)
    return found


def decisive(encoder: Encoder, table: Table, batch_size: int) -> dict[str, Any]:
    """All that decides the vectors of a table's stimuli."""
    described = {
        "encoder": dict(encoder.identity),
        "weights": encoder.weights()["sha256"],
        "table": table.hash,
        "role": table.role,
        "batch_size": batch_size,
        "parts": declared("embeddings", *(["preprocessing"] if table.role in IMAGE_ROLES else [])),
    }
    # With the encoder and the batch it decides which pictures a CPU computes beside which.
    return described | ({"widest": microbatches.WIDEST} if table.role in IMAGE_ROLES else {})


# The network that was loaded last, by what decides its numbers.
_loaded: dict[str, Network] = {}


def _network(encoder: Encoder) -> Network:
    """An encoder in memory: the roles of a dataset are shown to it one after another, and it is read once."""
    which = cache.fingerprint([dict(encoder.identity), encoder.weights()["sha256"]])
    if which not in _loaded:
        # Two at once may be more than there is room for.
        _loaded.clear()
        _loaded[which] = encoder.load()
    return _loaded[which]
