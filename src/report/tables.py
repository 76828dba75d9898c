"""Build tables for the terminal, and choose the specification that they show."""

from typing import Any

import pandas as pd
from rich.table import Table
from rich.text import Text

from src.report.findings import SPECIFICATION, Specification, list_specifications, select_specification

# Maximum number of models as columns of a table; with more, models are rows.
MAX_MODEL_COLUMNS = 6
DASH = "–"  # for a missing value


def select_first_specification(analyses: pd.DataFrame) -> tuple[pd.DataFrame, Specification, int]:
    """Return the rows of the first specification, the specification, and the number of others."""
    specifications = list_specifications(analyses)
    return select_specification(analyses, specifications[0]), specifications[0], len(specifications) - 1


def describe(specification: Specification) -> str:
    """Describe a specification in words."""
    protocol, seed, debias, perturb = specification
    texts = [f"protocol {protocol}", f"seed {seed}"]
    texts += [
        f"{name} {value}" for name, value in (("debias", debias), ("perturb", perturb)) if value != "none"
    ]
    return ", ".join(texts)


def build_table(frame: pd.DataFrame, title: str) -> Table:
    """Build a terminal table from a frame of texts."""
    table = Table(title=title, show_lines=True)
    for column in frame.columns:
        table.add_column(str(column), overflow="fold")
    for row in frame.itertuples(index=False):
        table.add_row(*(Text(str(cell)) for cell in row))
    return table


def build_reason_table(reason_by_job: dict[str, str], title: str) -> Table:
    """Build a table of jobs that have no results, grouped by reason.

    `reason_by_job`: name of a job -> why it has no results.
    """
    frame = pd.DataFrame({"jobs": [*reason_by_job], "reason": [*reason_by_job.values()]})
    by_reason = frame.groupby("reason", sort=False)["jobs"].agg("\n".join).reset_index()
    return build_table(by_reason[["jobs", "reason"]], title)


def lay_out(rows: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Lay out texts for the terminal: a row per label and specification, and a column per model.

    With more than `MAX_MODEL_COLUMNS` models, there is a row per model and specification, and a column per
    label. A missing text is a dash. `rows` have `label`, `model`, `text` and `SPECIFICATION`; `columns` are
    the columns of `SPECIFICATION` to show; `perturb` is shown as well if a picture was perturbed.
    """
    if (rows["perturb"] != "none").any():
        columns = (*columns, "perturb")
    has_many_models = rows["model"].nunique() > MAX_MODEL_COLUMNS
    row_field, column_field = ("model", "label") if has_many_models else ("label", "model")
    lines: dict[Any, dict[str, Any]] = {}
    for row in rows.to_dict("records"):
        key = (row[row_field], *(row[name] for name in SPECIFICATION))
        first_cells = {"model" if has_many_models else "": row[row_field]}
        first_cells |= {name: row[name] for name in columns}
        lines.setdefault(key, first_cells)[str(row[column_field])] = row["text"]
    return pd.DataFrame(lines.values()).fillna(DASH)


def build_mean_rows(
    rows: pd.DataFrame, label: str, value_column: str, null_column: str, text_format: str
) -> pd.DataFrame:
    """Average two columns per model and specification, and format the means as texts for `lay_out`.

    Args:
        rows: rows to average, with `model` and `SPECIFICATION`.
        label: label of all resulting rows.
        value_column: name of the column of the statistic.
        null_column: name of the column of its null mean.
        text_format: format string of both means.
    """
    columns = [value_column, null_column]
    means = rows.groupby([*SPECIFICATION, "model"], sort=False)[columns].mean().reset_index()
    texts = [text_format.format(*pair) for pair in means[columns].itertuples(index=False)]
    return means.assign(label=label, text=texts)
