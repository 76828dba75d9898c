"""Tables of the terminal, and the reading that they show."""

from __future__ import annotations

from typing import Any

import pandas as pd
from rich.table import Table
from rich.text import Text

from src.report.findings import READING, Reading, of_reading
from src.report.findings import readings as readings_of


def first(analyses: pd.DataFrame) -> tuple[pd.DataFrame, Reading, int]:
    """The rows of the first reading, which one it is, and how many others there are."""
    found = readings_of(analyses)
    return of_reading(analyses, found[0]), found[0], len(found) - 1


def said(reading: Reading) -> str:
    """A reading in words."""
    protocol, seed, debias = reading
    return f"protocol {protocol}, seed {seed}" + (f", debias {debias}" if debias != "none" else "")


def plain(frame: pd.DataFrame, title: str) -> Table:
    """Any table of texts for the terminal."""
    table = Table(title=title, show_lines=True)
    for column in frame.columns:
        table.add_column(str(column))
    for row in frame.itertuples(index=False):
        table.add_row(*(Text(str(cell)) for cell in row))
    return table


def reasons(jobs: dict[str, str], title: str) -> Table:
    """Jobs that gave no numbers, those of one reason together."""
    table = Table(title=title, show_lines=True)
    table.add_column("jobs")
    table.add_column("reason")
    by_reason: dict[str, list[str]] = {}
    for job, reason in jobs.items():
        by_reason.setdefault(reason, []).append(job)
    for reason, names in by_reason.items():
        table.add_row(Text("\n".join(names)), Text(reason))
    return table


def across_models(rows: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Lay out texts for the terminal: a row per label and values of the columns, a column per model.

    Args:
        rows: `label`, `model`, `text` and the columns.
        columns: of `READING`, what stands beside the label.
    """
    lines: dict[Any, dict[str, Any]] = {}
    for row in rows.to_dict("records"):
        key = (row["label"], *(row[name] for name in READING))
        start = {"": row["label"], **{name: row[name] for name in columns}}
        lines.setdefault(key, start)[str(row["model"])] = row["text"]
    return pd.DataFrame(lines.values())


def means(rows: pd.DataFrame, label: str, value: str, null: str, form: str) -> pd.DataFrame:
    """Return the rows of `across_models` with the means of a column and, in brackets, of its null."""
    found = rows.groupby([*READING, "model"], sort=False)[[value, null]].mean().reset_index()
    texts = [form.format(*pair) for pair in zip(found[value], found[null], strict=True)]
    return found.assign(label=label, text=texts)
