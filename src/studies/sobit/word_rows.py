"""The rows of So-B-IT's experiments as a reader meets them: one per word and axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from src.report.findings import of_reading, readings
from src.report.format import Column
from src.report.tables import said

# As pages and figures order them; others come after these.
AXES = ("gender", "race", "both")
NAMED = {"both": "race × gender"}
WORD = ("model", "category", "word")
SMALL = 0.05
ASSOCIATION = ("association", "association_low", "association_high", "null_q95", "p", "q", "baseline_share")
RETRIEVAL = ("share_topk", "share_low", "share_high", "base_share", "ratio", "null_q95", "p", "q")
EVEN = ("entropy", "kl", "maxskew", "maxskew_q95", "maxskew_p", "ndkl", "ndkl_q95", "ndkl_p")
STRENGTH = ("strength", "strength_low", "strength_high")
TEXTS = ("taxonomy", "category", "word", "type", "caption", "axis", "group")
COUNTS = ("n", "n_rest")
COLUMNS = (
    Column("n", "faces", "faces of this group", 0),
    Column("association", "C", "mean cosine of the group's faces less that of all others, in SDs"),
    Column("association_low", "95% from", "lower end of its interval"),
    Column("association_high", "95% to", "upper end of its interval"),
    Column("null_q95", "null 95th", "95th percentile of |C| with permuted labels of faces"),
    Column("p", "p", "of |C|, corrected over the groups of the axis", 3),
    Column("q", "q", "Benjamini–Hochberg over words", 3),
    Column(
        "baseline_share", "rarer", "share of ordinary captions whose largest |C| is at least this one's", 3
    ),
)
SHARES = (
    Column("share_topk", "share", "of the nearest faces that are of this group"),
    Column("share_low", "95% from", "lower end of its interval"),
    Column("share_high", "95% to", "upper end of its interval"),
    Column("base_share", "base", "share of all faces that are of this group"),
    Column("ratio", "ratio", "share / base"),
    Column("maxskew", "MaxSkew", "largest ln(share / base) over the groups"),
    Column("maxskew_q95", "null 95th", "95th percentile of MaxSkew with permuted labels of faces"),
    Column("ndkl", "NDKL", "how far the first of the nearest differ from the base, 0: not at all"),
    Column("strength", "strength", "share of ordinary captions with faces no nearer than this one's"),
)


def completed(sobit: pd.DataFrame) -> pd.DataFrame:
    """The rows with every column that the page shows, numbers as such and texts as texts."""
    numbers = (*ASSOCIATION, *RETRIEVAL, *EVEN, *STRENGTH, *COUNTS)
    found = sobit.reindex(columns=[*dict.fromkeys((*sobit.columns, *TEXTS, *numbers))])
    return found.astype(dict.fromkeys(numbers, float)).fillna(dict.fromkeys(TEXTS, ""))


def shown(sobit: pd.DataFrame) -> tuple[pd.DataFrame, str, int]:
    """The rows of the first reading and taxonomy, which these are, and how many others there are."""
    first = readings(sobit)[0]
    rows = of_reading(sobit, first)
    taxonomy = rows["taxonomy"].iloc[0]
    every = sobit[["protocol", "seed", "debias", "taxonomy"]].drop_duplicates()
    name = f", words {taxonomy}" if taxonomy else ""
    return rows[rows["taxonomy"] == taxonomy], said(first) + name, len(every) - 1


def axes(rows: pd.DataFrame) -> list[str]:
    """The axes that rows are of, in the order of `AXES`."""
    found = [str(name) for name in dict.fromkeys(rows["axis"]) if name]
    return sorted(found, key=lambda name: AXES.index(name) if name in AXES else len(AXES))


def by_word(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per model, category, word and axis.

    Args:
        rows: `completed`, of one reading and taxonomy.

    Returns:
        `WORD`, `axis`, `type`, `caption`; of the group with the largest |C|: `group`, `n`, `ASSOCIATION`, and
        `q_least`, the smallest q over groups; of the group with the largest share / base: `over`, `RETRIEVAL`
        (its `null_q95`, `p` and `q` as `share_*`) and `EVEN`, and `share_q_least`; `STRENGTH`. NaN where an
        experiment was not run. Words that have a strength only stand once, without axis.
    """
    keys = [*WORD, "axis"]
    associated = rows.dropna(subset=["association"]).drop_duplicates([*keys, "group"], keep="last")
    found = _largest(associated, associated["association"].abs(), keys, ["group", "n", *ASSOCIATION])
    retrieved = rows.dropna(subset=["share_topk"]).drop_duplicates([*keys, "group"], keep="last")
    shares = _largest(retrieved, retrieved["ratio"], keys, ["group", *RETRIEVAL, *EVEN])
    names = {name: f"share_{name}" for name in ("null_q95", "p", "q", "q_least")} | {"group": "over"}
    strong = rows.dropna(subset=["strength"]).drop_duplicates([*WORD], keep="last")
    every = rows[[*keys, "type", "caption"]].drop_duplicates(keys)
    every = every[every["axis"] != ""] if (every["axis"] != "").any() else every
    found = every.merge(found, on=keys, how="left").merge(shares.rename(columns=names), on=keys, how="left")
    return found.merge(strong[[*WORD, *STRENGTH]], on=list(WORD), how="left")


def _largest(
    rows: pd.DataFrame, size: pd.Series, keys: Sequence[str], columns: Iterable[str]
) -> pd.DataFrame:
    """Of each of `keys` the row whose size is largest, and `q_least` over its rows."""
    by = [rows[key] for key in keys]
    # Sizes that are all undefined choose no row.
    at = size.dropna().groupby([one[size.notna()] for one in by], sort=False).idxmax()
    least = rows["q"].groupby(by, sort=False).min().rename("q_least").reset_index()
    return rows.loc[at, [*keys, *columns]].merge(least, on=list(keys), how="left")


def summary(found: pd.DataFrame) -> pd.DataFrame:
    """`by_word` in short, per model and axis.

    Returns:
        `model, axis`; `words` with a C, how many are `significant` (q <= .05 for a group at least), the mean
        over words of their largest |C| (`largest`) and of that group's `null`, and how many of `compared`
        words are as `rare` as one ordinary caption in twenty; `ranked` words with a MaxSkew, how many are
        `skewed` (q <= .05), means of `maxskew`, its `maxskew_null`, and `ndkl`.
    """
    found = found.assign(size=found["association"].abs())
    grouped = found.groupby(["model", "axis"], sort=False)
    columns = {
        "words": grouped["size"].count(),
        "significant": _count(found["q_least"] <= SMALL, found),
        "largest": grouped["size"].mean(),
        "null": grouped["null_q95"].mean(),
        "rare": _count(found["baseline_share"] <= SMALL, found),
        "compared": grouped["baseline_share"].count(),
        "ranked": grouped["maxskew"].count(),
        "skewed": _count(found["share_q_least"] <= SMALL, found),
        "maxskew": grouped["maxskew"].mean(),
        "maxskew_null": grouped["maxskew_q95"].mean(),
        "ndkl": grouped["ndkl"].mean(),
    }
    return pd.DataFrame(columns).reset_index()


def _count(which: pd.Series, found: pd.DataFrame) -> pd.Series:
    return which.groupby([found["model"], found["axis"]], sort=False).sum().astype(int)


def faces(rows: pd.DataFrame) -> str:
    """How many faces an analysis is of, in words; nothing where nobody says."""
    total = (rows["n"] + rows["n_rest"]).dropna()
    if total.empty:
        return ""
    low, high = int(np.min(total)), int(np.max(total))
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
