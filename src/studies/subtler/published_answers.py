"""Score the published answers of Kamruzzaman et al. 2024, and join them with the scores of a sweep."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from src.metrics import rate_gaps, stuart_tau_c
from src.studies.subtler.scoring import ALL, GAPS, RATES

# Numbers of answers that match an option, by model, domain, direction and cell of `RATES`, from the reports
# in the authors' repository (github.com/kamruzzaman15/Identifying-Subtler-Biases-in-LLMs, reports/).
ANSWER_COUNTS_PATH = Path(__file__).with_name("kamruzzaman2024.csv")
# Task whose domains are those of the paper.
TASK = "subtler_en"


def score_published() -> pd.DataFrame:
    """Score the published answers, by domain and over all: `model, domain, direction, n, tau_c`, `GAPS`."""
    counts = pd.read_csv(ANSWER_COUNTS_PATH)
    pooled = counts.groupby(["model", "direction"], sort=False)[[*RATES]].sum().reset_index()
    counts = pd.concat([counts, pooled.assign(domain=ALL)], ignore_index=True)
    # [rows, polarity of the item, answer]; the last column, answers that match no option, is 0.
    tables = np.pad(counts[[*RATES]].to_numpy().reshape(-1, 2, 3), ((0, 0), (0, 0), (0, 1)))
    scores = counts[["model", "domain", "direction"]].assign(n=tables.sum(axis=(1, 2)))
    return scores.assign(tau_c=stuart_tau_c(tables), **dict(zip(GAPS, rate_gaps(tables).T, strict=True)))


def compare_with_published(rows: pd.DataFrame) -> tuple[list[str], list[dict[str, Any]]]:
    """Join τ-c of the published models with τ-c of the sweep's models, by domain and direction.

    Args:
        rows: `rows.fill_columns` of the specifications that the page shows.

    Returns:
        Names of the published models, and a line per domain and direction that both have: `domain`,
        `direction`, `published` (model -> τ-c) and `ours` (model -> τ-c). No line without the task `TASK`.
    """
    ours = rows[(rows["exp"] == TASK) & (rows["gender"] == ALL)].drop_duplicates(
        ["model", "domain", "direction"]
    )
    taus = score_published().pivot(index=["domain", "direction"], columns="model", values="tau_c")
    published = taus.to_dict("index")
    lines = []
    for keys, ours_rows in ours.groupby(["domain", "direction"], sort=False):
        if keys in published:
            line: dict[str, Any] = dict(zip(("domain", "direction"), keys, strict=True))
            line["published"] = published[keys]
            lines.append(line | {"ours": dict(zip(ours_rows["model"], ours_rows["tau_c"], strict=True))})
    return [*taus], lines
