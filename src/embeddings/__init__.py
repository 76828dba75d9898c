"""Embed stimuli once with Lightning's predict loop, and store and read their vectors exactly."""

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
    """Return the vectors of one role of a job, in the order of its stimuli, `table(role)`.

    Raises:
        InputError: precomputed vectors do not fit their table, or a stimulus cannot be embedded.
    """
    if folder := cfg.model.precomputed:
        return (
            precomputed_vectors.prompt_vectors(folder, table(role))
            if role == PROMPTS
            else precomputed_vectors.read(folder, role)
        )
    encoder = open_encoder(cfg, table)
    return store.embed(
        encoder,
        table(role),
        cfg.model.batch_size,
        cfg.trainer,
        Path(cfg.store.dir),
        Path(cfg.store.pictures),
        name=str(cfg.model.name),
        # Unlike a lambda, a partial of a module's function can be pickled for other processes.
        load=partial(_load_network, cfg, fingerprint(dict(encoder.identity))),
    )


def _load_network(cfg: configs.RunConfig, identity_hash: str) -> Network:
    """Load the network of a job in another process, from its config alone.

    Raises:
        InputError: the encoder's identity has changed since the job began.
    """
    encoder = open_encoder(cfg, partial(stimuli.load, cfg))
    if fingerprint(dict(encoder.identity)) != identity_hash:
        raise InputError(f"{cfg.model.name}: stimuli or versions changed while the job ran. Start it again.")
    return encoder.load()


def key(cfg: configs.RunConfig, role: str, table: Callable[[str], Table]) -> str:
    """Return the hash of what determines the vectors of one role, whether or not they are stored.

    Raises:
        InputError: precomputed vectors are missing.
    """
    if folder := cfg.model.precomputed:
        return precomputed_vectors.key(folder, role)
    return fingerprint(store.identity_of(open_encoder(cfg, table), table(role), cfg.model.batch_size))


def require(cfg: configs.RunConfig, prompts: Table) -> None:
    """Check that precomputed vectors include those of all prompts; other models embed any prompt.

    Raises:
        NotApplicable: a prompt has no precomputed vector.
        InputError: the table of precomputed prompts cannot be read.
    """
    if folder := cfg.model.precomputed:
        precomputed_vectors.prompt_rows(folder, prompts)
