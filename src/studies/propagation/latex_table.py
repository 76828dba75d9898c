"""The main table as LaTeX, laid out like the paper's."""

from __future__ import annotations

import pandas as pd

from src.report.latex import escaped
from src.studies.propagation.tables import OVERALL


def main_table(summary: pd.DataFrame) -> str:
    """Experiments down, models across, mean ± SD of rho; needs the package `booktabs`.

    Args:
        summary: see `tables.summary`.
    """
    models = [*dict.fromkeys(summary["model"])]
    compared = "published_mean" in summary
    heads = ["Experiment", "", *map(escaped, models), *["Ghate et al."] * compared]
    lines = [
        "% Mean and SD of Spearman's rho over analyses. Needs \\usepackage{booktabs}.",
        rf"\begin{{tabular}}{{ll{'c' * (len(heads) - 2)}}}",
        r"\toprule",
        " & ".join(heads) + r" \\",
        r"\midrule",
    ]
    for (exp, paper), rows in summary.groupby(["exp", "paper"], sort=False):
        if exp == OVERALL:
            lines.append(r"\midrule")
        cells = rows.set_index("model")
        ours = [_cell(cells.loc[model]) if model in cells.index else "" for model in models]
        theirs = [_pair(*cells.loc[OVERALL, ["published_mean", "published_sd"]])] if compared else []
        names = [escaped(str(exp)), "" if exp == OVERALL else escaped(str(paper))]
        lines.append(" & ".join([*names, *ours, *theirs]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _cell(row: pd.Series) -> str:
    return "--" if row["analyses"] == 0 else _pair(row["mean"], row["sd"])


def _pair(mean: float, sd: float) -> str:
    if pd.isna(mean):
        return ""
    return f"${mean:.2f}" + ("$" if pd.isna(sd) else rf" \pm {sd:.2f}$")
