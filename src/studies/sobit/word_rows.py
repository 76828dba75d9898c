"""Arrange the rows of So-B-IT's experiments for reports, one per word and axis."""

from collections.abc import Sequence

import pandas as pd

from src.report.findings import SPECIFICATION, list_specifications, select_specification
from src.report.format import Column
from src.report.tables import describe

# First axes of pages and figures; others follow in the order of the rows.
FIRST_AXES = ("gender", "race", "both")
WORD_KEYS = ["model", "category", "word"]
KEYS = [*WORD_KEYS, "axis"]
ALPHA = 0.05
ASSOCIATION = ("association", "association_low", "association_high", "null_q95", "p", "q", "baseline_share")
RETRIEVAL = ("share_topk", "share_low", "share_high", "base_share", "ratio", "null_q95", "p", "q")
SKEW = ("entropy", "kl", "maxskew", "maxskew_q95", "maxskew_p", "ndkl", "ndkl_q95", "ndkl_p")
STRENGTH = ("strength", "strength_low", "strength_high")
TEXTS = ("taxonomy", "category", "word", "type", "caption", "axis", "group")
COUNTS = ("n", "n_rest")
ASSOCIATION_COLUMNS = (
    Column("n", "faces", "faces of this group", 0),
    Column("association", "C", "mean cosine of the group's faces less that of all others, in SDs"),
    Column("association_low", "95% from", "lower end of its interval"),
    Column("association_high", "95% to", "upper end of its interval"),
    Column(
        "null_q95",
        "null 95th",
        "|C| whose score is the 95th percentile of the permutations' largest score over the groups",
    ),
    Column("p", "p", "of |C|, corrected over the groups of the axis", 3),
    Column("q", "q", "p after Benjamini–Hochberg over words", 3),
    Column(
        "baseline_share",
        "baseline",
        "share of frequent words with largest |C| at least as large",
        3,
    ),
)
RETRIEVAL_COLUMNS = (
    Column("share_topk", "share", "of the nearest faces that are of this group"),
    Column("share_low", "95% from", "lower end of its interval"),
    Column("share_high", "95% to", "upper end of its interval"),
    Column("base_share", "base", "share of all faces that are of this group"),
    Column("ratio", "ratio", "share / base"),
    Column("maxskew", "MaxSkew", "largest ln(share / base) over the groups"),
    Column(
        "maxskew_q95",
        "null 95th",
        "95th percentile of MaxSkew of random faces or permuted people",
    ),
    Column("ndkl", "NDKL", "rank-discounted KL divergence of the nearest faces from the base; 0 if equal"),
    Column(
        "strength",
        "strength",
        "share of frequent words whose nearest faces are no nearer than this caption's",
    ),
)


def fill_columns(sobit: pd.DataFrame) -> pd.DataFrame:
    """Add missing columns that the page needs; convert numbers to float, and missing texts to ""."""
    numbers = (*ASSOCIATION, *RETRIEVAL, *SKEW, *STRENGTH, *COUNTS)
    filled = sobit.reindex(columns=[*dict.fromkeys((*sobit.columns, *TEXTS, *numbers))])
    return filled.astype(dict.fromkeys(numbers, float)).fillna(dict.fromkeys(TEXTS, ""))


def select_first_specification(sobit: pd.DataFrame) -> tuple[pd.DataFrame, str, int]:
    """Return the rows of the first specification and taxonomy, their name, and the number of others."""
    first = list_specifications(sobit)[0]
    rows = select_specification(sobit, first)
    taxonomy = rows["taxonomy"].iloc[0]
    specifications = sobit[[*SPECIFICATION, "taxonomy"]].drop_duplicates()
    words = f", words {taxonomy}" if taxonomy else ""
    return rows[rows["taxonomy"] == taxonomy], describe(first) + words, len(specifications) - 1


def list_axes(rows: pd.DataFrame) -> list[str]:
    """List the axes that occur in the rows, `FIRST_AXES` first."""
    names = [str(axis) for axis in rows["axis"].unique() if axis]
    return [axis for axis in FIRST_AXES if axis in names] + [axis for axis in names if axis not in FIRST_AXES]


def combine_groups(rows: pd.DataFrame) -> pd.DataFrame:
    """Combine the groups' rows of `fill_columns`, of one specification, to one row per model, word and axis.

    Returns:
        `KEYS`, `type`, `caption`; of the group with the largest |C|: `group`, `n`, `ASSOCIATION`, and
        `smallest_q`, the smallest q over groups; of the group with the largest share / base:
        `overrepresented`, `RETRIEVAL` (its `null_q95`, `p` and `q` as `share_*`), `SKEW` and
        `share_smallest_q`; `STRENGTH`. NaN where an experiment was not run. Rows without an axis are
        returned only if nothing but strength was measured.
    """
    largest = _select_largest(rows, "association", ["group", "n", *ASSOCIATION])
    names = {name: f"share_{name}" for name in ("null_q95", "p", "q", "smallest_q")} | {
        "group": "overrepresented"
    }
    shares = _select_largest(rows, "ratio", ["group", *RETRIEVAL, *SKEW]).rename(columns=names)
    strengths = rows.dropna(subset=["strength"]).drop_duplicates(WORD_KEYS, keep="last")
    words = rows[[*KEYS, "type", "caption"]].drop_duplicates(KEYS)
    words = words[words["axis"] != ""] if (words["axis"] != "").any() else words
    merged = words.merge(largest, on=KEYS, how="left").merge(shares, on=KEYS, how="left")
    return merged.merge(strengths[[*WORD_KEYS, *STRENGTH]], on=WORD_KEYS, how="left")


def _select_largest(rows: pd.DataFrame, value: str, columns: Sequence[str]) -> pd.DataFrame:
    """Select the group with the largest absolute value per word and axis; add `smallest_q` over groups."""
    defined = rows.dropna(subset=[value]).drop_duplicates([*KEYS, "group"], keep="last")
    by_word = defined.assign(magnitude=defined[value].abs()).groupby(KEYS, sort=False)
    smallest_q = by_word["q"].min().rename("smallest_q").reset_index()
    return defined.loc[by_word["magnitude"].idxmax(), [*KEYS, *columns]].merge(smallest_q, on=KEYS)


def summarise_models(words: pd.DataFrame) -> pd.DataFrame:
    """Summarise the rows of `combine_groups` per model and axis.

    Returns:
        `model, axis`; numbers of words: with a C (`words`), with q <= .05 of C for at least one group
        (`significant`), with a baseline share (`compared`), with a baseline share of at most .05 (`rare`),
        with a MaxSkew (`ranked`), and with q <= .05 of the share for at least one group (`skewed`); means
        over words of the largest |C| (`largest`) and its null's 95th percentile (`null`), of `maxskew` and
        its null's (`maxskew_null`), and of `ndkl`.
    """
    words = words.assign(
        magnitude=words["association"].abs(),
        significant=words["smallest_q"] <= ALPHA,
        rare=words["baseline_share"] <= ALPHA,
        skewed=words["share_smallest_q"] <= ALPHA,
    )
    summaries = words.groupby(["model", "axis"], sort=False).agg(
        words=("magnitude", "count"),
        significant=("significant", "sum"),
        largest=("magnitude", "mean"),
        null=("null_q95", "mean"),
        rare=("rare", "sum"),
        compared=("baseline_share", "count"),
        ranked=("maxskew", "count"),
        skewed=("skewed", "sum"),
        maxskew=("maxskew", "mean"),
        maxskew_null=("maxskew_q95", "mean"),
        ndkl=("ndkl", "mean"),
    )
    return summaries.reset_index()
