"""Describe results in Markdown, for the descriptions of runs in MLflow."""

import re
from collections.abc import Iterator, Mapping, Sequence

import pandas as pd
from rich.console import RenderableType
from rich.table import Table

from src.report.study import load_report
from src.tracking import LIMIT_TAG

# Characters with a meaning in Markdown; an underscore within a word has no meaning.
SPECIAL = re.compile(r"([\\`*\[\]<>|])")
# Between two cells, because MLflow's pages draw tables without padding.
PADDING = " &nbsp;| "
# Number of characters reserved for the note on rows that are left out.
NOTE_LENGTH = 100


def describe(frames: Mapping[str, pd.DataFrame], dataset: str, lead: str = "", limit: int = LIMIT_TAG) -> str:
    """Return the conclusions and tables of analyses as Markdown, at most `limit` characters.

    `frames` are the analyses of jobs on one dataset by study (`load.combine_by_study`); `lead` is the first
    sentence. Rows of tables that exceed the limit are left out, and a note gives their number.
    """
    sentences, renderables = [f"{lead}\n"] if lead else [], list[RenderableType]()
    for study, analyses in frames.items():
        report = load_report(study)
        sentences += [f"- {escape(sentence)}" for sentence in report.conclusions(analyses)]
        renderables += report.terminal(analyses, dataset)
    text = "\n".join(sentences)
    for renderable in renderables:
        text = _append_renderable(text, renderable, limit)
    return text[:limit].strip()


def escape(text: object) -> str:
    r"""Escape a text so that Markdown displays it as it is, on one line.

    >>> escape("a|b <c>"), escape("two" + chr(10) + "lines of toy_s")
    ('a\\|b \\<c\\>', 'two lines of toy_s')
    """
    return SPECIAL.sub(r"\\\1", " ".join(str(text).split()))


def _append_renderable(text: str, renderable: RenderableType, limit: int) -> str:
    """Append a table with as many rows as fit, or a line of text."""
    if not isinstance(renderable, Table):
        return f"{text}\n\n{escape(renderable)}"
    title, caption = escape(renderable.title or ""), escape(renderable.caption or "")
    head, *rows = _format_table(renderable)
    start, end = f"{text}\n\n**{title}**\n\n{head}\n", f"\n\n{caption}" if caption else ""
    remaining = limit - len(start) - len(end) - NOTE_LENGTH
    fitting: list[str] = []
    for row in rows:
        remaining -= len(row) + 1
        if remaining < 0:
            break
        fitting.append(row)
    if omitted := len(rows) - len(fitting):
        end = f"\n\n*{omitted} of {len(rows)} rows are left out here; the run's files have all.*{end}"
    return start + "\n".join(fitting) + end


def _format_table(table: Table) -> Iterator[str]:
    """Yield the head of a Markdown table, with its rule, and its rows."""
    rule = "|".join("---:" if column.justify == "right" else "---" for column in table.columns)
    yield f"{_format_line(column.header for column in table.columns)}\n|{rule}|"
    for cells in zip(*(column.cells for column in table.columns), strict=True):
        yield _format_line(cells)


def _format_line(cells: Iterator[RenderableType] | Sequence[RenderableType]) -> str:
    return f"| {PADDING.join(map(escape, cells))} |"
