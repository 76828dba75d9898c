"""Which words' bias a way of debiasing lowers on one axis and raises on another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from src.report.findings import Findings
from src.studies.shared.draws import INTERVAL, UNTREATED, Draws
from src.studies.sobit.word_rows import axes, completed

# What two jobs share that differ in their debiasing alone.
JOB = ("exp", "model", "dataset", "protocol", "seed", "taxonomy")
ABOUT = ["model", "debias", "protocol", "seed", "taxonomy"]
KEYS = ["caption", "axis"]
COLUMNS = [*ABOUT, "category", "word", *KEYS, "before", "after", "difference", "ci_low", "ci_high"]
COLUMNS += ["direction", "faces", "config_before", "config_after", "reason"]
FELL, ROSE, UNCLEAR = "fell", "rose", "unclear"
# What becomes of a word over its axes.
MIXED, ALL_FELL, ALL_ROSE = "fell on one, rose on another", "fell on all", "rose on all"
SOME_FELL, SOME_ROSE, NOTHING = "fell on some, rose on none", "rose on some, fell on none", "no clear change"
UNKNOWN = "no interval"
VERDICTS = (MIXED, ALL_FELL, SOME_FELL, NOTHING, SOME_ROSE, ALL_ROSE, UNKNOWN)


def changes(findings: Findings) -> pd.DataFrame:
    """The largest |C| of each caption and axis with debiasing, less that without.

    The interval (95%, percentile) is of the paired bootstrap: draw i of both jobs is of the same faces. A
    direction is said where it excludes 0.

    Returns:
        `COLUMNS`, one row per pair of jobs, caption and axis that both have; `category` and `word` are the
        first that have the caption; `reason` says why there is no interval.
    """
    rows = completed(findings.of("sobit")).dropna(subset=["association"])
    draws = Draws(findings)
    found = [
        _compared(findings, draws, before, after)
        for _, job in rows.groupby(list(JOB), sort=False)
        for before, after in _pairs(job)
    ]
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=COLUMNS)


def _pairs(job: pd.DataFrame) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    by_method = {str(name): rows for name, rows in job.groupby("debias", sort=False)}
    if UNTREATED in by_method:
        last = {name: rows[rows["config"] == rows["config"].iloc[-1]] for name, rows in by_method.items()}
        yield from ((last[UNTREATED], rows) for name, rows in last.items() if name != UNTREATED)


def _compared(findings: Findings, draws: Draws, before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    configs = [str(rows["config"].iloc[0]) for rows in (before, after)]
    found = _largest(before).merge(_largest(after), on=KEYS, suffixes=("_before", "_after"))
    found = found.rename(columns={"largest_before": "before", "largest_after": "after"})
    found["difference"] = found["after"] - found["before"]
    found["faces"] = found[["faces_before", "faces_after"]].min(axis=1)
    reason = _reason(findings, draws, configs)
    if not reason:
        ends = _intervals(*(findings.read(config, "draws") for config in configs))
        found = found.merge(ends, on=KEYS, how="left")
    found = found.reindex(columns=[*found.columns, *({"ci_low", "ci_high"} - set(found.columns))])
    known = found["ci_low"].notna()
    found["direction"] = np.select(
        [~known, found["ci_high"] < 0, found["ci_low"] > 0], ["", FELL, ROSE], UNCLEAR
    )
    found["reason"] = np.where(known, "", reason or "no draws of this caption in both")
    first = before.drop_duplicates("caption")[["caption", "category", "word"]]
    about: dict[str, Any] = {name: after[name].iloc[0] for name in ABOUT}
    about |= {"config_before": configs[0], "config_after": configs[1]}
    return found.merge(first, on="caption").assign(**about)[COLUMNS]


def _largest(rows: pd.DataFrame) -> pd.DataFrame:
    sized = rows.assign(largest=rows["association"].abs(), faces=rows["n"] + rows["n_rest"])
    return sized.groupby(KEYS, sort=False)[["largest", "faces"]].max().reset_index()


def _reason(findings: Findings, draws: Draws, configs: list[str]) -> str:
    if not all(findings.has(config, "draws") for config in configs):
        return "no bootstrap"
    sets = {draws.sets(config) for config in configs}
    return "other faces" if len(sets) > 1 else ""


def _intervals(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """`caption, axis, ci_low, ci_high` of what both drew."""
    one, other = (
        frame.pivot(index=KEYS, columns="draw", values="largest").astype(float) for frame in (before, after)
    )
    both, shared = one.index.intersection(other.index), one.columns.intersection(other.columns)
    between = (other.loc[both, shared] - one.loc[both, shared]).to_numpy()
    ends = np.nanquantile(between, INTERVAL, axis=1) if between.size else np.empty((2, 0))
    names = both.to_frame(index=False)
    return (
        names.assign(ci_low=ends[0], ci_high=ends[1]) if between.size else names.assign(ci_low=[], ci_high=[])
    )


def verdicts(found: pd.DataFrame) -> pd.DataFrame:
    """What becomes of each word over all its axes.

    Args:
        found: `changes`.

    Returns:
        `ABOUT`, `category, word, caption`, `verdict` (one of `VERDICTS`; `UNKNOWN` where a change on one axis
        has no interval), and the axes it fell and rose on, in words.
    """
    rows = []
    order = axes(found)
    keys = [*ABOUT, "category", "word", "caption"]
    for names, own in found.groupby(keys, sort=False):
        by_axis = dict(zip(own["axis"], own["direction"], strict=True))
        on = {way: [axis for axis in order if by_axis.get(axis) == way] for way in (FELL, ROSE)}
        told = {way: ", ".join(those) for way, those in on.items()}
        row = dict(zip(keys, names, strict=True))
        rows.append({**row, "verdict": verdict([*by_axis.values()]), **told})
    return pd.DataFrame(rows, columns=[*keys, "verdict", FELL, ROSE])


def verdict(directions: list[str]) -> str:
    """What becomes of a word, by what it does on each axis.

    >>> verdict(["fell", "unclear", "rose"]), verdict(["fell", "fell"]), verdict(["unclear", "rose"])
    ('fell on one, rose on another', 'fell on all', 'rose on some, fell on none')
    """
    ways = set(directions)
    if "" in ways:
        return UNKNOWN
    if {FELL, ROSE} <= ways:
        return MIXED
    for way, every, some in ((FELL, ALL_FELL, SOME_FELL), (ROSE, ALL_ROSE, SOME_ROSE)):
        if way in ways:
            return every if ways == {way} else some
    return NOTHING


def counts(told: pd.DataFrame) -> pd.DataFrame:
    """How many words met each of `VERDICTS`, per model and way of debiasing.

    Args:
        told: `verdicts`.
    """
    if told.empty:
        return pd.DataFrame(columns=[*ABOUT, "words", *VERDICTS])
    table = told.groupby([*ABOUT, "verdict"], sort=False).size().unstack("verdict", fill_value=0)
    table = table.reindex(columns=[*VERDICTS], fill_value=0)
    return table.assign(words=table.sum(axis=1)).reset_index()


def sentence(counted: pd.DataFrame, method: str) -> str:
    """The answer for a way of debiasing, over all models.

    Args:
        counted: `counts` of one reading.
        method: the way.
    """
    own = counted[counted["debias"] == method]
    known = own[own[UNKNOWN] < own["words"]]
    if known.empty:
        return f"{method}: no word has an interval of its change."
    said = []
    for row in known.to_dict("records"):
        words = row["words"] - row[UNKNOWN]
        said.append(
            f"of {words:,} words, {row[MIXED]:,} fell on one axis and rose on another ({row['model']})"
        )
    return f"With {method}, {'; '.join(said)}."
