"""The main table as LaTeX, laid out like the paper's."""

from __future__ import annotations

import pandas as pd

from src.report import latex
from src.studies.propagation.tables import OVERALL

COMMENT = "Mean and SD of Spearman's rho over analyses. Needs \\usepackage{booktabs}."
THEIRS = "Ghate et al."


def main_table(summary: pd.DataFrame) -> str:
    """Experiments down, models across, mean ± SD of rho; needs the package `booktabs`.

    Args:
        summary: see `tables.summary`.
    """
    rows = []
    for (exp, paper), own in summary.groupby(["exp", "paper"], sort=False):
        cells = own.set_index("model")
        row = {"Experiment": str(exp), "": "" if exp == OVERALL else str(paper)}
        row |= {str(model): _cell(cells.loc[model]) for model in cells.index}
        if "published_mean" in summary:
            row[THEIRS] = _pair(*cells.loc[OVERALL, ["published_mean", "published_sd"]])
        rows.append(row)
    models = [str(model) for model in dict.fromkeys(summary["model"])]
    columns = ["Experiment", "", *models, *[THEIRS] * ("published_mean" in summary)]
    table = latex.table(pd.DataFrame(rows, columns=columns).fillna(""), 2, COMMENT)
    return table.replace(f"\n{OVERALL} & ", f"\n\\midrule\n{OVERALL} & ")


def _cell(row: pd.Series) -> str:
    return "--" if row["analyses"] == 0 else _pair(row["mean"], row["sd"])


def _pair(mean: float, sd: float) -> str:
    if pd.isna(mean):
        return ""
    return f"${mean:.2f}" + ("$" if pd.isna(sd) else rf" \pm {sd:.2f}$")
