"""What the choices of generative models come to, in short, for the terminal."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd

from src.report.findings import READING
from src.report.tables import across_models
from src.studies.subtler.scoring import ALL

TITLE = (
    "Subtler biases: Stuart's τ-c of polarity and answer, 95% interval over sentence templates, n (unmatched)"
)

REMEDY = (
    "Read all of them in results/answers.parquet. A model that thinks first needs a larger llm.most, another "
    "a clearer task.question; task.max_unmatched is the share that is allowed."
)


def short(subtler: pd.DataFrame) -> pd.DataFrame:
    """A row per reading, task, coding, domain and direction, a column per model.

    Args:
        subtler: rows of analyses.csv of generative models.

    Returns:
        ``""``, `protocol`, `seed`, and of each model a text.
    """
    if subtler.empty:
        return subtler
    whole = subtler[subtler["gender"] == ALL]
    label = whole[["exp", "coding", "domain", "direction"]].astype(str).agg(" ".join, axis=1)
    texts = [_told(row) for row in whole.to_dict("records")]
    return across_models(whole.assign(label=label, text=texts), "protocol", "seed")


def reasons(subtler: pd.DataFrame) -> list[str]:
    """Return a line for each task, coding, domain and direction without τ-c: why, with examples.

    Where no domain has one, a line stands for all of them.

    Args:
        subtler: rows of analyses.csv of generative models.
    """
    if "reason" not in subtler:  # an older version's
        return []
    whole = subtler[subtler["gender"] == ALL].fillna({"reason": ""})
    by = [*READING, "model", "exp", "coding", "direction"]
    every = whole["reason"].ne("").groupby([whole[name] for name in by]).transform("all")
    listed = whole[(whole["reason"] != "") & (~every | (whole["domain"] == ALL))]
    named = ["model", "exp", "coding", "domain", "direction"]
    return [
        f"{' '.join(str(row[name]) for name in named)}: no τ-c. {row['reason']}. {REMEDY}"
        for row in listed.to_dict("records")
    ]


def _told(row: Mapping[Hashable, Any]) -> str:
    if row.get("reason") and pd.isna(row["tau_c"]):
        return f"no τ-c: {row['n_unmatched']} of {row['n']} match no option"
    interval = (
        f"[{row['tau_c_low']:.2f}, {row['tau_c_high']:.2f}]" if pd.notna(row["tau_c_low"]) else "no interval"
    )
    return f"{row['tau_c']:.3f} {interval}, {row['n']} ({row['n_unmatched']})"
