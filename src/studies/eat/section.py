"""Build the report's section on embedding association tests."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from src.report.drawing import shorten
from src.report.explorer import build_rows
from src.report.findings import Findings
from src.report.folder import ReportFolder
from src.report.forest_plot import format_digits
from src.report.format import MAX_ROWS, to_records
from src.report.study import Section
from src.report.tables import describe, select_first_specification
from src.studies.eat.experiment import summarise
from src.studies.eat.figures import ORDER_LABELS, draw_tests

TEMPLATES = Path(__file__).with_name("templates")
# Column of the report's explorer -> column of the analyses.
EXPLORED = {"level": "d", "level_low": "d_low", "level_high": "d_high", "level_p": "p", "n": "n"}


def build_section(findings: Findings, folder: ReportFolder) -> Section:
    """Write the forest plot and the tables of the tests."""
    analyses = findings.of("eat")
    folder.write_table(
        "association-tests", analyses, "embedding association tests, all specifications, unrounded"
    )
    rows, specification, others = select_first_specification(analyses)
    summary = summarise(rows, ["model", "exp", "order"])
    folder.write_table(
        "association-tests-orders", summary, "embedding association tests by order: means over tests"
    )
    models = [*dict.fromkeys(rows["model"])]
    named = rows
    if rows["exp"].nunique() > 1:  # their tests may have the same names
        named = rows.assign(test=rows["exp"] + ": " + rows["test"])
    drawing = draw_tests(named, title="Embedding association tests", models=models)
    context = {
        "specification": describe(specification),
        "others": others,
        "orders": ORDER_LABELS,
        "summary": to_records(summary),
        "rows": to_records(rows.head(MAX_ROWS)),
        "left": max(0, len(rows) - MAX_ROWS),
        "pictures": folder.write_figures([drawing]),
        "several_exps": rows["exp"].nunique() > 1,
    }
    explored = build_rows(
        analyses.assign(n=analyses["n_x"] + analyses["n_y"]),
        study="eat",
        group=analyses["test"] + " (" + analyses["order"].map(ORDER_LABELS) + ")",
        measure="d",
        numbers=EXPLORED,
    )
    return Section(
        rows=rows,
        explorer_rows=explored,
        templates=TEMPLATES,
        context={"eat": context},
        body=("eat.html",),
        conclusions=draw_conclusions(analyses),
        links=(("eat", "Association tests"),),
    )


def draw_conclusions(analyses: pd.DataFrame) -> list[str]:
    """Return sentences about the first specification: the largest d, and how many differ from 0."""
    if analyses.empty:
        return []
    rows, _, _ = select_first_specification(analyses)
    return [
        text for exp, tests in rows.groupby("exp", sort=False) for text in _describe_tests(str(exp), tests)
    ]


def _describe_tests(exp: str, rows: pd.DataFrame) -> Iterator[str]:
    defined = rows[rows["d"].notna()]
    if defined.empty:
        yield f"{exp}: d is undefined in all {len(rows)} association tests."
        return
    row = defined.iloc[int(defined["d"].abs().to_numpy().argmax())]
    kind = (
        "The only association test" if len(rows) == 1 else f"The largest |d| of {len(rows)} association tests"
    )
    d, low, high, null_low, null_high = (
        format_digits(row[name]) for name in ("d", "d_low", "d_high", "null_low", "null_high")
    )
    interval = f"[{low}, {high}]" if pd.notna(row["d_low"]) else f"({row['reason']})"
    null = f"; random partitions: {null_low} to {null_high}" if pd.notna(row["null_low"]) else ""
    yield (
        f"{kind} of {exp}: d = {d} {interval} (n = {row['n_x']:.0f} + {row['n_y']:.0f} targets{null}), "
        f"{row['set_x']} against {row['set_y']}, {row['set_a']} against {row['set_b']}, "
        f"{ORDER_LABELS[row['order']]}, {shorten(str(row['model']))}."
    )
    total = summarise(rows, ["exp"]).iloc[0]
    if total["intervals"] and len(rows) > 1:
        yield (
            f"{exp}: the 95% interval of d excludes 0 in {total['excluding_zero']} of "
            f"{total['intervals']} tests with an interval (by chance about {0.05 * total['intervals']:.1f})."
        )
