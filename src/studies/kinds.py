"""What every kind of experiment is asked: which stimuli it shows, whether they suffice, what it finds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import pandas as pd
from torch import Tensor

from src.configs import AuditConfig, ExpConfig, PropagationConfig, RunConfig, SobitConfig, ZeroShotConfig
from src.stimuli import PROMPTS, Table
from src.studies.implicit import experiment as implicit
from src.studies.propagation import experiment as propagation
from src.studies.sobit import experiment as sobit
from src.studies.zero_shot import experiment as zero_shot

# Fields of the protocol that decide something in an audit, in the zero-shot experiment, and in So-B-IT.
OF_AUDITS = ("faces_per_group", "partitions", "ties", "iat", "bootstrap", "pooling")
OF_ZERO_SHOT = ("placebo", "bootstrap", "pooling")
OF_SOBIT = {
    "association": ("permutations", "vocabulary", "baseline", "article", "bootstrap", "pooling"),
    "retrieval": ("top_k", "permutations", "article", "bootstrap", "pooling"),
    "strength": ("top_k", "vocabulary", "baseline", "article", "bootstrap", "pooling"),
}


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


def study(exp: ExpConfig) -> str:
    """Name in `src/versions.yaml` of the study that an experiment belongs to."""
    if isinstance(exp, SobitConfig):
        return "sobit"
    if isinstance(exp, AuditConfig):
        return "implicit"
    return "zero_shot" if isinstance(exp, ZeroShotConfig) else "propagation"


def roles(exp: ExpConfig) -> tuple[str, ...]:
    """Roles of the dataset's stimuli that an experiment shows."""
    if isinstance(exp, PropagationConfig | ZeroShotConfig):
        return exp.targets, exp.corpus
    return ("faces",)


def prompts(cfg: RunConfig) -> Table | None:
    """Texts of its own that a job's experiment shows; None where it has none.

    Raises:
        InputError: they cannot be made of its config.
    """
    if isinstance(cfg.exp, SobitConfig):
        return sobit.prompts(cfg)
    return implicit.prompts(cfg.exp) if isinstance(cfg.exp, AuditConfig) else None


def check(cfg: RunConfig, tables: Mapping[str, Table]) -> None:
    """Say before any work whether a job's experiment can be made.

    Args:
        cfg: the job.
        tables: of its experiment's roles.

    Raises:
        InputError: it cannot; `NotApplicable` where another dataset could serve it.
    """
    exp = cfg.exp
    if isinstance(exp, SobitConfig):
        sobit.check(cfg, tables["faces"])
    elif isinstance(exp, AuditConfig):
        implicit.check(exp, tables["faces"], cfg.protocol, cfg.seed)
    elif isinstance(exp, ZeroShotConfig):
        zero_shot.check(exp, tables[exp.targets], tables[exp.corpus])
    elif isinstance(exp, PropagationConfig):
        propagation.check(tables[exp.targets], tables[exp.corpus], cfg.protocol, cfg.seed)


def run(cfg: RunConfig, tables: Mapping[str, Table], vectors: Mapping[str, Tensor]) -> Found:
    """Make a job's experiment.

    Args:
        cfg: the job.
        tables: of its experiment's roles, and of its prompts.
        vectors: of the same, unit length, in the order of the tables.

    Raises:
        InputError: see `check`.
    """
    exp, protocol, seed = cfg.exp, cfg.protocol, cfg.seed
    if isinstance(exp, SobitConfig):
        return sobit.run(cfg, tables, vectors)
    if isinstance(exp, AuditConfig):
        faces, own = tables["faces"], tables[PROMPTS]
        return implicit.run(exp, faces, own, vectors["faces"], vectors[PROMPTS], protocol, seed)
    first, second = roles(exp)
    targets, corpus = tables[first], tables[second]
    if isinstance(exp, ZeroShotConfig):
        return zero_shot.run(exp, targets, corpus, vectors[first], vectors[second], protocol, seed)
    return propagation.run(targets, corpus, vectors[first], vectors[second], protocol, seed)


def unused(field: str, exp: ExpConfig) -> bool:
    """Whether a field of the protocol decides nothing in an experiment."""
    if isinstance(exp, AuditConfig):
        return field not in OF_AUDITS or (field == "iat" and not exp.pairs)
    if isinstance(exp, SobitConfig):
        return field not in OF_SOBIT[exp.measure]
    if isinstance(exp, PropagationConfig):
        idle = {*OF_AUDITS}.union(*OF_SOBIT.values()) - {"bootstrap", "pooling"}
        return field in idle or propagation.unused(field, exp.targets, exp.corpus)
    return field not in OF_ZERO_SHOT
