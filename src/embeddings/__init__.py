"""Vectors of stimuli: embedded once by Lightning's predict loop, kept in a store, read exactly."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from src import configs, stimuli
from src.embeddings import precomputed_vectors, store
from src.embeddings.store import Embeddings
from src.encoders import Network, open_encoder
from src.errors import InputError
from src.stimuli import PROMPTS, Table
from src.storage.cache import fingerprint

__all__ = ["Embeddings", "embeddings", "key", "require"]


def embeddings(cfg: configs.RunConfig, role: str, table: Callable[[str], Table]) -> Embeddings:
    """The vectors of one role of a job, in the order of its table.

    Args:
        cfg: the job.
        role: faces, scenes, words, labels or prompts.
        table: gives the stimulus table of a role.

    Raises:
        InputError: precomputed vectors do not fit their table, or a stimulus cannot be embedded.
    """
    if folder := cfg.model.precomputed:
        return (
            precomputed_vectors.texts(folder, table(role))
            if role == PROMPTS
            else precomputed_vectors.read(folder, role)
        )
    encoder = open_encoder(cfg, table)
    # Only what is known by its name can be handed to another process.
    load = partial(_elsewhere, cfg, fingerprint(dict(encoder.identity)))
    return store.embed(
        encoder,
        table(role),
        cfg.model.batch_size,
        cfg.trainer,
        Path(cfg.store.dir),
        Path(cfg.store.pictures),
        name=str(cfg.model.name),
        load=load,
    )


def _elsewhere(cfg: configs.RunConfig, identity: str) -> Network:
    """The network of a job, in a process that knows nothing but the job.

    Raises:
        InputError: what decides its numbers is not what it was when the job began.
    """
    encoder = open_encoder(cfg, partial(stimuli.load, cfg))
    if fingerprint(dict(encoder.identity)) != identity:
        raise InputError(
            f"{cfg.model.name}: stimuli or versions changed while the job was running. Start it again."
        )
    return encoder.load()


def key(cfg: configs.RunConfig, role: str, table: Callable[[str], Table]) -> str:
    """Hash of all that decides the vectors of one role: they need not be there yet.

    Raises:
        InputError: precomputed vectors are missing.
    """
    if folder := cfg.model.precomputed:
        return precomputed_vectors.key(folder, role)
    return fingerprint(store.decisive(open_encoder(cfg, table), table(role), cfg.model.batch_size))


def require(cfg: configs.RunConfig, prompts: Table) -> None:
    """See that a model can be shown prompts: precomputed vectors are of the texts that they are of.

    Raises:
        NotApplicable: a prompt is not among them.
        InputError: their table cannot be read.
    """
    if folder := cfg.model.precomputed:
        precomputed_vectors.places(folder, prompts)
