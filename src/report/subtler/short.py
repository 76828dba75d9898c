"""What the choices of generative models come to, in short, for the terminal."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd

from src.report.findings import READING

ALL = "all"
TITLE = (
    "Subtler biases: Stuart's τ-c of polarity and answer, 95% interval over sentence templates, n (unmatched)"
)


def short(subtler: pd.DataFrame) -> pd.DataFrame:
    """A row per reading, task, coding, domain and direction, a column per model.

    Args:
        subtler: rows of analyses.csv of generative models.

    Returns:
        ``""``, `protocol`, `seed`, and of each model a text.
    """
    whole = subtler[subtler["gender"] == ALL] if len(subtler) else subtler
    rows: list[dict[str, Any]] = []
    named = ["exp", "coding", "domain", "direction"]
    if whole.empty:
        return pd.DataFrame(rows)
    for keys, own in whole.groupby([*READING, *named], sort=False):
        assert isinstance(keys, tuple)
        about = dict(zip([*READING, *named], keys, strict=True))
        label = " ".join(str(about[name]) for name in named)
        cells = {str(row["model"]): _told(row) for row in own.to_dict("records")}
        rows.append({"": label, "protocol": about["protocol"], "seed": about["seed"], **cells})
    return pd.DataFrame(rows)


def _told(row: Mapping[Hashable, Any]) -> str:
    interval = (
        f"[{row['tau_c_low']:.2f}, {row['tau_c_high']:.2f}]" if pd.notna(row["tau_c_low"]) else "no interval"
    )
    return f"{row['tau_c']:.3f} {interval}, {row['n']} ({row['n_unmatched']})"
