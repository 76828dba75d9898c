"""Find words whose bias a debiasing method lowers on one axis and raises on another."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from src.report.findings import Findings
from src.studies.shared.draws import INTERVAL, UNTREATED, StimulusHashes
from src.studies.sobit.word_rows import fill_columns

# Columns that are equal in two jobs that differ only in their debiasing.
JOB_COLUMNS = ("exp", "model", "dataset", "perturb", "protocol", "seed", "taxonomy")
# Columns that identify the debiased job.
DEBIASED_JOB_COLUMNS = ["model", "debias", "perturb", "protocol", "seed", "taxonomy"]
KEYS = ["caption", "axis"]
COLUMNS = [
    *DEBIASED_JOB_COLUMNS,
    "category",
    "word",
    *KEYS,
    "before",
    "after",
    "difference",
    "ci_low",
    "ci_high",
]
COLUMNS += ["direction", "faces", "config_before", "config_after", "reason"]
# Directions of the change of a word on an axis.
FELL, ROSE, UNCLEAR = "fell", "rose", "unclear"
# Verdicts on a word over all axes.
MIXED, ALL_FELL, ALL_ROSE = "fell on one, rose on another", "fell on all", "rose on all"
SOME_FELL, SOME_ROSE = "fell on some, rose on none", "rose on some, fell on none"
ALL_UNCLEAR, UNKNOWN = "unclear on all", "no interval"
VERDICTS = (MIXED, ALL_FELL, SOME_FELL, ALL_UNCLEAR, SOME_ROSE, ALL_ROSE, UNKNOWN)


def compute_changes(findings: Findings) -> pd.DataFrame:
    """Compute the change of the largest |C| by debiasing, per caption and axis.

    The 95% percentile interval comes from the paired bootstrap: draw i of both jobs has the same faces.

    Returns:
        `COLUMNS`, one row per pair of jobs, caption and axis that both jobs have. `category` and `word` are
        the first with this caption; `direction` is "fell" or "rose" if the interval excludes 0, "unclear" if
        it includes 0, empty if it is missing, with the `reason`.
    """
    rows = fill_columns(findings.of("sobit")).dropna(subset=["association"])
    stimuli = StimulusHashes(findings)
    tables: list[pd.DataFrame] = []
    for _, job in rows.groupby(list(JOB_COLUMNS), sort=False):
        # Of repeated jobs, the last counts.
        last_by_method = {
            str(name): method_rows[method_rows["config"] == method_rows["config"].iloc[-1]]
            for name, method_rows in job.groupby("debias", sort=False)
        }
        if (before := last_by_method.pop(UNTREATED, None)) is not None:
            afters = last_by_method.values()
            tables += [_compare_jobs(findings, stimuli, before, after) for after in afters]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=COLUMNS)


def _compare_jobs(
    findings: Findings, stimuli: StimulusHashes, before: pd.DataFrame, after: pd.DataFrame
) -> pd.DataFrame:
    configs = [str(rows["config"].iloc[0]) for rows in (before, after)]
    changes = _find_largest(before).merge(_find_largest(after), on=KEYS, suffixes=("_before", "_after"))
    changes = changes.rename(columns={"largest_before": "before", "largest_after": "after"})
    changes["difference"] = changes["after"] - changes["before"]
    changes["faces"] = changes[["faces_before", "faces_after"]].min(axis=1)
    reason = ""
    if not all(findings.has(config, "draws") for config in configs):
        reason = "no bootstrap"
    elif stimuli.hash_sets(configs[0]) != stimuli.hash_sets(configs[1]):
        reason = "the faces differ"
    if reason:
        changes = changes.assign(ci_low=np.nan, ci_high=np.nan)
    else:
        intervals = _compute_intervals(*(findings.read(config, "draws") for config in configs))
        changes = changes.merge(intervals, on=KEYS, how="left")
    has_interval = changes["ci_low"].notna()
    changes["direction"] = np.select(
        [~has_interval, changes["ci_high"] < 0, changes["ci_low"] > 0], ["", FELL, ROSE], UNCLEAR
    )
    changes["reason"] = np.where(has_interval, "", reason or "no draws of this caption in both jobs")
    first_words = before.drop_duplicates("caption")[["caption", "category", "word"]]
    job_columns: dict[str, Any] = {name: after[name].iloc[0] for name in DEBIASED_JOB_COLUMNS}
    job_columns |= {"config_before": configs[0], "config_after": configs[1]}
    return changes.merge(first_words, on="caption").assign(**job_columns)[COLUMNS]


def _find_largest(rows: pd.DataFrame) -> pd.DataFrame:
    magnitudes = rows.assign(largest=rows["association"].abs(), faces=rows["n"] + rows["n_rest"])
    return magnitudes.groupby(KEYS, sort=False)[["largest", "faces"]].max().reset_index()


def _compute_intervals(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Compute `caption, axis, ci_low, ci_high` from the draws that both jobs have."""
    untreated, debiased = (
        frame.pivot(index=KEYS, columns="draw", values="largest").astype(float) for frame in (before, after)
    )
    differences = (debiased - untreated).dropna(how="all").dropna(axis="columns", how="all")
    bounds = np.nanquantile(differences, INTERVAL, axis=1) if differences.size else np.empty((2, 0))
    return differences.index.to_frame(index=False).assign(ci_low=bounds[0], ci_high=bounds[1])


def classify_words(word_changes: pd.DataFrame) -> pd.DataFrame:
    """Return a row per debiased job and word, with its `verdict` over all axes."""
    by_word = word_changes.groupby([*DEBIASED_JOB_COLUMNS, "category", "word", "caption"], sort=False)
    return by_word["direction"].agg(classify_directions).rename("verdict").reset_index()


def classify_directions(directions: Iterable[str]) -> str:
    """Return the verdict on a word, given its direction on each axis; `UNKNOWN` if one is empty.

    >>> [classify_directions(directions) for directions in (["fell", "unclear", "rose"], ["unclear", "rose"])]
    ['fell on one, rose on another', 'rose on some, fell on none']
    """
    distinct = set(directions)
    if "" in distinct:
        return UNKNOWN
    if {FELL, ROSE} <= distinct:
        return MIXED
    for direction, all_axes, some_axes in ((FELL, ALL_FELL, SOME_FELL), (ROSE, ALL_ROSE, SOME_ROSE)):
        if direction in distinct:
            return all_axes if distinct == {direction} else some_axes
    return ALL_UNCLEAR


def count_verdicts(word_verdicts: pd.DataFrame) -> pd.DataFrame:
    """Count the words with each of `VERDICTS`, per debiased job."""
    counts = (
        word_verdicts.groupby([*DEBIASED_JOB_COLUMNS, "verdict"], sort=False)
        .size()
        .unstack("verdict", fill_value=0)
    )
    counts = counts.reindex(columns=[*VERDICTS], fill_value=0)
    return counts.assign(words=counts.sum(axis=1)).reset_index()
