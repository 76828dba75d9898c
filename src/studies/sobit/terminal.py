"""What So-B-IT comes to, in short, for the terminal."""

from __future__ import annotations

import pandas as pd

from src.report.findings import READING
from src.report.tables import across_models
from src.studies.sobit.word_rows import NAMED, by_word, completed, summary

TITLE = (
    "So-B-IT: words with q ≤ .05; mean over words of the largest |C| (association) or MaxSkew (retrieval) "
    "(95th percentile with permuted labels)"
)
# Measure -> columns of `summary`: words that are significant, of how many; means, and of the null.
COUNTED = (
    ("association", "significant", "words", "largest", "null"),
    ("retrieval", "skewed", "ranked", "maxskew", "maxskew_null"),
)


def short(sobit: pd.DataFrame) -> pd.DataFrame:
    """A row per axis and reading, a column per model.

    Args:
        sobit: rows of analyses.csv of So-B-IT's experiments; those of strength have no axis, and no row here.

    Returns:
        ``""``, `debias`, `protocol`, `seed`, and of each model a text: how many words have q <= .05 for a
        group at least, of how many; the mean over words of their largest |C| and, in brackets, of the 95th
        percentile of that group's null; of retrieval the same with MaxSkew.
    """
    if sobit.empty:
        return sobit
    tables = []
    for reading, own in completed(sobit).groupby([*READING, "taxonomy"], sort=False):
        about = dict(zip(READING, reading, strict=False))
        counts = summary(by_word(own)).query("axis != ''").to_dict("records")
        rows = [
            {
                **about,
                "model": row["model"],
                "label": f"{name}: {NAMED.get(row['axis'], row['axis'])}",
                "text": f"{row[some]} of {row[every]}; {row[mean]:.2f} ({row[null]:.2f})",
            }
            for name, some, every, mean, null in COUNTED
            for row in counts
            if row[every]
        ]
        tables.append(across_models(pd.DataFrame(rows), "debias", "protocol", "seed"))
    return pd.concat(tables, ignore_index=True)
