"""Run experiments on propagation of bias from the representation into retrieval (Ghate et al. 2025)."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from src.configs import ProtocolConfig
from src.errors import InputError
from src.metrics import pool_vectors, spearman
from src.stimuli import CARRIES, IMAGE_ROLES, TEXT_ROLES, Table, clusters
from src.studies.propagation import measures, reliability
from src.studies.propagation.attributes import VALENCE, Corpus, check_size, corpus_of
from src.studies.propagation.cosine_difference import DIFFERENCE
from src.studies.propagation.intervention import Intervention, intervene
from src.studies.propagation.level import RetrievalCounts, levels_of
from src.studies.propagation.measures import extrinsic_of, intrinsic_of
from src.studies.propagation.null_models import draw_null_models
from src.studies.propagation.null_scores import Sample
from src.studies.propagation.retrieved_items import Tally
from src.studies.propagation.scores import Associations, Outcomes
from src.studies.propagation.similarity_blocks import similarity_blocks
from src.studies.propagation.uncertainty import ScorePair, uncertainty_of
from src.studies.propagation.units import Stratum, Units, strata, units_of


@dataclass(frozen=True)
class Result:
    """Result of an experiment: its analyses, further tables, and notes for readers of the numbers."""

    # Row per analysis: `combined.PROPAGATION` and the uncertainty of rho (`combined.UNCERTAINTY`).
    analyses: pd.DataFrame
    targets: pd.DataFrame  # both scores of the units of each analysis
    attributes: pd.DataFrame  # the items of A and B
    draws: pd.DataFrame  # rho under all null models
    level_draws: pd.DataFrame  # level under the placebo's permutations
    levels: pd.DataFrame  # difference of mean cosines and outcome of all targets
    retrieved: pd.DataFrame | None  # items that move each outcome most; None without retrieval
    reliability: pd.DataFrame | None  # correlations of scores from halves of the corpus; None without
    notes: list[str]
    measure: measures.IntrinsicMeasure
    outcome: measures.ExtrinsicOutcome
    intervention: Intervention | None = None  # None unless it was configured

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Return the tables other than the analyses, by name."""
        names = ("targets", "attributes", "draws", "level_draws", "levels", "retrieved", "reliability")
        tables = {name: table for name in names if (table := getattr(self, name)) is not None}
        return tables | (self.intervention.tables if self.intervention else {})


def check(
    targets: Table, corpus: Table, protocol: ProtocolConfig, seed: int, *, with_reliability: bool = False
) -> Corpus:
    """Check that the experiment can run, before any work; return the corpus with its attribute sets.

    Raise `InputError` for roles of the same modality or without a common group, and `NotApplicable` if corpus
    or targets have too few items (`with_reliability`: or a half of the corpus), or the outcome cannot be
    scored.
    """
    intrinsic_of(protocol)
    if (targets.role in IMAGE_ROLES) == (corpus.role in IMAGE_ROLES):
        raise InputError(
            f"{targets.role} and {corpus.role} are of one modality. Set exp.targets and exp.corpus to one "
            f"of {', '.join(IMAGE_ROLES)} and one of {', '.join(TEXT_ROLES)}."
        )
    search_corpus, outcome = corpus_of(corpus, protocol, seed), extrinsic_of(protocol)
    outcome.check(search_corpus)
    if not outcome.retrieves:
        search_corpus = replace(search_corpus, pools=[replace(pool, k=0) for pool in search_corpus.pools])
    if CARRIES[targets.role] == CARRIES[corpus.role] == "group" and not {*targets.groups} & {*corpus.groups}:
        raise InputError(
            f"{targets.role} are of {', '.join(targets.groups)}, {corpus.role} of "
            f"{', '.join(corpus.groups)}: no group is in both. Use the same group names in both."
        )
    if CARRIES[targets.role] == CARRIES[corpus.role] == VALENCE and protocol.targets != "all":
        # The stratum of extreme targets needs as many items as the attribute sets.
        check_size(targets.role, targets.n_items, protocol)
    if with_reliability:
        reliability.check(corpus, protocol, seed)
    return search_corpus


def is_unused(field: str, targets: str, corpus: str) -> bool:
    """Return whether a field of the protocol has no effect in an experiment with these roles.

    >>> is_unused("extremes", "faces", "labels"), is_unused("extremes", "faces", "words")
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
    *,
    with_reliability: bool = False,
    max_intervened: int | None = None,
) -> Result:
    """Run an experiment: both scores of each target, their agreement and its uncertainty.

    Vectors are of unit length in the order of their table, [N, D] or [N, Q, D]. `max_intervened` is the
    maximum number of targets of each group from which what is measured is removed, 0 for all; None: no
    intervention. Raise the errors of `check`.
    """
    search_corpus = check(targets, corpus, protocol, seed, with_reliability=with_reliability)
    if target_vectors.shape[-1] != corpus_vectors.shape[-1]:
        raise InputError(
            f"expected vectors of equal width, got {target_vectors.shape[-1]} for {targets.role} and "
            f"{corpus_vectors.shape[-1]} for {corpus.role}. Use vectors of the same model."
        )
    if protocol.pooling == "mean":
        target_vectors, corpus_vectors = pool_vectors(target_vectors), pool_vectors(corpus_vectors)
    units = units_of(targets, protocol)
    all_strata = list(strata(targets, units, search_corpus.properties, protocol))
    nulls = draw_null_models(search_corpus, corpus_vectors)
    vectors = target_vectors, corpus_vectors
    measure, outcome = intrinsic_of(protocol), extrinsic_of(protocol)
    sample = Sample(units, all_strata, search_corpus, nulls.null_models, *vectors, measure, outcome)
    associations = Associations(*vectors, search_corpus.pools, measure, protocol)
    outcomes = Outcomes(len(targets.frame), search_corpus.pools, sample.scorer)
    differences = Associations(*vectors, search_corpus.pools, DIFFERENCE, protocol)
    tally = Tally(units, all_strata, search_corpus) if outcome.retrieves else None
    counts = RetrievalCounts(targets, search_corpus) if outcome.retrieves else None
    # Null models need all similarities of their sampled targets.
    for block in similarity_blocks(*vectors, search_corpus.pools, every=bool(sample.cases)):
        for consumer in (associations, outcomes, differences, sample, tally, counts):
            if consumer:
                consumer.add(block)
    unit_scores = ScorePair(units.average(associations.scores), units.average(outcomes.scores))
    ways = clusters.assign_clusters(targets).iloc[units.rows[:, 0]].reset_index(drop=True)
    shared = targets, search_corpus, units, ways, all_strata
    uncertainties, draws = uncertainty_of(*shared, unit_scores, sample, nulls.refusals)
    placebo = next((models for models in nulls.null_models if models.kind == "placebo"), None)
    level_scores = units.average(differences.scores), unit_scores.extrinsic
    levels = levels_of(*shared, level_scores, counts, sample, placebo, nulls.refusals)
    intervention = None
    if max_intervened is not None:
        intervention = intervene(*shared, vectors, levels.draws, max_intervened)
    # Label columns of scores that are not the paper's.
    labels = {"intrinsic": measure.label, "extrinsic": outcome.labels[CARRIES[corpus.role]]}
    labels = {f"{field}_label": labels[field] for field in measures.non_default(protocol)}
    analyses = [_analysis(stratum, units, unit_scores) for stratum in all_strata]
    rows = [
        row | level | uncertainty | nulls.columns | labels
        for row, level, uncertainty in zip(analyses, levels.rows, uncertainties, strict=True)
    ]
    splits = None
    if with_reliability:
        columns, splits = reliability.reliability_of(corpus, vectors, units, ways, all_strata, protocol, seed)
        rows = [row | more for row, more in zip(rows, columns, strict=True)]
    tables = [_targets(stratum, units, ways, unit_scores) for stratum in all_strata]
    notes, excluded = (
        nulls.notes + outcome.notes(search_corpus),
        int(np.isnan(unit_scores.intrinsic).any(axis=1).sum()),
    )
    notes += intervention.notes if intervention else []
    if excluded:
        notes.append(f"{excluded} units have {measure.undefined} and are excluded from the analysis")
    return Result(
        analyses=pd.DataFrame(rows),
        targets=pd.concat(tables, ignore_index=True),
        attributes=_attributes(search_corpus),
        draws=draws,
        level_draws=levels.draws,
        levels=levels.units,
        retrieved=tally.table() if tally else None,
        reliability=splits,
        notes=notes,
        measure=measure,
        outcome=outcome,
        intervention=intervention,
    )


def _analysis(stratum: Stratum, units: Units, unit_scores: ScorePair) -> dict[str, Any]:
    x, y = unit_scores.intrinsic[:, stratum.column], unit_scores.extrinsic[:, stratum.column]
    row: dict[str, Any] = {"group": stratum.group, "stratum": stratum.name}
    for name, values in (("sd_measured", x[stratum.rows]), ("sd_retrieved", y[stratum.rows])):
        row[name] = float(np.nanstd(values)) if np.isfinite(values).any() else math.nan
    row |= _correlate(stratum.rows, units, x, y) | {"rho_all": math.nan, "p_all": math.nan, "n_all": None}
    if stratum.also_over_all:
        over_all = _correlate(np.arange(len(x)), units, x, y)
        row |= {f"{name}_all": over_all[name] for name in ("rho", "p", "n")}
    return row


def _correlate(rows: np.ndarray, units: Units, x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Correlate scores over units; with several blocks, average rho over them, and p is NaN."""
    blocks = units.blocks[rows]
    row_groups = [rows[blocks == block] for block in np.unique(blocks)] or [rows]
    correlations = [spearman(x[group_rows], y[group_rows]) for group_rows in row_groups]
    return {
        "n": min(correlation.n for correlation in correlations),
        "n_excluded": sum(correlation.n_excluded for correlation in correlations),
        "rho": float(np.mean([correlation.rho for correlation in correlations])),
        "p": correlations[0].p if len(correlations) == 1 else math.nan,
        "reason": next((correlation.reason for correlation in correlations if correlation.reason), ""),
    }


def _targets(stratum: Stratum, units: Units, ways: pd.DataFrame, unit_scores: ScorePair) -> pd.DataFrame:
    members = units.frame.iloc[stratum.rows]
    columns = {
        "id": members["id"].to_numpy(),
        "group": pd.array(members["group"].to_list(), dtype="string"),
        "stratum": stratum.name,
        "intrinsic": unit_scores.intrinsic[stratum.rows, stratum.column],
        "extrinsic": unit_scores.extrinsic[stratum.rows, stratum.column],
        "valence": members["valence"].to_numpy(dtype=float),
        **{name: ways[name].to_numpy()[stratum.rows] for name in ways},
    }
    if "template" in members:
        columns["template"] = members["template"].to_numpy()
    return pd.DataFrame(columns)


def _attributes(corpus: Corpus) -> pd.DataFrame:
    frame = corpus.table.frame
    templates = frame["template"].to_numpy() if corpus.table.role in TEXT_ROLES else None
    ids = frame["id"].to_numpy()
    tables = []
    for pool in corpus.pools:
        for column, group in enumerate(corpus.properties):
            for name, members in (("A", pool.a[column]), ("B", pool.b[column])):
                rows = pool.rows[members]
                template = None if templates is None else templates[rows]
                columns = {"group": group, "template": template, "set": name, "id": ids[rows]}
                tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True).astype({"group": "string", "template": "string"})
