"""Tables of the terminal, and the reading that they show."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
from rich.table import Table
from rich.text import Text

from src.report.findings import Reading, of_reading
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


def by_reading(
    name: str, rows: pd.DataFrame, value: str, beside: str, form: str
) -> Iterator[dict[str, object]]:
    """Rows of a table for the terminal: a row per reading, a column per model.

    Args:
        name: label of the rows.
        rows: of analyses.csv.
        value: column whose mean is shown.
        beside: column whose mean stands in brackets.
        form: format of both.
    """
    for (debias, protocol, seed), own in rows.groupby(["debias", "protocol", "seed"], sort=False):
        means = own.groupby("model", sort=False)[[value, beside]].mean()
        cells = {str(row[0]): form.format(row[1], row[2]) for row in means.itertuples()}
        yield {"": name, "debias": debias, "protocol": protocol, "seed": seed, **cells}
