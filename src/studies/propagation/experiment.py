"""Propagation of bias from the representation into what is retrieved (Ghate et al. 2025)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from src.configs import ProtocolConfig
from src.errors import InputError
from src.metrics import spearman
from src.stimuli import CARRIES, IMAGE_ROLES, TEXT_ROLES, Table
from src.studies.propagation.attributes import VALENCE, Corpus, corpus_of, enough
from src.studies.propagation.measures import (
    ExtrinsicOutcome,
    IntrinsicMeasure,
    chosen,
    extrinsic_of,
    intrinsic_of,
)
from src.studies.propagation.null_models import alternatives
from src.studies.propagation.null_scores import Sample
from src.studies.propagation.retrieved_items import Tally
from src.studies.propagation.scores import Scores
from src.studies.propagation.similarity_blocks import looks
from src.studies.propagation.uncertainty import Scored, worth
from src.studies.propagation.units import Stratum, Units, strata, units_of
from src.studies.shared.pooling import pooled


@dataclass(frozen=True)
class Result:
    """What one experiment yields.

    Attributes:
        analyses: one row per analysis: `group`, `stratum`, `n`, `n_excluded`, `rho`, `p`, `reason`, the
            reading over all targets, `rho_all`, `p_all`, `n_all`, and what rho is worth (`worth.COLUMNS`).
        targets: `id`, `group`, `stratum`, `intrinsic`, `extrinsic`, `valence`: the units of each analysis; of
            sentences also `template`.
        attributes: `group`, `template`, `set`, `id`: which items were A and B.
        draws: `stratum`, `kind`, `draw`, `rho`: all draws of interval and placebo.
        retrieved: the items that move each outcome most (`retrieved_items.COLUMNS`); None where none are.
        notes: what a reader of the numbers should know.
        measure, outcome: of the scores.
    """

    analyses: pd.DataFrame
    targets: pd.DataFrame
    attributes: pd.DataFrame
    draws: pd.DataFrame
    retrieved: pd.DataFrame | None
    notes: list[str]
    measure: IntrinsicMeasure
    outcome: ExtrinsicOutcome

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Name -> content of each table beside the analyses."""
        names = ("targets", "attributes", "draws", "retrieved")
        return {name: table for name in names if (table := getattr(self, name)) is not None}


def check(targets: Table, corpus: Table, protocol: ProtocolConfig, seed: int) -> Corpus:
    """Say before any work whether the experiment can be made; returns the corpus with its attribute sets.

    Raises:
        InputError: the two roles are of one modality, or no group is in both.
        NotApplicable: the corpus or the targets are too few, or have no such outcome.
    """
    intrinsic_of(protocol)
    if (targets.role in IMAGE_ROLES) == (corpus.role in IMAGE_ROLES):
        raise InputError(
            f"{targets.role} and {corpus.role} are of one modality. exp.targets and exp.corpus must "
            f"be one of {', '.join(IMAGE_ROLES)} and one of {', '.join(TEXT_ROLES)}."
        )
    found, outcome = corpus_of(corpus, protocol, seed), extrinsic_of(protocol)
    outcome.check(found)
    if not outcome.retrieves:
        found = replace(found, pools=[replace(pool, k=0) for pool in found.pools])
    if CARRIES[targets.role] == CARRIES[corpus.role] == "group" and not {*targets.groups} & {*corpus.groups}:
        raise InputError(
            f"{targets.role} are of {', '.join(targets.groups)}, {corpus.role} of "
            f"{', '.join(corpus.groups)}: no group is in both. Give both the same names."
        )
    if CARRIES[targets.role] == CARRIES[corpus.role] == VALENCE and protocol.targets != "all":
        # The stratum of extreme targets has the same needs as the attribute sets.
        enough(targets, protocol)
    return found


def unused(field: str, targets: str, corpus: str) -> bool:
    """Whether a field of the protocol decides nothing in an experiment of these roles.

    >>> unused("extremes", "faces", "labels"), unused("extremes", "faces", "words")
    (True, False)
    """
    carried = CARRIES[targets], CARRIES[corpus]
    return {
        "extremes": carried[1] != VALENCE,
        "set_size": carried[1] != "group",
        "unit": targets in IMAGE_ROLES,
        "targets": carried != (VALENCE, VALENCE),
        "strata": carried != ("group", "group"),
        "property_draws": carried[1] != VALENCE,
    }.get(field, False)


def run(
    targets: Table,
    corpus: Table,
    target_vectors: Tensor,
    corpus_vectors: Tensor,
    protocol: ProtocolConfig,
    seed: int,
) -> Result:
    """One experiment: intrinsic and extrinsic score of each target, their agreement, and what it is worth.

    Args:
        targets: what is looked up with.
        corpus: what is retrieved; of the other modality.
        target_vectors, corpus_vectors: unit vectors in the order of the tables, [N, D] or [N, Q, D].
        protocol: the choices that the paper leaves open.
        seed: of every draw.

    Raises:
        InputError: see `check`.
        NotApplicable: see `check`.
    """
    found = check(targets, corpus, protocol, seed)
    if target_vectors.shape[-1] != corpus_vectors.shape[-1]:
        raise InputError(
            f"{targets.role} have vectors of width {target_vectors.shape[-1]}, {corpus.role} of width "
            f"{corpus_vectors.shape[-1]}. Take both from one model."
        )
    if protocol.pooling == "mean":
        target_vectors, corpus_vectors = pooled(target_vectors), pooled(corpus_vectors)
    units = units_of(targets, protocol)
    parts = list(strata(targets, units, found.contents, protocol))
    worlds = list(alternatives(found, corpus_vectors))
    vectors = target_vectors, corpus_vectors
    measure, outcome = intrinsic_of(protocol), extrinsic_of(protocol)
    sample = Sample(units, parts, found, worlds, *vectors, measure, outcome)
    scores = Scores(*vectors, found.pools, measure, sample.scorer, protocol)
    tally = Tally(units, parts, found) if outcome.retrieves else None
    # Other worlds are computed from all similarities of the targets that they are computed on.
    for look in looks(*vectors, found.pools, every=bool(sample.cases)):
        for watcher in (scores, sample, tally):
            if watcher:
                watcher.see(look)
    scored = Scored(units.averaged(scores.intrinsic), units.averaged(scores.extrinsic))
    columns, draws = worth(targets, found, units, parts, scored, sample)
    named = _named(protocol, measure, outcome, corpus)
    rows = [
        _analysis(stratum, units, scored) | more | named for stratum, more in zip(parts, columns, strict=True)
    ]
    tables = [_targets(stratum, units, scored) for stratum in parts]
    return Result(
        analyses=pd.DataFrame(rows),
        targets=pd.concat(tables, ignore_index=True),
        attributes=_attributes(found),
        draws=draws,
        retrieved=tally.table() if tally else None,
        notes=[*outcome.notes(found), *_excluded(scored, measure)],
        measure=measure,
        outcome=outcome,
    )


def _named(
    protocol: ProtocolConfig, measure: IntrinsicMeasure, outcome: ExtrinsicOutcome, corpus: Table
) -> dict[str, str]:
    """Columns of analyses.csv that say what its scores are, where they are not the paper's."""
    labels = {"intrinsic": measure.label, "extrinsic": outcome.labels[CARRIES[corpus.role]]}
    return {f"{field}_label": labels[field] for field in chosen(protocol)}


def _analysis(stratum: Stratum, units: Units, scored: Scored) -> dict[str, Any]:
    x, y = scored.intrinsic[:, stratum.content], scored.extrinsic[:, stratum.content]
    row: dict[str, Any] = {"group": stratum.group, "stratum": stratum.name}
    row |= _correlated(stratum.rows, units, x, y) | {"rho_all": math.nan, "p_all": math.nan, "n_all": None}
    if stratum.all_too:
        other = _correlated(np.arange(len(x)), units, x, y)
        row |= {f"{name}_all": other[name] for name in ("rho", "p", "n")}
    return row


def _correlated(rows: np.ndarray, units: Units, x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Rho over some units; the mean of one per part, which has no p of its own."""
    parts = units.parts[rows]
    found = [spearman(x[rows[parts == part]], y[rows[parts == part]]) for part in np.unique(parts)]
    found = found or [spearman([], [])]
    reasons = [one.reason for one in found if one.reason]
    return {
        "n": min(one.n for one in found),
        "n_excluded": sum(one.n_excluded for one in found),
        "rho": float(np.mean([one.rho for one in found])),
        "p": found[0].p if len(found) == 1 else math.nan,
        "reason": reasons[0] if reasons else "",
    }


def _targets(stratum: Stratum, units: Units, scored: Scored) -> pd.DataFrame:
    chosen = units.frame.iloc[stratum.rows]
    columns = {
        "id": chosen["id"].to_numpy(),
        "group": pd.array(chosen["group"].to_list(), dtype="string"),
        "stratum": stratum.name,
        "intrinsic": scored.intrinsic[stratum.rows, stratum.content],
        "extrinsic": scored.extrinsic[stratum.rows, stratum.content],
        "valence": chosen["valence"].to_numpy(dtype=float),
    }
    if "template" in chosen:
        columns["template"] = chosen["template"].to_numpy()
    return pd.DataFrame(columns)


def _attributes(corpus: Corpus) -> pd.DataFrame:
    frame = corpus.table.frame
    templates = frame["template"].to_numpy() if corpus.table.role in TEXT_ROLES else None
    ids = frame["id"].to_numpy()
    parts = []
    for pool in corpus.pools:
        for content, group in enumerate(corpus.contents):
            for name, members in (("A", pool.a[content]), ("B", pool.b[content])):
                rows = pool.rows[members]
                template = None if templates is None else templates[rows]
                parts.append(
                    pd.DataFrame({"group": group, "template": template, "set": name, "id": ids[rows]})
                )
    return pd.concat(parts, ignore_index=True).astype({"group": "string", "template": "string"})


def _excluded(scored: Scored, measure: IntrinsicMeasure) -> list[str]:
    excluded = int(np.isnan(scored.intrinsic).any(axis=1).sum())
    return [f"{excluded} units have {measure.undefined} and enter no analysis of it"] if excluded else []
