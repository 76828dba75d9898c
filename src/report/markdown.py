"""Describe results in Markdown, for the descriptions of runs in MLflow."""

import re
from collections.abc import Iterator, Sequence

import pandas as pd
from rich.console import RenderableType
from rich.table import Table

from src.report import load
from src.report.study import report_of
from src.tracking import LIMIT_TAG

# Characters with a meaning in Markdown; an underscore within a word has none.
SPECIAL = re.compile(r"([\\`*\[\]<>|])")
# Between two cells: MLflow's pages draw tables without any space.
PADDING = " &nbsp;| "
# Characters that are reserved for the note on rows that are left out.
NOTE_LENGTH = 100


def describe(frames: Sequence[pd.DataFrame], dataset: str, lead: str = "", limit: int = LIMIT_TAG) -> str:
    """Return the conclusions and tables of analyses as Markdown, at most `limit` characters.

    `frames` are the contents of the analyses.csv of jobs on one dataset; `lead` is a sentence to begin with.
    Rows of tables that exceed the limit are left out, and counted.
    """
    sentences, renderables = [f"{lead}\n"] if lead else [], list[RenderableType]()
    for study, analyses in load.combine_by_study(frames).items():
        report = report_of(study)
        sentences += [f"- {escape(sentence)}" for sentence in report.conclusions(analyses)]
        renderables += report.terminal(analyses, dataset)
    text = "\n".join(sentences)
    for renderable in renderables:
        text = _with_table(text, renderable, limit)
    return text[:limit].strip()


def escape(text: object) -> str:
    r"""Return text that Markdown displays as it is, on one line.

    >>> escape("a|b <c>"), escape("two" + chr(10) + "lines of toy_s")
    ('a\\|b \\<c\\>', 'two lines of toy_s')
    """
    return SPECIAL.sub(r"\\\1", " ".join(str(text).split()))


def _with_table(text: str, renderable: RenderableType, limit: int) -> str:
    """Append a table, with as many of its rows as fit, or a line of text."""
    if not isinstance(renderable, Table):
        return f"{text}\n\n{escape(renderable)}"
    title, caption = escape(renderable.title or ""), escape(renderable.caption or "")
    head, *rows = _lines(renderable)
    start, end = f"{text}\n\n**{title}**\n\n{head}\n", f"\n\n{caption}" if caption else ""
    room = limit - len(start) - len(end) - NOTE_LENGTH
    fitting: list[str] = []
    for row in rows:
        room -= len(row) + 1
        if room < 0:
            break
        fitting.append(row)
    if omitted := len(rows) - len(fitting):
        end = f"\n\n*{omitted} of {len(rows)} rows are left out here; the files of the run have them.*{end}"
    return start + "\n".join(fitting) + end


def _lines(table: Table) -> Iterator[str]:
    """Yield the head of a Markdown table, with its rule, and its rows."""
    rule = "|".join("---:" if column.justify == "right" else "---" for column in table.columns)
    yield f"{_line(column.header for column in table.columns)}\n|{rule}|"
    for cells in zip(*(column.cells for column in table.columns), strict=True):
        yield _line(cells)


def _line(cells: Iterator[RenderableType] | Sequence[RenderableType]) -> str:
    return f"| {PADDING.join(map(escape, cells))} |"
