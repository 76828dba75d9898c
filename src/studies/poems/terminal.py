"""What poems about faces come to, in short, for the terminal."""

from __future__ import annotations

import pandas as pd

from src.report.findings import READING
from src.report.tables import across_models

TITLE = (
    "Poems about faces: mean |CLES − ½| over pairs of groups, and the widest pair, 95% interval over faces"
)


def short(poems: pd.DataFrame) -> pd.DataFrame:
    """A row per reading, pool and what is done with tokens in both pools, a column per model.

    Args:
        poems: rows of analyses.csv of poems.

    Returns:
        ``""``, `protocol`, `seed`, and of each model a text.
    """
    if poems.empty:
        return poems
    by = [*READING, "pool", "shared", "model"]
    texts = [(*keys, _told(own)) for keys, own in poems.groupby(by, sort=False)]
    rows = pd.DataFrame(texts, columns=[*by, "text"])
    label = rows["pool"] + ", shared tokens " + rows["shared"]
    return across_models(rows.assign(label=label), "protocol", "seed")


def _told(pairs: pd.DataFrame) -> str:
    known = pairs[pairs["cles_gap"].notna()]
    if known.empty:
        return "empty pool"
    row = max(known.to_dict("records"), key=lambda one: float(one["cles_gap"]))
    interval = f" [{row['cles_low']:.2f}, {row['cles_high']:.2f}]" if pd.notna(row["cles_low"]) else ""
    q = f", q {row['q']:.3f}" if pd.notna(row["q"]) else ""
    return (
        f"{known['cles_gap'].mean():.3f} of {len(known)}; {row['group_a']} / {row['group_b']}: "
        f"CLES {row['cles']:.3f}{interval}{q}, {row['n_a']} and {row['n_b']} faces, "
        f"{row['tokens_a']:.0f} and {row['tokens_b']:.0f} tokens"
    )
