"""The report's section on what generative models chose: its files, and what its template is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from src.report.findings import Findings
from src.report.folder import Folder
from src.report.format import records, slugs
from src.report.study import Section
from src.studies.subtler import figures, latex_table
from src.studies.subtler import rows as subtler
from src.studies.subtler.terminal import reasons

# Models whose tables the page shows; models of which tasks stand side by side.
DETAILED = 8
SMALL = 0.05


def section(findings: Findings, folder: Folder) -> Section:
    """Write figures and tables of what generative models chose.

    Args:
        findings: of a sweep with rows of subtler biases.
        folder: of the report.
    """
    every = findings.of("subtler")
    return Section(
        rows=subtler.shown(every),
        templates=Path(__file__).with_name("templates"),
        context={"subtler": context(every, folder)},
        body=("subtler.html",),
        links=(("subtler", "Subtler biases"),),
    )


def context(found: pd.DataFrame, folder: Folder) -> dict[str, Any]:
    """What the template `subtler.html` is given; figures and tables are written.

    Args:
        found: rows of analyses.csv of generative models, every task and reading.
        folder: of the report.
    """
    folder.table(
        "subtler", found, "subtler biases: every task, coding, domain, direction and gender, all readings"
    )
    rows = subtler.completed(subtler.shown(found))
    told = pd.concat([own for _, own in subtler.sets(rows)])
    folder.text("subtler.tex", latex_table.table(told), "subtler biases: τ-c as LaTeX (booktabs)")
    whole = told[told["gender"] == subtler.ALL]
    models = [*dict.fromkeys(rows["model"])][:DETAILED]
    compared = subtler.compared(rows)
    return {
        "others": subtler.others(found),
        "answers": records(answers(rows[rows["gender"] == subtler.ALL])),
        "sets": _sets(rows, models, folder),
        "directions": subtler.DIRECTIONS,
        "gaps": subtler.GAPS,
        "rates": subtler.RATES,
        "coded": sorted({*rows["coding"]}) != ["published"],
        "doubtful": int(((whole["p"] <= SMALL) & _holds_zero(whole)).sum()),
        "with_interval": int(whole["tau_c_low"].notna().sum()),
        "without": int(told["tau_c_low"].isna().sum()),
        "strata": len(told),
        "reasons": reasons(rows),
        "left": rows["model"].nunique() - len(models),
        "itself": [title for title, _ in compared if title],
        "compared": [
            _pictures(own, own, f"compared-{number}", title or "side by side", folder)
            for number, (title, own) in enumerate(compared[:DETAILED], 1)
        ],
        "compared_left": max(0, len(compared) - DETAILED),
    }


def answers(whole: pd.DataFrame) -> pd.DataFrame:
    """Of each task and model how many answers there are, match no option, were not given, by which reading.

    `position_effect`, the mean over answers, is NaN where options were not weighed.

    Args:
        whole: rows of all genders.
    """
    one = whole[whole["domain"] == subtler.ALL].drop_duplicates(["exp", "model", "direction"])
    by = ["exp", "model", "protocol", "seed", "debias"]
    one = one.assign(position_effect=one["position_effect"] * one["n"])
    sums: Any = dict.fromkeys(("n", "n_unmatched", "n_unanswered"), "sum")
    sums["position_effect"] = lambda own: own.sum(min_count=len(own))
    told: pd.DataFrame = one.groupby(by, sort=False, as_index=False).agg(sums)
    effect = told["position_effect"] / told["n"]
    return told.assign(share=told["n_unmatched"] / told["n"], position_effect=effect)


def _holds_zero(rows: pd.DataFrame) -> pd.Series:
    return (rows["tau_c_low"] <= 0) & (rows["tau_c_high"] >= 0)


def _sets(rows: pd.DataFrame, models: list[str], folder: Folder) -> list[dict[str, Any]]:
    named = rows.assign(series=rows["model"].astype(str))
    parts = dict(subtler.sets(named))
    names = slugs(parts)
    return [
        {
            "name": title,
            **_pictures(own, named[named["exp"] == own["exp"].iloc[0]], names[title], title, folder),
            "rows": records(own[(own["gender"] == subtler.ALL) & own["model"].isin(models)]),
        }
        for title, own in parts.items()
    ]


def _pictures(
    own: pd.DataFrame, beside: pd.DataFrame, name: str, title: str, folder: Folder
) -> dict[str, Any]:
    found: dict[str, Any] = {"gaps": [], "taus": []}
    for direction in subtler.DIRECTIONS:
        for kind, drawings in figures.drawings(own, beside, direction, name=name, title=title).items():
            found[kind] += folder.pictures(drawings)
    return found
