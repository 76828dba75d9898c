"""Stuart's tau-c of each model as LaTeX."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd

from src.report import latex
from src.studies.subtler.rows import ALL, called

COMMENT = (
    "Stuart's tau-c with its 95% interval over sentence templates, and the number of answers.\n"
    "% Needs \\usepackage{booktabs}."
)


def table(rows: pd.DataFrame) -> str:
    """Tasks, domains and directions down, models across; needs the package `booktabs`.

    Args:
        rows: as they are shown, of which those of all genders count.
    """
    whole = rows[rows["gender"] == ALL]
    models = [str(model) for model in dict.fromkeys(whole["model"])]
    lines = []
    for keys, own in whole.groupby(["exp", "coding", "domain", "direction"], sort=False):
        task, coding, domain, direction = map(str, keys)
        line = {"Task": called(whole, task, coding), "Domain": domain, "": direction}
        lines.append(line | {str(row["model"]): _cell(row) for row in own.to_dict("records")})
    return latex.table(pd.DataFrame(lines, columns=["Task", "Domain", "", *models]).fillna(""), 3, COMMENT)


def _cell(row: Mapping[Hashable, Any]) -> str:
    if pd.isna(row["tau_c"]):
        return "--"
    low, high = row["tau_c_low"], row["tau_c_high"]
    interval = "no interval" if pd.isna(low) else f"$[{low:.2f}, {high:.2f}]$"
    return f"${row['tau_c']:.2f}$ {interval} ({row['n']:.0f})"
