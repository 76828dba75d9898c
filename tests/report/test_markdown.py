"""Check descriptions of runs: conclusions and tables as Markdown, within the limit of a tag."""

import re

import pandas as pd
import pytest
from rich.table import Table
from rich.text import Text

from src.report import markdown
from src.report.study import StudyReport


@pytest.fixture
def described(monkeypatch):
    """Return a function that describes a table of as many rows as given."""

    def describe(rows, **options):
        table = Table(title="lab: ρ", caption="mean")
        table.add_column("model")
        table.add_column(Text("ρ|x"), justify="right")
        for number in range(rows):
            table.add_row(f"m_{number}", Text("<b>0.5</b>"))
        report = StudyReport(
            conclusions=lambda analyses: [f"{len(analyses)} analyses."],
            terminal=lambda *_: [table, "and a line"],
        )
        monkeypatch.setattr(markdown, "report_of", lambda _: report)
        monkeypatch.setattr(markdown.load, "by_study", lambda frames: {"study": pd.concat(frames)})
        return markdown.describe([pd.DataFrame({"rho": [0.5, 0.6]})], "lab", **options)

    return describe


def test_a_description_says_the_result_in_words_with_a_table(described):
    assert described(1, lead="Jobs: 1 finished.") == "\n".join(
        [
            *("Jobs: 1 finished.", "", "- 2 analyses.", "", "**lab: ρ**", ""),
            *(
                r"| model &nbsp;| ρ\|x |",
                "|---|---:|",
                r"| m_0 &nbsp;| \<b\>0.5\</b\> |",
                "",
                "mean",
                "",
                "and a line",
            ),
        ]
    )


@pytest.mark.parametrize("rows", [50, 5000])
def test_a_table_that_is_too_long_is_cut_by_rows_with_a_note(described, rows):
    text = described(rows, limit=1000)
    assert len(text) <= 1000
    omitted, total = map(int, re.search(r"\*(\d+) of (\d+) rows are left out", text).groups())
    assert total == rows
    assert text.count("| m_") == rows - omitted > 10
    assert text.endswith("and a line")
