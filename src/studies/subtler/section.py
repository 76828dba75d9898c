"""Write the report's section on the choices of generative models: its files and its template context."""

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from src.report import latex
from src.report.explorer import build_rows
from src.report.findings import SPECIFICATION, Findings
from src.report.folder import ReportFolder
from src.report.format import slugs, to_records
from src.report.study import Section
from src.studies.subtler import figures, published_answers
from src.studies.subtler import rows as subtler
from src.studies.subtler.scoring import ALL, GAPS, RATES

# Maximum number of models whose tables, and comparisons of tasks, the page shows.
DETAILED = 8
ALPHA = 0.05
# Column of the report's explorer -> column of the analyses.
EXPLORED = {"level": "tau_c", "level_low": "tau_c_low", "level_high": "tau_c_high", "level_p": "p", "n": "n"}
COMMENT = (
    "Stuart's tau-c with its 95% interval over sentence templates and stimuli, and the number of answers.\n"
    "% Needs \\usepackage{booktabs}."
)


def section(findings: Findings, folder: ReportFolder) -> Section:
    """Write the figures and tables of the choices of generative models; return the section."""
    analyses = findings.of("subtler")
    description = "subtler biases: every task, coding, domain, direction and gender, all specifications"
    folder.write_table("subtler", analyses, description)
    first = subtler.first_specifications(analyses)
    rows = subtler.fill_columns(first).assign(series=first["model"].astype(str))
    sets = dict(subtler.sets(rows))
    names = slugs(sets)
    listed = pd.concat(sets.values())
    folder.write_text("subtler.tex", latex_table(listed), "subtler biases: τ-c as LaTeX (booktabs)")
    totals = listed[listed["gender"] == ALL]
    holds_zero = (totals["tau_c_low"] <= 0) & (totals["tau_c_high"] >= 0)
    models = [*dict.fromkeys(rows["model"])][:DETAILED]
    comparisons = subtler.task_comparisons(rows)
    published_models, lines = published_answers.compare_with_published(rows[rows["model"].isin(models)])
    compared_models = [model for model in models if any(model in line["ours"] for line in lines)]
    if lines:
        scores = published_answers.published_scores()
        folder.write_table(
            "subtler-published", scores, "scores of the answers published by Kamruzzaman et al."
        )
    context = {
        "others": subtler.count_others(analyses),
        "answers": to_records(count_answers(rows[rows["gender"] == ALL])),
        "sets": [
            {
                "name": title,
                **_pictures(subset, rows[rows["exp"] == subset["exp"].iloc[0]], names[title], title, folder),
                "rows": to_records(subset[(subset["gender"] == ALL) & subset["model"].isin(models)]),
            }
            for title, subset in sets.items()
        ],
        "directions": subtler.DIRECTIONS,
        "gaps": GAPS,
        "rates": RATES,
        "two_codings": sorted({*rows["coding"]}) != ["published"],
        "doubtful": int(((totals["p"] <= ALPHA) & holds_zero).sum()),
        "totals_with_interval": int(totals["tau_c_low"].notna().sum()),
        "strata_without_interval": int(listed["tau_c_low"].isna().sum()),
        "strata": len(listed),
        "reasons": subtler.reasons(rows),
        "models_left": rows["model"].nunique() - len(models),
        "compared_models": [title for title, _ in comparisons if title],
        "compared": [
            _pictures(set_rows, set_rows, f"compared-{number}", title or "side by side", folder)
            for number, (title, set_rows) in enumerate(comparisons[:DETAILED], 1)
        ],
        "published": {"models": published_models, "lines": lines, "ours": compared_models},
        "compared_left": max(0, len(comparisons) - DETAILED),
    }
    complete = subtler.fill_columns(analyses)
    group = complete[["coding", "domain", "direction", "gender"]].astype(str).agg(" ".join, axis=1)
    return Section(
        rows=first,
        explorer_rows=build_rows(complete, study="subtler", group=group, measure="τ-c", numbers=EXPLORED),
        templates=Path(__file__).with_name("templates"),
        context={"subtler": context},
        body=("subtler.html",),
        links=(("subtler", "Subtler biases"),),
    )


def count_answers(totals: pd.DataFrame) -> pd.DataFrame:
    """Count all, unmatched and missing answers of each task and model.

    `totals` has one specification of each task and model. `position_effect`, the mean effect of the order of
    the options (docs/methods.md, section 5), is NaN unless options are scored by their likelihood.
    """
    # Codings share their answers, which are counted once.
    strata = totals[totals["domain"] == ALL].drop_duplicates(["exp", "model", "direction"])
    keys = ["exp", "model", *SPECIFICATION]
    strata = strata.assign(position_effect=strata["position_effect"] * strata["n"])
    sums: Any = dict.fromkeys(("n", "n_unmatched", "n_unanswered"), "sum")
    sums["position_effect"] = lambda values: values.sum(min_count=len(values))
    counts: pd.DataFrame = strata.groupby(keys, sort=False, as_index=False).agg(sums)
    effect = counts["position_effect"] / counts["n"]
    return counts.assign(share=counts["n_unmatched"] / counts["n"], position_effect=effect)


def _pictures(
    set_rows: pd.DataFrame, axis_rows: pd.DataFrame, name: str, title: str, folder: ReportFolder
) -> dict[str, Any]:
    # `axis_rows` are the rows of all figures that have the same axes.
    pictures: dict[str, Any] = {"gaps": [], "taus": []}
    for direction in subtler.DIRECTIONS:
        drawn = figures.drawings(set_rows, axis_rows, direction, name=name, title=title)
        for kind, drawings in drawn.items():
            pictures[kind] += folder.write_figures(drawings)
    return pictures


def latex_table(rows: pd.DataFrame) -> str:
    """Format tau-c of all genders as LaTeX: tasks, domains and directions as rows, models as columns."""
    totals = rows[rows["gender"] == ALL]
    models = [str(model) for model in dict.fromkeys(totals["model"])]
    lines = []
    for keys, stratum in totals.groupby(["exp", "coding", "domain", "direction"], sort=False):
        task, coding, domain, direction = map(str, keys)
        line = {"Task": subtler.task_name(totals, task, coding), "Domain": domain, "": direction}
        lines.append(line | {str(row["model"]): _cell(row) for row in stratum.to_dict("records")})
    return latex.to_latex(pd.DataFrame(lines, columns=["Task", "Domain", "", *models]).fillna(""), 3, COMMENT)


def _cell(row: Mapping[Hashable, Any]) -> str:
    if pd.isna(row["tau_c"]):
        return "--"
    low, high = row["tau_c_low"], row["tau_c_high"]
    interval = "no interval" if pd.isna(low) else f"$[{low:.2f}, {high:.2f}]$"
    return f"${row['tau_c']:.2f}$ {interval} ({row['n']:.0f})"
