"""Store embeddings: one entry per encoder, stimulus table, perturbation and batch size."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from src import configs
from src.embeddings import batches
from src.encoders import Encoder, Network
from src.stimuli import IMAGE_ROLES, Table
from src.stimuli.perturbations import Perturbation
from src.storage import cache
from src.storage.versions import declared_versions, library_versions

log = logging.getLogger(__name__)

TENSOR = "embedding"
FILE = "embedding.safetensors"
# Maximum number of entries in memory; the experiments of a model use the same entries.
MAX_RECENT = 8


@dataclass(frozen=True)
class Embeddings:
    """Vectors of the stimuli of one role."""

    # [N, D], or [N, Q, D] if an image has Q vectors; row i belongs to row i of the stimulus table.
    vectors: Tensor
    hash: str  # SHA-256 of the file of the vectors
    seconds: float = 0.0  # time that computing the vectors took; 0 if they were stored
    notes: tuple[str, ...] = ()  # changes made to precomputed vectors


_recent: OrderedDict[Path, Embeddings] = OrderedDict()
# Hash of identity and weights -> network, only for the last loaded network, which the next role can reuse.
_last_network: dict[str, Network] = {}


def embed(
    encoder: Encoder,
    table: Table,
    batch_size: int,
    trainer: configs.TrainerConfig,
    store: Path,
    picture_store: Path,
    name: str = "",
    load: Callable[[], Network] | None = None,
    perturbation: Perturbation | None = None,
) -> Embeddings:
    """Return the vectors of a table's stimuli; compute them unless the store has them intact.

    Args:
        encoder: encoder of the vectors.
        table: stimuli.
        batch_size: number of pictures or sentences per batch, which affects the last bits of the vectors.
        trainer: config of Lightning's trainer.
        store: store of the vectors.
        picture_store: store of resized pictures, which all models share.
        name: the model's name in listings.
        load: function that does the same as `encoder.load` and can be pickled for other processes.
        perturbation: perturbation of the table's pictures; None: none.

    Raises:
        InputError: a stimulus cannot be embedded, or the trainer requests more devices than there are.
    """
    identity = collect_identity(encoder, table, batch_size, perturbation)
    # Each role has its own folder, as it is a separate output of the pipeline.
    entry = store / table.role / cache.fingerprint(identity)
    if entry in _recent:
        return _recent[entry]
    seconds: list[float] = []

    def build(folder: Path) -> Mapping[str, Any]:
        from src.embeddings.predict import predict
        from src.encoders.trainer import count_devices

        settings = [dict(encoder.identity), dict(encoder.text_identity)]
        network_key = cache.fingerprint([*settings, encoder.identify_weights()["sha256"]])
        if network_key not in _last_network:
            # Two networks at once might not fit into memory.
            _last_network.clear()
            _last_network[network_key] = encoder.load()
        shape, elapsed = predict(
            *(_last_network[network_key], table, batch_size, trainer, folder / FILE, picture_store),
            n_processes=count_devices(trainer),
            load=load or encoder.load,
            perturbation=perturbation,
        )
        seconds.append(elapsed)
        log.info("embedded %d %s in %.1f s", len(table.frame), table.role, elapsed)
        weights = dict(encoder.identify_weights())
        libraries = library_versions("torch", "torchvision", "lightning", "pillow")
        return identity | {"model": name, "shape": shape, "versions": libraries, "weights": weights}

    cache.fetch(entry.parent, entry.name, build)
    cache.touch(entry)
    digest = cache.read_manifest(entry)["files"][FILE]["sha256"]
    embeddings = Embeddings(load_file(entry / FILE)[TENSOR], digest, sum(seconds))
    _recent[entry] = replace(embeddings, seconds=0.0)
    while len(_recent) > MAX_RECENT:
        _recent.popitem(last=False)
    return embeddings


def collect_identity(
    encoder: Encoder, table: Table, batch_size: int, perturbation: Perturbation | None = None
) -> dict[str, Any]:
    """Return everything that determines the vectors of a table's stimuli."""
    identity = {
        "encoder": dict(encoder.identity),
        "weights": encoder.identify_weights()["sha256"],
        "table": table.hash,
        "role": table.role,
        "batch_size": batch_size,
        "parts": declared_versions("embeddings", *(["preprocessing"] if table.role in IMAGE_ROLES else [])),
    }
    if encoder.text_identity and table.role not in IMAGE_ROLES:
        identity["text"] = dict(encoder.text_identity)
    if perturbation:
        identity["perturbation"] = perturbation.identity
    # On a CPU, encoder, batch size and MAX_BYTES determine the microbatches, which affect the last bits.
    return identity | ({"widest": batches.MAX_BYTES} if table.role in IMAGE_ROLES else {})
