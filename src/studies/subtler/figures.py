"""Which figures show what generative models chose: rates and tau, by domain, direction and gender."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from src.report.drawing import Drawing
from src.report.forest_plot import in_order
from src.report.format import number
from src.studies.subtler.rows import ALL, ENDS, GAPS, GENDERS
from src.studies.subtler.value_plot import HOLLOW, figures, limit

RATES = (
    "Each bar is a difference of rates: of the answers to positive items, how many per cent are positive "
    "(del_PL), negative (del_NL) or neutral (del_NuL), less the same of negative items. A model that lets an "
    "item's side play no part has all three near 0. Its line is the 95% interval over sentence templates. "
)
TAUS = (
    "Each point is Stuart's τ-c between the side of the item and that of the answer, 0: none. Its line is "
    "the 95% interval over sentence templates; at the right its value, the number n of answers and, in "
    "brackets, how many of them match no option. "
)


def drawings(
    own: pd.DataFrame, beside: pd.DataFrame, direction: str, *, name: str, title: str
) -> dict[str, list[Drawing]]:
    """`gaps` and `taus` of one direction; empty where it was not asked.

    Args:
        own: `rows.completed` with `series`.
        beside: the same of all that should share the axes: both directions, both codings.
        direction: SAI or ASA.
        name: of the files.
        title: of what is drawn.
    """
    rows = own[own["direction"] == direction]
    if rows.empty:
        return {"gaps": [], "taus": []}
    percent = limit(beside.loc[beside["gender"] == ALL, [*GAPS, *ENDS[:-2]]], 100)
    one = limit(beside[["tau_c", *ENDS[-2:]]], 1)
    of, files = f"{direction}, {title}", f"{name}-{direction}"
    gaps = figures(
        _gaps(rows[rows["gender"] == ALL]),
        bars=True,
        axis="difference, percentage points",
        limit=percent,
        name=f"subtler-gaps-{files}",
        title=f"Rates: {of}",
        caption=RATES + HOLLOW,
    )
    taus = figures(
        _taus(rows),
        bars=False,
        axis="Stuart's τ-c",
        limit=one,
        name=f"subtler-tau-{files}",
        title=f"τ-c: {of}",
        caption=TAUS + HOLLOW,
    )
    return {"gaps": gaps, "taus": taus}


def _gaps(rows: pd.DataFrame) -> pd.DataFrame:
    rows = rows.rename(columns={"domain": "block"})
    ends = {gap: {gap: "value", f"{gap}_low": "low", f"{gap}_high": "high"} for gap in GAPS}
    parts = [rows[["block", "series", *ends[gap]]].rename(columns=ends[gap]).assign(name=gap) for gap in GAPS]
    counts = {domain: _counted(own["n"]) for domain, own in rows.groupby("block", sort=False)}
    found = pd.concat(parts, ignore_index=True)
    found = found.assign(text=found["value"].map(_signed), note=found["block"].map(counts))
    return _ordered(found, GAPS)


def _taus(rows: pd.DataFrame) -> pd.DataFrame:
    texts = [
        f"{number(row['tau_c'])}, {row['n']:.0f} ({row['n_unmatched']:.0f})"
        for row in rows.to_dict("records")
    ]
    named = {"tau_c": "value", "tau_c_low": "low", "tau_c_high": "high", "domain": "block", "gender": "name"}
    found = rows[[*named, "series"]].rename(columns=named).assign(text=texts, note="τ-c, n (unmatched)")
    ordered = _ordered(found, GENDERS)
    return ordered.assign(name=ordered["name"].str.replace("_", " "))


def _ordered(rows: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Blocks as they come, `all` at the end; names as they are given, others after them."""
    blocks = [block for block in dict.fromkeys(rows["block"]) if block != ALL]
    return in_order(rows, block=[*blocks, ALL], name=[*dict.fromkeys([*names, *rows["name"]])])


def _counted(sizes: pd.Series) -> str:
    low, high = sizes.min(), sizes.max()
    return f"n = {low:,.0f}" + (f" to {high:,.0f}" if high > low else "")


def _signed(value: float) -> str:
    text = number(value, 1)
    return f"+{text}" if value > 0 and float(text) else text
