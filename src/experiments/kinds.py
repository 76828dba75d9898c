"""What every kind of experiment is asked: which stimuli it shows, whether they suffice, what it finds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import pandas as pd
from torch import Tensor

from src.configs import AuditConfig, ExpConfig, PropagationConfig, ProtocolConfig, ZeroShotConfig
from src.experiments import audit, propagation, zero_shot
from src.stimuli import PROMPTS, Table

# Fields of the protocol that decide something in an audit, and in the zero-shot experiment.
OF_AUDITS = ("faces_per_group", "partitions", "ties", "iat", "bootstrap", "pooling")
OF_ZERO_SHOT = ("placebo", "bootstrap", "pooling")


class Found(Protocol):
    """What an experiment yields: rows of analyses.csv, the tables beside it, what a reader should know."""

    @property
    def analyses(self) -> pd.DataFrame:
        """One row per analysis."""

    @property
    def tables(self) -> Mapping[str, pd.DataFrame]:
        """Name -> content of each table beside the analyses."""

    @property
    def notes(self) -> list[str]:
        """What a reader of the numbers should know."""


def roles(exp: ExpConfig) -> tuple[str, ...]:
    """Roles of the dataset's stimuli that an experiment shows."""
    if isinstance(exp, PropagationConfig | ZeroShotConfig):
        return exp.targets, exp.corpus
    return ("faces",)


def prompts(exp: ExpConfig) -> Table | None:
    """Texts of its own that an experiment shows; None where it has none.

    Raises:
        InputError: they cannot be made of its config.
    """
    return audit.prompts(exp) if isinstance(exp, AuditConfig) else None


def check(exp: ExpConfig, tables: Mapping[str, Table], protocol: ProtocolConfig, seed: int) -> None:
    """Say before any work whether an experiment can be made.

    Args:
        exp: which.
        tables: of its roles.
        protocol: sizes.
        seed: of draws.

    Raises:
        InputError: it cannot; `NotApplicable` where another dataset could serve it.
    """
    if isinstance(exp, AuditConfig):
        audit.check(exp, tables["faces"], protocol, seed)
    elif isinstance(exp, ZeroShotConfig):
        zero_shot.check(exp, tables[exp.targets], tables[exp.corpus])
    elif isinstance(exp, PropagationConfig):
        propagation.check(tables[exp.targets], tables[exp.corpus], protocol, seed)


def run(
    exp: ExpConfig,
    tables: Mapping[str, Table],
    vectors: Mapping[str, Tensor],
    protocol: ProtocolConfig,
    seed: int,
) -> Found:
    """Make an experiment.

    Args:
        exp: which.
        tables: of its roles, and of its prompts.
        vectors: of the same, unit length, in the order of the tables.
        protocol: every choice that the papers leave open.
        seed: of every draw.

    Raises:
        InputError: see `check`.
    """
    if isinstance(exp, AuditConfig):
        faces, own = tables["faces"], tables[PROMPTS]
        return audit.run(exp, faces, own, vectors["faces"], vectors[PROMPTS], protocol, seed)
    first, second = roles(exp)
    targets, corpus = tables[first], tables[second]
    if isinstance(exp, ZeroShotConfig):
        return zero_shot.run(exp, targets, corpus, vectors[first], vectors[second], protocol, seed)
    return propagation.run(targets, corpus, vectors[first], vectors[second], protocol, seed)


def unused(field: str, exp: ExpConfig) -> bool:
    """Whether a field of the protocol decides nothing in an experiment."""
    if isinstance(exp, AuditConfig):
        return field not in OF_AUDITS or (field == "iat" and not exp.pairs)
    if isinstance(exp, PropagationConfig):
        idle = set(OF_AUDITS) - {"bootstrap", "pooling"}
        return field in idle or propagation.unused(field, exp.targets, exp.corpus)
    return field not in OF_ZERO_SHOT
