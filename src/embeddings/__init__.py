"""Embed stimuli once, with Lightning's predict loop, and store the vectors exactly."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from src import configs, stimuli
from src.embeddings import precomputed_vectors, store
from src.embeddings.store import Embeddings
from src.encoders import Network, open_encoder
from src.errors import InputError
from src.stimuli import PROMPTS, Table
from src.stimuli.perturbations import build_perturbation
from src.storage.cache import fingerprint

__all__ = ["Embeddings", "check_prompts", "hash_inputs", "load_embeddings"]


def load_embeddings(cfg: configs.RunConfig, role: str, table: Callable[[str], Table]) -> Embeddings:
    """Load the vectors of one role of a job, in the order of the table `table(role)`; embed missing ones.

    Raises:
        InputError: precomputed vectors do not match their table, or a stimulus cannot be embedded.
    """
    if folder := cfg.model.precomputed:
        return (
            precomputed_vectors.read_prompt_vectors(folder, table(role))
            if role == PROMPTS
            else precomputed_vectors.read_vectors(folder, role)
        )
    encoder = open_encoder(cfg, table)
    role_table = table(role)
    return store.embed(
        encoder,
        role_table,
        cfg.model.batch_size,
        cfg.trainer,
        Path(cfg.store.dir),
        Path(cfg.store.pictures),
        name=str(cfg.model.name),
        # A partial of a module's function can be pickled for other processes; a lambda cannot.
        load=partial(_load_network, cfg, fingerprint(dict(encoder.identity))),
        perturbation=build_perturbation(cfg, role_table),
    )


def _load_network(cfg: configs.RunConfig, identity_hash: str) -> Network:
    """Load the network of a job from its config, in another process.

    Raises:
        InputError: the encoder's identity has changed since the job began.
    """
    encoder = open_encoder(cfg, partial(stimuli.load, cfg))
    if fingerprint(dict(encoder.identity)) != identity_hash:
        raise InputError(f"{cfg.model.name}: stimuli or versions changed while the job ran. Start it again.")
    return encoder.load()


def hash_inputs(cfg: configs.RunConfig, role: str, table: Callable[[str], Table]) -> str:
    """Hash everything that determines the vectors of one role, whether or not they are stored.

    Raises:
        InputError: precomputed vectors are missing.
    """
    if folder := cfg.model.precomputed:
        return precomputed_vectors.hash_vectors(folder, role)
    encoder, role_table = open_encoder(cfg, table), table(role)
    perturbation = build_perturbation(cfg, role_table)
    return fingerprint(store.collect_identity(encoder, role_table, cfg.model.batch_size, perturbation))


def check_prompts(cfg: configs.RunConfig, prompts: Table) -> None:
    """Check that precomputed vectors include all prompts; other models can embed any prompt.

    Raises:
        NotApplicable: a prompt has no precomputed vector.
        InputError: the table of precomputed prompts cannot be read.
    """
    if folder := cfg.model.precomputed:
        precomputed_vectors.find_prompt_rows(folder, prompts)
