"""Build the report's section on the choices of language models."""

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from src.report import latex
from src.report.explorer import build_rows
from src.report.findings import SPECIFICATION, Findings
from src.report.folder import ReportFolder
from src.report.format import make_slugs, to_records
from src.report.study import Section
from src.studies.subtler import figures, published_answers
from src.studies.subtler import rows as report_rows
from src.studies.subtler.scoring import ALL, GAPS, RATES

# Maximum number of models with tables on the page, and of models whose tasks are compared.
MAX_DETAILED_MODELS = 8
ALPHA = 0.05
# Column of the report's explorer -> column of the analyses.
EXPLORER_COLUMNS = {
    "level": "tau_c",
    "level_low": "tau_c_low",
    "level_high": "tau_c_high",
    "level_p": "p",
    "n": "n",
}
LATEX_COMMENT = (
    "Stuart's tau-c with its 95% interval over sentence templates and stimuli, and the number of answers.\n"
    "% Needs \\usepackage{booktabs}."
)


def build_section(findings: Findings, folder: ReportFolder) -> Section:
    """Write the figures and tables of the choices of language models; return the section."""
    analyses = findings.of("subtler")
    description = "subtler biases: every task, coding, domain, direction and gender, all specifications"
    folder.write_table("subtler", analyses, description)
    first = report_rows.select_first_specifications(analyses)
    rows = report_rows.fill_columns(first).assign(series=first["model"].astype(str))
    rows_by_title = dict(report_rows.split_by_task(rows))
    slug_by_title = make_slugs(rows_by_title)
    # Without rows that repeat others: those of all domains, in tasks with a single domain.
    unique_rows = pd.concat(rows_by_title.values())
    folder.write_text("subtler.tex", format_latex(unique_rows), "subtler biases: τ-c as LaTeX (booktabs)")
    totals = unique_rows[unique_rows["gender"] == ALL]
    contains_zero = (totals["tau_c_low"] <= 0) & (totals["tau_c_high"] >= 0)
    models = [*dict.fromkeys(rows["model"])][:MAX_DETAILED_MODELS]
    comparisons = report_rows.select_task_comparisons(rows)
    published_models, lines = published_answers.compare_with_published(rows[rows["model"].isin(models)])
    models_with_published_task = [model for model in models if any(model in line["ours"] for line in lines)]
    if lines:
        scores = published_answers.score_published()
        folder.write_table(
            "subtler-published", scores, "scores of the answers published by Kamruzzaman et al."
        )
    context = {
        "n_other_specifications": report_rows.count_hidden_specifications(analyses),
        "answers": to_records(count_answers(rows[rows["gender"] == ALL])),
        "tasks": [
            {
                "name": title,
                **_write_figures(
                    task_rows,
                    rows[rows["exp"] == task_rows["exp"].iloc[0]],
                    slug_by_title[title],
                    title,
                    folder,
                ),
                "rows": to_records(task_rows[(task_rows["gender"] == ALL) & task_rows["model"].isin(models)]),
            }
            for title, task_rows in rows_by_title.items()
        ],
        "directions": report_rows.DIRECTIONS,
        "gaps": GAPS,
        "rates": RATES,
        "has_unpublished_coding": {*rows["coding"]} != {"published"},
        "n_contradictory_totals": int(((totals["p"] <= ALPHA) & contains_zero).sum()),
        "n_totals_with_interval": int(totals["tau_c_low"].notna().sum()),
        "n_rows_without_interval": int(unique_rows["tau_c_low"].isna().sum()),
        "n_rows": len(unique_rows),
        "reasons": report_rows.explain_missing_tau(rows),
        "n_models_omitted": rows["model"].nunique() - len(models),
        "models_with_several_tasks": [model for model, _ in comparisons if model],
        "comparisons": [
            # The name of the model is "" where no model has several tasks.
            _write_figures(
                compared_rows, compared_rows, f"compared-{number}", model or "side by side", folder
            )
            for number, (model, compared_rows) in enumerate(comparisons[:MAX_DETAILED_MODELS], 1)
        ],
        "published": {"models": published_models, "lines": lines, "ours": models_with_published_task},
        "n_comparisons_omitted": max(0, len(comparisons) - MAX_DETAILED_MODELS),
    }
    complete = report_rows.fill_columns(analyses)
    group = complete[["coding", "domain", "direction", "gender"]].astype(str).agg(" ".join, axis=1)
    return Section(
        rows=first,
        explorer_rows=build_rows(
            complete, study="subtler", group=group, measure="τ-c", numbers=EXPLORER_COLUMNS
        ),
        templates=Path(__file__).with_name("templates"),
        context={"subtler": context},
        body=("subtler.html",),
        links=(("subtler", "Subtler biases"),),
    )


def count_answers(totals: pd.DataFrame) -> pd.DataFrame:
    """Count all, unmatched and missing answers of each task and model.

    `totals` are rows pooled over genders (`gender` is `ALL`), of one specification per task and model.
    `position_effect`, the mean effect of the order of the options (docs/methods.md, section 5), is NaN unless
    options are scored by likelihood. `share` is the share of unmatched answers.
    """
    # Codings share the same answers, which count once.
    strata = totals[totals["domain"] == ALL].drop_duplicates(["exp", "model", "direction"])
    keys = ["exp", "model", *SPECIFICATION]
    strata = strata.assign(position_effect=strata["position_effect"] * strata["n"])
    sums: Any = dict.fromkeys(("n", "n_unmatched", "n_unanswered"), "sum")
    # A sum is NaN if the effect of any stratum is.
    sums["position_effect"] = lambda values: values.sum(min_count=len(values))
    counts: pd.DataFrame = strata.groupby(keys, sort=False, as_index=False).agg(sums)
    effect = counts["position_effect"] / counts["n"]
    return counts.assign(share=counts["n_unmatched"] / counts["n"], position_effect=effect)


def _write_figures(
    task_rows: pd.DataFrame, axis_rows: pd.DataFrame, name: str, title: str, folder: ReportFolder
) -> dict[str, Any]:
    # `axis_rows`: rows that set the limits of the axes, which the figures of a task share.
    pictures: dict[str, Any] = {"gaps": [], "taus": []}
    for direction in report_rows.DIRECTIONS:
        by_kind = figures.draw_direction(task_rows, axis_rows, direction, name=name, title=title)
        for kind, drawings in by_kind.items():
            pictures[kind] += folder.write_figures(drawings)
    return pictures


def format_latex(rows: pd.DataFrame) -> str:
    """Format tau-c as LaTeX: tasks, domains and directions as rows, models as columns.

    Only rows pooled over genders (`gender` is `ALL`) are included.
    """
    totals = rows[rows["gender"] == ALL]
    models = [str(model) for model in dict.fromkeys(totals["model"])]
    lines = []
    for keys, stratum in totals.groupby(["exp", "coding", "domain", "direction"], sort=False):
        task, coding, domain, direction = map(str, keys)
        line = {"Task": report_rows.name_task(totals, task, coding), "Domain": domain, "": direction}
        lines.append(line | {str(row["model"]): _format_cell(row) for row in stratum.to_dict("records")})
    return latex.to_latex(
        pd.DataFrame(lines, columns=["Task", "Domain", "", *models]).fillna(""), 3, LATEX_COMMENT
    )


def _format_cell(row: Mapping[Hashable, Any]) -> str:
    if pd.isna(row["tau_c"]):
        return "--"
    low, high = row["tau_c_low"], row["tau_c_high"]
    interval = "no interval" if pd.isna(low) else f"$[{low:.2f}, {high:.2f}]$"
    return f"${row['tau_c']:.2f}$ {interval} ({row['n']:.0f})"
