"""Compute the changes by debiasing: each number of a debiased job against the same job without debiasing.

The changes show whether removing group directions changes what is retrieved, or only the intrinsic measure.
See docs/methods.md, section 6.11.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from src.metrics.jackknife import t_interval
from src.report.findings import Findings
from src.studies.debiasing.correlations import RhoChange, rho_change
from src.studies.debiasing.job_pairs import Pair, join_rows, pairs
from src.studies.shared.cluster_jackknife import is_by_template
from src.studies.shared.draws import StimulusHashes, interval
from src.studies.shared.spreads import REFUSED, spreads, verdict
from src.studies.shared.target_jackknife import (
    MEASURES,
    SCORES,
    TargetEstimate,
    have_clusters,
    join_targets,
    pool,
)

CLES, IAT, RHO, ACCURACY = "cles_gap", "iat", "rho", "accuracy"
# Spreads over groups of the intrinsic score (SC-EAT), and of the retrieval outcome.
INTRINSIC, OUTCOME = "spread_intrinsic", "spread_outcome"
SPREADS = (INTRINSIC, OUTCOME)  # in the order of `MEASURES`
COLUMNS = ["model", "debias", "measure", "exp", "attribute", "protocol", "seed", "before", "after"]
COLUMNS += ["difference", "ci_low", "ci_high", "delta_p", "ratio", "ratio_low", "ratio_high", "equivalent"]
COLUMNS += ["verdict", "df", "chance_before", "chance_after", "n", "over"]
COLUMNS += ["config_before", "config_after", "reason"]
# Columns that identify a number, which two experiments may both compute.
NUMBER_KEYS = ["model", "dataset", "protocol", "seed", "debias", "measure", "attribute"]
# Study -> measure under which a pair that lacks a job is listed.
MEASURE_OF_STUDY = {"propagation": RHO, "implicit": CLES, "zero_shot": ACCURACY}
GROUPS = ["group_a", "group_b"]
NO_DRAWS, UNKNOWN = np.empty((2, 0)), (np.nan, np.nan)  # before and after
NO_CLUSTERS = "the targets, of a job of an older version, have no clusters"


def changes(findings: Findings) -> pd.DataFrame:
    """Compute all changes by debiasing of a sweep, for every specification.

    Returns:
        A row per number, `COLUMNS` (ratios and verdicts for spreads only); in addition `paper` and `dataset`
        of the job, `draws` and `estimate` (see `_change`), `lost` (true where one of the two jobs has no
        results) and `own_targets` (true where each group is analysed on its own targets, in addition to the
        analysis over all).
    """
    stimuli = StimulusHashes(findings)
    rows = [row for pair in pairs(findings) for row in _changes(findings, stimuli, pair)]
    table = pd.DataFrame(
        rows, columns=[*COLUMNS, "paper", "dataset", "draws", "estimate", "lost", "own_targets"]
    )
    table = table.astype({"lost": bool, "own_targets": bool, "equivalent": "boolean", "df": "Int64"})
    # Two audits share words, one meant for CLES, one for the IAT: keep a measure of the audit meant for it.
    ranked = table.assign(unintended=(table["paper"] == "IAT") != (table["measure"] == IAT))
    numbers = ranked.sort_values("unintended", kind="stable").groupby(NUMBER_KEYS, sort=False)
    intended = table["exp"].eq(numbers["exp"].transform("first"))
    return table[(table["attribute"] == "") | intended].reset_index(drop=True)


def _changes(findings: Findings, stimuli: StimulusHashes, pair: Pair) -> Iterator[dict[str, Any]]:
    if pair.reason:
        yield _change(pair, MEASURE_OF_STUDY[pair.study], reason=pair.reason)
    elif pair.study == "propagation":
        tables = [findings.read(config, "targets") for config in pair.configs]
        targets = join_targets(*tables)
        yield _rho_change(stimuli, pair, targets)
        total = max(table["id"].nunique() if "id" in table else 0 for table in tables)
        yield from _spread_changes(stimuli, pair, targets, total)
    elif pair.study == "implicit":
        yield from _audit_changes(findings, stimuli, pair)
    else:
        yield _accuracy_change(findings, stimuli, pair)


def _change(
    pair: Pair,
    measure: str,
    values: Iterable[float] = UNKNOWN,
    *,
    attribute: str = "",
    draws: np.ndarray = NO_DRAWS,
    estimate: TargetEstimate | None = None,
    chance: Iterable[float] = UNKNOWN,
    n: int = 0,
    over: int = 0,
    reason: str = "",
) -> dict[str, Any]:
    """Return a number before and after debiasing, as a row of `changes`.

    `draws` [2, R] are the number in R bootstrap samples, which before and after share; R may be 0.
    `estimate` is, of rho, the jackknife estimate of the difference; of a spread, that of `Spreads`.
    `chance` is the number expected by chance, before and after: an audit's mean over random partitions, the
    mean of the placebo, the accuracy of guessing. `n` is the number of resampled units; `over` is the number
    of averaged pairs of groups, analyses or groups.
    """
    before, after = values
    row = {**pair.job, "debias": pair.debias, "measure": measure, "attribute": attribute, "draws": draws}
    row |= {"before": before, "after": after, "difference": after - before, "estimate": estimate}
    row |= {"n": n, "over": over, "reason": reason, "lost": bool(pair.reason)}
    row |= zip(("chance_before", "chance_after"), chance, strict=True)
    row |= zip(("config_before", "config_after"), pair.configs, strict=True)
    row |= zip(("ci_low", "ci_high"), interval(draws[1], draws[0]), strict=True)
    groups = pair.rows[0].reindex(columns=["group", "n_all"])
    return row | {"own_targets": bool(groups.notna().all(axis=1).any())}


def _rho_change(stimuli: StimulusHashes, pair: Pair, targets: pd.DataFrame) -> dict[str, Any]:
    """Return the change of the mean rho over the analyses with a rho in both jobs."""
    rows = join_rows(pair, ["stratum"], RHO)
    strata = [*rows["stratum"]]
    total = max(len(job_rows) for job_rows in pair.rows)
    reasons = [] if len(strata) == total else [f"{len(strata)} of {total} analyses have a ρ in both jobs"]
    hashes = [[stimuli.stimuli_hash(config, stratum) for stratum in strata] for config in pair.configs]
    analysed = targets[targets["stratum"].isin(strata)]
    rhos, change = _means(rows, RHO), RhoChange()
    if strata and hashes[0] != hashes[1]:
        change = RhoChange(reason="the targets, or A and B, differ")
    elif strata and not have_clusters(analysed):
        change = RhoChange(reason=NO_CLUSTERS)
    elif strata:
        by_template = "template" in analysed and is_by_template(str(pair.job["protocol"]))
        change = rho_change(analysed, rhos, by_template)
    reasons += [f"no interval: {change.reason}"] if change.reason else []
    counts: dict[str, Any] = {"n": analysed.dropna(subset=SCORES)["id"].nunique(), "over": len(strata)}
    chance, reason = _means(rows, "placebo_mean"), "; ".join(reasons)
    row = _change(pair, RHO, rhos, estimate=change.estimate, chance=chance, **counts, reason=reason)
    row["delta_p"] = change.p
    if change.estimate is not None:
        (value,), ((variance,),), df = pool([change.estimate])
        row |= zip(("ci_low", "ci_high", "df"), (*t_interval(value, variance, df), df), strict=True)
    return row


def _spread_changes(
    stimuli: StimulusHashes, pair: Pair, targets: pd.DataFrame, total: int
) -> Iterator[dict[str, Any]]:
    """Yield the spreads between groups; `total` is the number of targets of the larger job."""
    groups = set.intersection(*(set(rows.dropna(subset=["group"])["stratum"]) for rows in pair.rows))
    grouped = targets[targets["stratum"].isin(groups)].dropna(subset=SCORES)
    counts: dict[str, Any] = {"over": grouped["stratum"].nunique(), "n": grouped["id"].nunique()}
    reasons = []
    if groups and counts["n"] != total:
        reasons.append(f"{counts['n']} of {total} targets have both scores before and after")
    reasons += [] if len({*map(stimuli.sets_hash, pair.configs)}) == 1 else ["A and B differ"]
    for measure, score in zip(SPREADS, MEASURES, strict=True) if groups else ():
        if counts["over"] < 2:
            reason = "a spread needs targets of two groups or more"
            yield _change(pair, measure, **counts, reason=reason) | {"verdict": REFUSED}
        elif not have_clusters(grouped):
            reason = "; ".join([*reasons, f"no spread: {NO_CLUSTERS}"])
            yield _change(pair, measure, **counts, reason=reason) | {"verdict": REFUSED}
        else:
            result = spreads(grouped, score)
            reason = "; ".join([*reasons, *filter(None, [result.reason])])
            values = result.before, result.after
            row = _change(pair, measure, values, **counts, estimate=result.estimate, reason=reason)
            ratio = result.ratio
            row |= {"ratio": ratio.value, "ratio_low": ratio.low, "ratio_high": ratio.high}
            row |= {"equivalent": ratio.is_equivalent, "verdict": verdict(ratio)}
            yield row | {"df": result.df}


def _audit_changes(findings: Findings, stimuli: StimulusHashes, pair: Pair) -> Iterator[dict[str, Any]]:
    """Yield |CLES - 1/2| and IAT of each attribute: means over the pairs of groups that both jobs have."""
    is_same = len({*map(stimuli.sets_hash, pair.configs)}) == 1
    frames = [_bootstrap_draws(findings, config) for config in pair.configs] if is_same else []
    attributes = dict.fromkeys(pd.concat([rows["attribute"] for rows in pair.rows]))
    for attribute, measure in itertools.product(attributes, (CLES, IAT)):
        attribute_rows = [rows[rows["attribute"] == attribute] for rows in pair.rows]
        total = max(rows[measure].count() if measure in rows else 0 for rows in attribute_rows)
        if not total:  # an audit without pairs of words has no IAT
            continue
        rows = join_rows(pair, ["attribute", *GROUPS], measure)
        rows = rows[rows["attribute"] == attribute]
        groups = [*rows[GROUPS].itertuples(index=False, name=None)]
        bootstrap = _mean_draws([_draws_by_pair(frame, attribute, groups, measure) for frame in frames])
        reasons = [] if len(rows) == total else [f"{len(rows)} of {total} pairs of groups are in both jobs"]
        if groups and not bootstrap.size:
            reasons.append("no interval: " + ("no bootstrap" if is_same else "the faces differ"))
        # Each audit has a null for one measure, CLES or the IAT.
        has_null = (pair.job["paper"] == "IAT") == (measure == IAT)
        counts = {row[f"group_{x}"]: row[f"n_{x}_after"] for row in rows.to_dict("records") for x in "ab"}
        yield _change(
            pair,
            measure,
            _means(rows, measure),
            attribute=attribute,
            draws=bootstrap,
            chance=_means(rows, "null_mean") if has_null else UNKNOWN,
            n=int(sum(counts.values())),
            over=len(rows),
            reason="; ".join(reasons),
        )


def _accuracy_change(findings: Findings, stimuli: StimulusHashes, pair: Pair) -> dict[str, Any]:
    """Return the change of the share of scenes whose nearest word matches them."""
    rows = pd.concat([job_rows.head(1) for job_rows in pair.rows])  # before, after
    is_same = len({stimuli.stimuli_hash(config, "scenes") for config in pair.configs}) == 1
    configs = pair.configs if is_same else ()
    bootstrap = _mean_draws([[_bootstrap_draws(findings, config)[ACCURACY]] for config in configs])
    return _change(
        pair,
        ACCURACY,
        rows[ACCURACY].astype(float),
        draws=bootstrap,
        chance=rows["chance"].astype(float),
        n=int(rows["n"].min()),
        over=1,
        reason="" if bootstrap.size else f"no interval: {'no bootstrap' if is_same else 'the scenes differ'}",
    )


def _bootstrap_draws(findings: Findings, config: str) -> pd.DataFrame:
    columns = ["attribute", *GROUPS, "kind", "draw", CLES, IAT, ACCURACY]
    draws = findings.read(config, "draws").reindex(columns=columns)
    return draws[draws["kind"] == "bootstrap"].sort_values("draw", kind="stable")


def _draws_by_pair(
    draws: pd.DataFrame, attribute: str, groups: Sequence[tuple[str, str]], measure: str
) -> list[np.ndarray]:
    """Return the draws of each pair of groups, [R]; an empty array for a pair without draws."""
    grouped = draws[draws["attribute"] == attribute].groupby(GROUPS, sort=False)[measure]
    # Both measures are absolute; the IAT's draws may be signed.
    draws_by_pair = {pair: values.abs().to_numpy(dtype=float) for pair, values in grouped}
    return [draws_by_pair.get(pair, np.empty(0)) for pair in groups]


def _mean_draws(jobs: Sequence[Sequence[np.ndarray | pd.Series]]) -> np.ndarray:
    """Average series of draws, draw by draw, before and after, [2, R]; `NO_DRAWS` unless lengths match."""
    if len({len(draws) for series in jobs for draws in series}) != 1:
        return NO_DRAWS
    return np.stack([np.mean(series, axis=0, dtype=float) for series in jobs])


def _means(rows: pd.DataFrame, column: str) -> np.ndarray:
    """Return the means of a column of `join_rows`, before and after, [2]; NaN if any value is NaN."""
    values = rows.reindex(columns=[f"{column}_before", f"{column}_after"]).astype(float)
    return values.mean(skipna=False).to_numpy()
