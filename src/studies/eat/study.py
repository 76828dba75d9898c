"""Define the study of embedding association tests."""

from collections.abc import Iterator, Mapping

import pandas as pd
from rich.console import RenderableType

from src.configs import ProtocolConfig
from src.report.findings import SPECIFICATION
from src.report.forest_plot import format_digits
from src.report.study import StudyReport
from src.report.tables import build_table, lay_out
from src.studies.eat import experiment, sets
from src.studies.eat.association_tests import list_roles
from src.studies.eat.config import EatConfig
from src.studies.eat.figures import NAME, draw_tests
from src.studies.eat.section import build_section, draw_conclusions
from src.studies.protocol import NamedFigure, Study, StudyResult

# More tests than this are summarised by order in the terminal.
MAX_LISTED = 12
TITLE = "association tests: d [95% interval], or mean |d| (tests whose interval excludes 0)"


def protocol_fields(exp: EatConfig, _: ProtocolConfig) -> frozenset[str]:
    """Return the fields of the protocol that affect an experiment."""
    has_valence = exp.file is None and any(items.scenes or items.words for items in exp.sets.values())
    return frozenset({"pooling"} | ({"extremes"} if has_valence else set()))


def compute_metrics(result: StudyResult) -> dict[str, float]:
    """Return d of each test and order; by order the mean |d| and the share of intervals without 0."""
    rows = result.analyses
    values = {f"d.{row['test']}, {row['order']}": float(row["d"]) for row in rows.to_dict("records")}
    for row in experiment.summarise(rows, ["order"]).to_dict("records"):
        values[f"mean_abs_d.{row['order']}"] = float(row["mean_abs_d"])
        if row["intervals"]:
            values[f"share_excluding_zero.{row['order']}"] = float(row["excluding_zero"] / row["intervals"])
    return values


def draw_figures(_: EatConfig, columns: Mapping[str, object], result: StudyResult) -> Iterator[NamedFigure]:
    """Draw the tests of a job."""
    title = f"{columns['model']}, {columns['exp']} ({columns['dataset']})"
    model = str(columns["model"])
    drawing = draw_tests(result.analyses.assign(model=model), title=title, models=[model])
    yield f"{NAME}.png", drawing.figure, drawing.alt_text


def build_terminal_tables(analyses: pd.DataFrame, dataset: str) -> list[RenderableType]:
    """Return a table with a row per test and order, or per order where there are many tests."""
    rows = []
    for (exp, order), tests in analyses.groupby(["exp", "order"], sort=False):
        if tests["test"].nunique() <= MAX_LISTED:
            texts = [
                f"{format_digits(row['d'])} [{format_digits(row['d_low'])}, {format_digits(row['d_high'])}]"
                for row in tests.to_dict("records")
            ]
            rows.append(tests.assign(label=f"{exp}, {order}: " + tests["test"], text=texts))
            continue
        summary = experiment.summarise(tests, ["model", *SPECIFICATION])
        text = [
            f"{row['mean_abs_d']:.2f} ({row['excluding_zero']} of {row['intervals']})"
            for row in summary.to_dict("records")
        ]
        rows.append(
            summary.assign(label=f"{exp}, {order}: mean of {tests['test'].nunique()} tests", text=text)
        )
    return [build_table(lay_out(pd.concat(rows), "debias", "protocol", "seed"), f"{dataset}: {TITLE}")]


STUDY = Study(
    name="eat",
    roles=list_roles,
    prompts=sets.build_prompts,
    check=experiment.check,
    run=experiment.run,
    protocol_fields=protocol_fields,
    metrics=compute_metrics,
    figures=draw_figures,
    report=StudyReport(section=build_section, terminal=build_terminal_tables, conclusions=draw_conclusions),
)
