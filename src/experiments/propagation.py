"""Propagation of bias from the representation into what is retrieved (Ghate et al. 2025)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from src.configs import ProtocolConfig
from src.errors import InputError
from src.experiments.attributes import VALENCE, Pool, pools
from src.experiments.units import Stratum, strata, units_of
from src.metrics import mean_outcome, sc_eat, similarity, spearman
from src.stimuli import CARRIES, IMAGE_ROLES, TEXT_ROLES, Table

# Similarities held at once: 16 MB; measured faster than 64 or 256.
BLOCK = 2**21


@dataclass(frozen=True)
class Result:
    """What one experiment yields.

    Attributes:
        analyses: one row per analysis: `group`, `stratum`, `n`, `n_excluded`, `rho`, `p`,
            `reason`, and the reading over all targets, `rho_all`, `p_all`, `n_all`.
        targets: `id`, `group`, `stratum`, `intrinsic`, `extrinsic`: the units of each analysis.
        attributes: `group`, `template`, `set`, `id`: which items were A and B.
        notes: what a reader of the numbers should know.
    """

    analyses: pd.DataFrame
    targets: pd.DataFrame
    attributes: pd.DataFrame
    notes: list[str]


def check(targets: Table, corpus: Table, protocol: ProtocolConfig, seed: int) -> list[Pool]:
    """Say before any work whether the experiment can be made; returns the corpus's pools.

    Raises:
        InputError: the two roles are of one modality.
        NotApplicable: the corpus or the targets are too few.
    """
    if (targets.role in IMAGE_ROLES) == (corpus.role in IMAGE_ROLES):
        raise InputError(
            f"{targets.role} and {corpus.role} are of one modality. exp.targets and exp.corpus must "
            f"be one of {', '.join(IMAGE_ROLES)} and one of {', '.join(TEXT_ROLES)}."
        )
    found = pools(corpus, protocol, seed)
    if CARRIES[targets.role] == CARRIES[corpus.role] == "group" and not {*targets.groups} & {*corpus.groups}:
        raise InputError(
            f"{targets.role} are of {', '.join(targets.groups)}, {corpus.role} of "
            f"{', '.join(corpus.groups)}: no group is in both. Give both the same names."
        )
    if CARRIES[targets.role] == CARRIES[corpus.role] == VALENCE:
        # The stratum of extreme targets has the same needs as the attribute sets.
        pools(targets, replace(protocol, k=1), seed)
    return found


def run(
    targets: Table,
    corpus: Table,
    target_vectors: Tensor,
    corpus_vectors: Tensor,
    protocol: ProtocolConfig,
    seed: int,
) -> Result:
    """One experiment: intrinsic and extrinsic score of each target, and their agreement.

    Args:
        targets: what is looked up with.
        corpus: what is retrieved; of the other modality.
        target_vectors, corpus_vectors: unit vectors in the order of the tables, [N, D] or [N, Q, D].
        protocol: the choices that the paper leaves open.
        seed: of the draw of A and B.

    Raises:
        InputError: see `check`.
    """
    found = check(targets, corpus, protocol, seed)
    if target_vectors.shape[-1] != corpus_vectors.shape[-1]:
        raise InputError(
            f"{targets.role} have vectors of width {target_vectors.shape[-1]}, {corpus.role} of width "
            f"{corpus_vectors.shape[-1]}. Take both from one model."
        )
    intrinsic, extrinsic = scores(target_vectors, corpus_vectors, found, protocol)
    units, (intrinsic, extrinsic) = units_of(targets, intrinsic, extrinsic)
    contents: list[str | None] = [None] if CARRIES[corpus.role] == VALENCE else [*corpus.groups]
    rows, tables = [], []
    for stratum in strata(targets, units, contents, protocol):
        x, y = intrinsic[:, stratum.content], extrinsic[:, stratum.content]
        rows.append(_analysis(stratum, x, y))
        tables.append(_targets(stratum, units, x, y))
    return Result(
        analyses=pd.DataFrame(rows),
        targets=pd.concat(tables, ignore_index=True),
        attributes=_attributes(corpus, found, contents),
        notes=_notes(corpus, found, protocol, int(np.isnan(intrinsic).any(axis=1).sum())),
    )


def scores(
    targets: Tensor, corpus: Tensor, found: list[Pool], protocol: ProtocolConfig
) -> tuple[np.ndarray, np.ndarray]:
    """Algorithm 1: intrinsic and extrinsic score of each target, [N, S] each.

    intrinsic = SC-EAT with A and B, extrinsic = mean outcome of the k most similar items; both are
    averaged over the pools.
    """
    intrinsic = torch.zeros(len(targets), len(found[0].a), dtype=torch.float64)
    extrinsic = torch.zeros_like(intrinsic)
    for pool in found:
        items, outcomes = corpus[pool.rows], torch.from_numpy(pool.outcomes)
        for block in _blocks(targets, items):
            near = similarity(targets[block], items)
            sets = zip(pool.a, pool.b, strict=True)
            effects = [sc_eat(near[:, a], near[:, b], protocol.ddof) for a, b in sets]
            intrinsic[block] += torch.stack(effects, dim=1)
            extrinsic[block] += mean_outcome(near, outcomes, protocol.k)
    return (intrinsic / len(found)).numpy(), (extrinsic / len(found)).numpy()


def _blocks(targets: Tensor, items: Tensor) -> Iterator[slice]:
    vectors = (targets.shape[1] if targets.ndim == 3 else 1) * math.prod(items.shape[:-1])
    size = max(1, BLOCK // vectors)
    return (slice(start, start + size) for start in range(0, len(targets), size))


def _analysis(stratum: Stratum, intrinsic: np.ndarray, extrinsic: np.ndarray) -> dict[str, Any]:
    found = spearman(intrinsic[stratum.rows], extrinsic[stratum.rows])
    row: dict[str, Any] = {
        "group": stratum.group,
        "stratum": stratum.name,
        "n": found.n,
        "n_excluded": found.n_excluded,
        "rho": found.rho,
        "p": found.p,
        "reason": found.reason,
        "rho_all": math.nan,
        "p_all": math.nan,
        "n_all": None,
    }
    if stratum.all_too:
        other = spearman(intrinsic, extrinsic)
        row |= {"rho_all": other.rho, "p_all": other.p, "n_all": other.n}
    return row


def _targets(
    stratum: Stratum, units: pd.DataFrame, intrinsic: np.ndarray, extrinsic: np.ndarray
) -> pd.DataFrame:
    chosen = units.iloc[stratum.rows]
    return pd.DataFrame(
        {
            "id": chosen["name"].to_numpy(),
            "group": pd.array(chosen["group"].to_list(), dtype="string"),
            "stratum": stratum.name,
            "intrinsic": intrinsic[stratum.rows],
            "extrinsic": extrinsic[stratum.rows],
        }
    )


def _attributes(corpus: Table, found: list[Pool], contents: list[str | None]) -> pd.DataFrame:
    ids = corpus.frame["id"].to_numpy()
    templates = corpus.frame["template"].to_numpy() if corpus.role in TEXT_ROLES else None
    parts = []
    for pool in found:
        for content, group in enumerate(contents):
            for name, members in (("A", pool.a[content]), ("B", pool.b[content])):
                rows = pool.rows[members]
                template = None if templates is None else templates[rows]
                parts.append(
                    pd.DataFrame({"group": group, "template": template, "set": name, "id": ids[rows]})
                )
    return pd.concat(parts, ignore_index=True).astype({"group": "string", "template": "string"})


def _notes(corpus: Table, found: list[Pool], protocol: ProtocolConfig, excluded: int) -> list[str]:
    notes = []
    size = min(len(pool.rows) for pool in found)
    if protocol.k > size / 2:
        notes.append(f"k={protocol.k} is above half of the {size} {corpus.role} retrieved from")
    if excluded:
        notes.append(f"{excluded} units have no effect size (zero deviation) and enter no analysis of it")
    return notes
