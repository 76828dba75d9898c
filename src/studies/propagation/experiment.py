"""Run experiments on propagation of bias from the representation into retrieval (Ghate et al. 2025)."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from src.configs import ProtocolConfig
from src.errors import InputError, NotApplicable
from src.metrics import pool_vectors, spearman
from src.stimuli import CARRIES, IMAGE_ROLES, TEXT_ROLES, Table, clusters
from src.studies.propagation import measures, reliability
from src.studies.propagation.attributes import VALENCE, Corpus, check_size, corpus_of
from src.studies.propagation.cosine_difference import DIFFERENCE
from src.studies.propagation.intervention import Intervention, intervene
from src.studies.propagation.jackknifed_statistics import tabulate_jackknife
from src.studies.propagation.level import RetrievalCounts, levels_of
from src.studies.propagation.measures import extrinsic_of, intrinsic_of
from src.studies.propagation.null_models import PLACEBO, draw_null_models
from src.studies.propagation.null_scores import NullScores
from src.studies.propagation.retrieved_items import Tally
from src.studies.propagation.scores import Associations, Outcomes
from src.studies.propagation.similarity_blocks import similarity_blocks
from src.studies.propagation.uncertainty import ScorePair, uncertainty_of
from src.studies.propagation.units import Stratum, Units, strata_of, units_of
from src.studies.shared.jackknife_table import TABLE


@dataclass(frozen=True)
class Result:
    """Result of an experiment: its analyses, further tables, and notes on how to read its numbers."""

    # One row per analysis; columns: see `src.studies.propagation.combined`.
    analyses: pd.DataFrame
    targets: pd.DataFrame  # both scores of each unit, by analysis
    attributes: pd.DataFrame  # items of A and B
    draws: pd.DataFrame  # rho under each null model
    level_draws: pd.DataFrame  # observed level (draw 0), and level under each permutation of the placebo
    level_units: pd.DataFrame  # difference of mean cosines and outcome of each unit (table `levels`)
    retrieved: pd.DataFrame | None  # items that contribute most to outcomes; None if nothing is retrieved
    jackknife: pd.DataFrame  # levels and rhos without each cluster of the targets
    reliability: pd.DataFrame | None  # correlations per split of the corpus; None without exp.reliability
    notes: list[str]
    measure: measures.IntrinsicMeasure
    outcome: measures.ExtrinsicOutcome
    intervention: Intervention | None = None  # None without exp.intervene

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Return the tables other than `analyses`, by name."""
        tables = {
            "targets": self.targets,
            "attributes": self.attributes,
            "draws": self.draws,
            "level_draws": self.level_draws,
            "levels": self.level_units,
            "retrieved": self.retrieved,
            TABLE: self.jackknife,
            "reliability": self.reliability,
        }
        available = {name: table for name, table in tables.items() if table is not None}
        return available | (self.intervention.tables if self.intervention else {})


def check(
    targets: Table, corpus: Table, protocol: ProtocolConfig, seed: int, *, with_reliability: bool = False
) -> Corpus:
    """Check that the experiment can run, before any work; return the corpus with its attribute sets.

    Its k is 0 if the outcome retrieves nothing. Raise `InputError` for roles of the same modality. Raise
    `NotApplicable` if the roles have no common group, if the outcome cannot be scored, if there are too few
    items in the targets, the corpus or (`with_reliability`) a half of the corpus, or if `with_reliability` is
    set although the outcome ignores the corpus.
    """
    intrinsic_of(protocol)
    if (targets.role in IMAGE_ROLES) == (corpus.role in IMAGE_ROLES):
        raise InputError(
            f"expected an image role ({', '.join(IMAGE_ROLES)}) and a text role ({', '.join(TEXT_ROLES)}), "
            f"got {targets.role} and {corpus.role}. Change exp.targets or exp.corpus."
        )
    search_corpus, outcome = corpus_of(corpus, protocol, seed), extrinsic_of(protocol)
    if targets.role not in outcome.target_roles:
        raise NotApplicable(
            f"protocol.extrinsic={protocol.extrinsic}: expected targets {', '.join(outcome.target_roles)}, "
            f"got {targets.role}. Choose another exp, or protocol.extrinsic=top_k."
        )
    outcome.check(search_corpus)
    if not outcome.retrieves:
        search_corpus = replace(search_corpus, pools=[replace(pool, k=0) for pool in search_corpus.pools])
    if CARRIES[targets.role] == CARRIES[corpus.role] == "group" and not {*targets.groups} & {*corpus.groups}:
        raise NotApplicable(
            f"expected a group that is in both roles, got {', '.join(targets.groups)} in {targets.role} and "
            f"{', '.join(corpus.groups)} in {corpus.role}. Use the same group names in both."
        )
    if CARRIES[targets.role] == CARRIES[corpus.role] == VALENCE and protocol.targets != "all":
        # Extreme targets are chosen in the same way as the attribute sets of a corpus.
        check_size(targets.role, targets.n_items, protocol)
    if with_reliability and outcome.ignores_corpus:
        raise NotApplicable(
            f"exp.reliability=true halves the corpus, but protocol.extrinsic={protocol.extrinsic} does not "
            "depend on it. Use protocol.extrinsic=top_k or exp.reliability=false."
        )
    if with_reliability:
        reliability.check(corpus, protocol, seed)
    return search_corpus


def is_unused(field: str, target_role: str, corpus_role: str) -> bool:
    """Return whether a protocol field has no effect in an experiment with these roles.

    >>> is_unused("extremes", "faces", "labels"), is_unused("extremes", "faces", "words")
    (True, False)
    """
    target_property, corpus_property = CARRIES[target_role], CARRIES[corpus_role]
    return {
        "extremes": corpus_property != VALENCE,
        "set_size": corpus_property != "group",
        "unit": target_role in IMAGE_ROLES,
        "targets": not target_property == corpus_property == VALENCE,
        "strata": not target_property == corpus_property == "group",
        "property_draws": corpus_property != VALENCE,
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
    prompts: tuple[Table, Tensor] | None = None,
) -> Result:
    """Run an experiment: score each target, correlate the scores, estimate levels and their uncertainty.

    Vectors are unit vectors in the order of their table, [N, D] or [N, Q, D]. `max_intervened` is the
    maximum number of targets per group in the intervention (0: all); None: no intervention. `prompts` are the
    texts of an outcome that has some, and their unit vectors. Raise the errors of `check`.
    """
    search_corpus = check(targets, corpus, protocol, seed, with_reliability=with_reliability)
    if target_vectors.shape[-1] != corpus_vectors.shape[-1]:
        raise InputError(
            f"expected vectors of the same width, got {target_vectors.shape[-1]} for {targets.role} and "
            f"{corpus_vectors.shape[-1]} for {corpus.role}. Use vectors of the same model."
        )
    if protocol.pooling == "mean":
        target_vectors, corpus_vectors = pool_vectors(target_vectors), pool_vectors(corpus_vectors)
    units = units_of(targets, protocol)
    strata = [*strata_of(targets, units, search_corpus.properties, protocol)]
    nulls = draw_null_models(search_corpus, corpus_vectors)
    vectors = target_vectors, corpus_vectors
    measure, outcome = intrinsic_of(protocol), extrinsic_of(protocol)
    if outcome.bind and prompts:
        outcome = outcome.bind(*prompts)
    null_scores = NullScores(units, strata, search_corpus, nulls.null_models, *vectors, measure, outcome)
    associations = Associations(*vectors, search_corpus.pools, measure, protocol)
    outcomes = Outcomes(len(targets.frame), search_corpus.pools, null_scores.scorer)
    cosine_differences = Associations(*vectors, search_corpus.pools, DIFFERENCE, protocol)
    tally = Tally(units, strata, search_corpus) if outcome.retrieves else None
    counts = RetrievalCounts(targets, search_corpus) if outcome.retrieves else None
    # Every block has vectors and, if the outcome retrieves, the nearest items: enough for all scores. Only
    # null models need the similarities with all items of a pool.
    for block in similarity_blocks(*vectors, search_corpus.pools, with_similarities=null_scores.is_needed):
        for consumer in (associations, outcomes, cosine_differences, null_scores, tally, counts):
            if consumer:
                consumer.add(block)
    unit_scores = ScorePair(units.average(associations.scores), units.average(outcomes.scores))
    unit_clusters = clusters.assign_clusters(targets).iloc[units.rows[:, 0]].reset_index(drop=True)
    common_arguments = targets, search_corpus, units, unit_clusters, strata
    uncertainties, draws = uncertainty_of(*common_arguments, unit_scores, null_scores, nulls.refusals)
    placebo = next((null for null in nulls.null_models if null.kind == PLACEBO), None)
    if placebo and outcome.ignores_corpus:  # its level is the same under every permutation of the corpus
        placebo = None
        nulls.notes.append(f"no p of levels, since {protocol.extrinsic} does not depend on the corpus")
    level_scores = units.average(cosine_differences.scores), unit_scores.extrinsic
    levels = levels_of(*common_arguments, level_scores, counts, null_scores, placebo, nulls.refusals)
    if outcome.ignores_corpus:  # bounds are those of a corpus; harm is always at one, as it is 0 or 1
        for row in levels.rows:
            row |= {"at_bound": math.nan, "ceiling": math.nan}
    ratings = units.frame["valence"].to_numpy(dtype=float) if CARRIES[targets.role] == VALENCE else None
    jackknife = tabulate_jackknife(units, unit_clusters, strata, ratings, level_scores, unit_scores)
    intervention = None
    if max_intervened is not None:
        intervention = intervene(*common_arguments, vectors, levels.draws, max_intervened)
    # Only scores other than the paper's have label columns.
    labels = {"intrinsic": measure.label, "extrinsic": outcome.labels[CARRIES[corpus.role]]}
    labels = {f"{field}_label": labels[field] for field in measures.non_default_names(protocol)}
    analyses = [_analyse(stratum, units, unit_scores) for stratum in strata]
    rows = [
        row | level | uncertainty | nulls.columns | labels
        for row, level, uncertainty in zip(analyses, levels.rows, uncertainties, strict=True)
    ]
    splits = None
    if with_reliability:
        reliabilities, splits = reliability.reliability_of(
            corpus, vectors, units, unit_clusters, strata, protocol, seed
        )
        rows = [row | columns for row, columns in zip(rows, reliabilities, strict=True)]
    target_tables = [_build_target_table(stratum, units, unit_clusters, unit_scores) for stratum in strata]
    notes = nulls.notes + outcome.notes(search_corpus) + (intervention.notes if intervention else [])
    if n_excluded := int(np.isnan(unit_scores.intrinsic).any(axis=1).sum()):
        notes.append(
            f"{n_excluded} units have {measure.undefined} and are excluded from the analyses in which it is "
            "missing"
        )
    return Result(
        analyses=pd.DataFrame(rows),
        targets=pd.concat(target_tables, ignore_index=True),
        attributes=_build_attribute_table(search_corpus),
        draws=draws,
        level_draws=levels.draws,
        level_units=levels.units,
        retrieved=tally.build_table() if tally else None,
        jackknife=jackknife,
        reliability=splits,
        notes=notes,
        measure=measure,
        outcome=outcome,
        intervention=intervention,
    )


def _analyse(stratum: Stratum, units: Units, unit_scores: ScorePair) -> dict[str, Any]:
    """Return the columns `PROPAGATION` (see `src.studies.propagation.combined`) of a stratum."""
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
    """Correlate scores within each block of units (`Units.blocks`), and average rho over blocks.

    With several blocks p is NaN; `n` is the minimum over blocks, `n_excluded` the sum, and `reason` the first
    that is not empty.
    """
    blocks = units.blocks[rows]
    rows_by_block = [rows[blocks == block] for block in np.unique(blocks)] or [rows]
    correlations = [spearman(x[block_rows], y[block_rows]) for block_rows in rows_by_block]
    return {
        "n": min(correlation.n for correlation in correlations),
        "n_excluded": sum(correlation.n_excluded for correlation in correlations),
        "rho": float(np.mean([correlation.rho for correlation in correlations])),
        "p": correlations[0].p if len(correlations) == 1 else math.nan,
        "reason": next((correlation.reason for correlation in correlations if correlation.reason), ""),
    }


def _build_target_table(
    stratum: Stratum, units: Units, unit_clusters: pd.DataFrame, unit_scores: ScorePair
) -> pd.DataFrame:
    members = units.frame.iloc[stratum.rows]
    columns = {
        "id": members["id"].to_numpy(),
        "group": pd.array(members["group"].to_list(), dtype="string"),
        "stratum": stratum.name,
        "intrinsic": unit_scores.intrinsic[stratum.rows, stratum.column],
        "extrinsic": unit_scores.extrinsic[stratum.rows, stratum.column],
        "valence": members["valence"].to_numpy(dtype=float),
        **{name: unit_clusters[name].to_numpy()[stratum.rows] for name in unit_clusters},
    }
    if "template" in members:
        columns["template"] = members["template"].to_numpy()
    return pd.DataFrame(columns)


def _build_attribute_table(corpus: Corpus) -> pd.DataFrame:
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
