"""Compute the changes by debiasing: each number of a debiased job compared with the job without debiasing.

They show whether removing group directions changes what is retrieved, or only the intrinsic measure.
See docs/methods.md, section 6.11.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from src.metrics.jackknife import compute_t_interval
from src.report.findings import Findings
from src.studies.debiasing.correlations import RhoChange, estimate_rho_change
from src.studies.shared.cluster_jackknife import is_by_template
from src.studies.shared.draws import StimulusHashes, paired_interval
from src.studies.shared.job_pairs import Pair, join_rows, pair_jobs
from src.studies.shared.spreads import REFUSED, classify_ratio, estimate_spreads
from src.studies.shared.target_jackknife import (
    MEASURES,
    SCORES,
    TargetEstimate,
    average_estimates,
    has_clusters,
    join_targets,
)

DEBIAS = "debias"  # column of the debiasing method
STUDIES = ("propagation", "implicit", "zero_shot")  # studies of the compared jobs
CLES_GAP, IAT, RHO, ACCURACY = "cles_gap", "iat", "rho", "accuracy"
# Spreads over groups of the intrinsic score (SC-EAT), and of the retrieval outcome.
INTRINSIC, OUTCOME = "spread_intrinsic", "spread_outcome"
SPREADS = (INTRINSIC, OUTCOME)  # in the order of `MEASURES`
COLUMNS = ["model", "debias", "measure", "exp", "attribute", "perturb", "protocol", "seed", "before", "after"]
COLUMNS += ["difference", "ci_low", "ci_high", "delta_p", "ratio", "ratio_low", "ratio_high", "equivalent"]
# `over`: number of analyses, pairs of groups or groups over which the number is computed.
COLUMNS += ["verdict", "df", "chance_before", "chance_after", "n", "over"]
COLUMNS += ["config_before", "config_after", "reason"]
# Columns that identify a number; two experiments may compute the same number.
NUMBER_KEYS = ["model", "dataset", "perturb", "protocol", "seed", "debias", "measure", "attribute"]
# Study -> measure under which a pair without the results of a job is listed.
MEASURE_OF_STUDY = {"propagation": RHO, "implicit": CLES_GAP, "zero_shot": ACCURACY}
GROUPS = ["group_a", "group_b"]
NO_DRAWS, UNDEFINED = np.empty((2, 0)), (np.nan, np.nan)  # before and after
NO_CLUSTERS = "the targets were written by an older version, without clusters"


def compute_changes(findings: Findings) -> pd.DataFrame:
    """Compute all changes by debiasing in a sweep, for every specification.

    Returns:
        One row per number: `COLUMNS` (ratios and verdicts for spreads only), `paper` and `dataset` of the
        job, `draws` and `estimate` (see `_build_row`), `lacks_results` (true if one of the two jobs has no
        results), `own_targets` (true if each group is analysed on targets of its own, besides the analysis
        over all) and `is_by_product` (true if the audit compares another measure with its null).
    """
    stimuli = StimulusHashes(findings)
    rows = [
        row for pair in pair_jobs(findings, DEBIAS, STUDIES) for row in _compare_pair(findings, stimuli, pair)
    ]
    flags = ["lacks_results", "own_targets", "is_by_product"]
    table = pd.DataFrame(rows, columns=[*COLUMNS, "paper", "dataset", "draws", "estimate", *flags])
    types: dict[str, Any] = {**dict.fromkeys(flags, bool), "equivalent": "boolean", "df": "Int64"}
    table = table.astype(types)
    # Two audits may have the same words, one for CLES and one for the IAT: each measure is taken from its
    # audit, a by-product only without one.
    all_by_product = table.groupby(NUMBER_KEYS, sort=False)["is_by_product"].transform("all")
    return table[table["is_by_product"].eq(all_by_product)].reset_index(drop=True)


def _compare_pair(findings: Findings, stimuli: StimulusHashes, pair: Pair) -> Iterator[dict[str, Any]]:
    if pair.reason:
        yield _build_row(pair, MEASURE_OF_STUDY[pair.study], reason=pair.reason)
    elif pair.study == "propagation":
        tables = [findings.read(config, "targets") for config in pair.configs]
        targets = join_targets(*tables)
        yield _compare_rho(stimuli, pair, targets)
        n_targets = max(table["id"].nunique() if "id" in table else 0 for table in tables)
        yield from _compare_spreads(stimuli, pair, targets, n_targets)
    elif pair.study == "implicit":
        yield from _compare_audits(findings, stimuli, pair)
    else:
        yield _compare_accuracy(findings, stimuli, pair)


def _build_row(
    pair: Pair,
    measure: str,
    values: Iterable[float] = UNDEFINED,
    *,
    attribute: str = "",
    draws: np.ndarray = NO_DRAWS,
    estimate: TargetEstimate | None = None,
    chance: Iterable[float] = UNDEFINED,
    n: int = 0,
    over: int = 0,
    reason: str = "",
    is_by_product: bool = False,
) -> dict[str, Any]:
    """Build a row of `compute_changes` for a number before and after debiasing.

    Args:
        pair: the two jobs.
        measure: name of the number.
        values: the number before and after.
        attribute: attribute of an audit.
        draws: the number in R bootstrap samples shared by before and after, [2, R]; R may be 0.
        estimate: jackknife estimate of the difference (rho), or `Spreads.estimate` (spreads).
        chance: the number expected by chance before and after: an audit's mean over random partitions, the
            mean of the placebo, or the accuracy of guessing.
        n: number of resampled units.
        over: number of averaged analyses or pairs of groups, or of the groups of a spread.
        reason: remark on incomplete comparisons, or reason why the interval is missing.
        is_by_product: whether the audit compares another measure with its null.
    """
    before, after = values
    row = {**pair.job, DEBIAS: pair.treatment, "measure": measure, "attribute": attribute, "draws": draws}
    row |= {"before": before, "after": after, "difference": after - before, "estimate": estimate}
    row |= {"n": n, "over": over, "reason": reason, "lacks_results": bool(pair.reason)}
    row["is_by_product"] = is_by_product
    row |= zip(("chance_before", "chance_after"), chance, strict=True)
    row |= zip(("config_before", "config_after"), pair.configs, strict=True)
    row |= zip(("ci_low", "ci_high"), paired_interval(draws[1], draws[0]), strict=True)
    # `n_all` is defined where groups are analysed on targets of their own.
    group_sizes = pair.rows[0].reindex(columns=["group", "n_all"])
    return row | {"own_targets": bool(group_sizes.notna().all(axis=1).any())}


def _compare_rho(stimuli: StimulusHashes, pair: Pair, targets: pd.DataFrame) -> dict[str, Any]:
    """Compare the mean rho over the analyses with a rho in both jobs."""
    rows = join_rows(pair, ["stratum"], RHO)
    strata = [*rows["stratum"]]
    total = max(len(job_rows) for job_rows in pair.rows)
    reasons = [] if len(strata) == total else [f"{len(strata)} of {total} analyses have a ρ in both jobs"]
    hashes = [[stimuli.hash_stimuli(config, stratum) for stratum in strata] for config in pair.configs]
    analysed = targets[targets["stratum"].isin(strata)]
    rhos, change = _average_column(rows, RHO), RhoChange()
    if strata and hashes[0] != hashes[1]:
        change = RhoChange(reason="the targets, or A and B, differ")
    elif strata and not has_clusters(analysed):
        change = RhoChange(reason=NO_CLUSTERS)
    elif strata:
        first = pair.rows[0].dropna(subset=[RHO]).iloc[0]
        by_template = "template" in analysed and is_by_template({"rho": first["rho"], "p": first["p"]})
        change = estimate_rho_change(analysed, rhos, by_template)
    reasons += [f"no interval: {change.reason}"] if change.reason else []
    counts: dict[str, Any] = {"n": analysed.dropna(subset=SCORES)["id"].nunique(), "over": len(strata)}
    chance, reason = _average_column(rows, "placebo_mean"), "; ".join(reasons)
    row = _build_row(pair, RHO, rhos, estimate=change.estimate, chance=chance, **counts, reason=reason)
    row["delta_p"] = change.p
    if change.estimate is not None:
        (value,), ((variance,),), df = average_estimates([change.estimate])
        row |= zip(("ci_low", "ci_high", "df"), (*compute_t_interval(value, variance, df), df), strict=True)
    return row


def _compare_spreads(
    stimuli: StimulusHashes, pair: Pair, targets: pd.DataFrame, n_targets: int
) -> Iterator[dict[str, Any]]:
    """Compare the spreads between groups; `n_targets` is the number of targets of the larger job."""
    groups = set.intersection(*(set(rows.dropna(subset=["group"])["stratum"]) for rows in pair.rows))
    grouped = targets[targets["stratum"].isin(groups)].dropna(subset=SCORES)
    counts: dict[str, Any] = {"over": grouped["stratum"].nunique(), "n": grouped["id"].nunique()}
    reasons = []
    if groups and counts["n"] != n_targets:
        reasons.append(f"{counts['n']} of {n_targets} targets have both scores before and after")
    reasons += [] if len({*map(stimuli.hash_sets, pair.configs)}) == 1 else ["A and B differ"]
    for measure, score in zip(SPREADS, MEASURES, strict=True) if groups else ():
        if counts["over"] < 2:
            reason = "a spread needs targets of two or more groups"
            yield _build_row(pair, measure, **counts, reason=reason) | {"verdict": REFUSED}
        elif not has_clusters(grouped):
            reason = "; ".join([*reasons, f"no spread: {NO_CLUSTERS}"])
            yield _build_row(pair, measure, **counts, reason=reason) | {"verdict": REFUSED}
        else:
            spreads = estimate_spreads(grouped, score)
            reason = "; ".join([*reasons, *filter(None, [spreads.reason])])
            values = spreads.before, spreads.after
            row = _build_row(pair, measure, values, **counts, estimate=spreads.estimate, reason=reason)
            ratio = spreads.ratio
            row |= {"ratio": ratio.value, "ratio_low": ratio.low, "ratio_high": ratio.high}
            row |= {"equivalent": ratio.is_equivalent, "verdict": classify_ratio(ratio)}
            yield row | {"df": spreads.df}


def _compare_audits(findings: Findings, stimuli: StimulusHashes, pair: Pair) -> Iterator[dict[str, Any]]:
    """Compare |CLES - 1/2| and IAT of each attribute: means over the pairs of groups that both jobs have."""
    null_measure = _infer_null_measure(pair)
    is_same = len({*map(stimuli.hash_sets, pair.configs)}) == 1
    frames = [_read_bootstrap(findings, config) for config in pair.configs] if is_same else []
    attributes = dict.fromkeys(pd.concat([rows["attribute"] for rows in pair.rows]))
    for attribute, measure in itertools.product(attributes, (CLES_GAP, IAT)):
        attribute_rows = [rows[rows["attribute"] == attribute] for rows in pair.rows]
        total = max(rows[measure].count() if measure in rows else 0 for rows in attribute_rows)
        if not total:  # an audit without pairs of words has no IAT
            continue
        rows = join_rows(pair, ["attribute", *GROUPS], measure)
        rows = rows[rows["attribute"] == attribute]
        groups = [*rows[GROUPS].itertuples(index=False, name=None)]
        bootstrap = _average_draws([_select_draws(frame, attribute, groups, measure) for frame in frames])
        reasons = [] if len(rows) == total else [f"{len(rows)} of {total} pairs of groups are in both jobs"]
        if groups and not bootstrap.size:
            reasons.append("no interval: " + ("no bootstrap" if is_same else "the faces differ"))
        face_counts = {
            row[f"group_{side}"]: row[f"n_{side}_after"] for row in rows.to_dict("records") for side in "ab"
        }
        yield _build_row(
            pair,
            measure,
            _average_column(rows, measure),
            attribute=attribute,
            draws=bootstrap,
            chance=_average_column(rows, "null_mean") if measure == null_measure else UNDEFINED,
            n=int(sum(face_counts.values())),
            over=len(rows),
            reason="; ".join(reasons),
            is_by_product=measure != null_measure,
        )


def _infer_null_measure(pair: Pair) -> str:
    """Infer which measure, CLES or IAT, an audit compares with its null."""
    # Analyses of older versions lack the column `measure`; there the paper decides.
    by_paper = IAT if pair.job["paper"] == "IAT" else CLES_GAP
    measures = pair.rows[0].reindex(columns=["measure"])["measure"].dropna()
    return str(measures.iloc[0]) if len(measures) else by_paper


def _compare_accuracy(findings: Findings, stimuli: StimulusHashes, pair: Pair) -> dict[str, Any]:
    """Compare the zero-shot accuracies."""
    rows = pd.concat([job_rows.head(1) for job_rows in pair.rows])  # before, after
    is_same = len({stimuli.hash_stimuli(config, "scenes") for config in pair.configs}) == 1
    configs = pair.configs if is_same else ()
    bootstrap = _average_draws([[_read_bootstrap(findings, config)[ACCURACY]] for config in configs])
    return _build_row(
        pair,
        ACCURACY,
        rows[ACCURACY].astype(float),
        draws=bootstrap,
        chance=rows["chance"].astype(float),
        n=int(rows["n"].min()),
        over=1,
        reason="" if bootstrap.size else f"no interval: {'no bootstrap' if is_same else 'the scenes differ'}",
    )


def _read_bootstrap(findings: Findings, config: str) -> pd.DataFrame:
    columns = ["attribute", *GROUPS, "kind", "draw", CLES_GAP, IAT, ACCURACY]
    draws = findings.read(config, "draws").reindex(columns=columns)
    return draws[draws["kind"] == "bootstrap"].sort_values("draw", kind="stable")


def _select_draws(
    draws: pd.DataFrame, attribute: str, groups: Sequence[tuple[str, str]], measure: str
) -> list[np.ndarray]:
    """Select the draws [R] of each pair of groups in `groups`; an empty array for a pair without draws."""
    grouped = draws[draws["attribute"] == attribute].groupby(GROUPS, sort=False)[measure]
    # Both measures are absolute; the IAT's draws may be signed.
    draws_by_pair = {pair: values.abs().to_numpy(dtype=float) for pair, values in grouped}
    return [draws_by_pair.get(pair, np.empty(0)) for pair in groups]


def _average_draws(jobs: Sequence[Sequence[np.ndarray | pd.Series]]) -> np.ndarray:
    """Average the series of draws of each job, draw by draw, [2, R]; `NO_DRAWS` unless lengths match."""
    if len({len(draws) for job_draws in jobs for draws in job_draws}) != 1:
        return NO_DRAWS
    return np.stack([np.mean(job_draws, axis=0, dtype=float) for job_draws in jobs])


def _average_column(rows: pd.DataFrame, column: str) -> np.ndarray:
    """Average a column of `join_rows` before and after, [2]; NaN if any value is NaN."""
    values = rows.reindex(columns=[f"{column}_before", f"{column}_after"]).astype(float)
    return values.mean(skipna=False).to_numpy()
