"""The folder of a report: its figures and tables as files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from src.report.drawing import Drawing, Picture, keep


class Folder:
    """Writes `figures/` and `tables/`.

    Attributes:
        tables: name and content of each file below `tables/`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tables: list[tuple[str, str]] = []
        for below in ("figures", "tables"):
            (path / below).mkdir()

    def table(self, name: str, frame: pd.DataFrame, said: str) -> None:
        """Write a table as CSV; numbers come back to the last bit."""
        self.text(f"{name}.csv", frame.to_csv(index=False), said)

    def text(self, name: str, text: str, said: str) -> None:
        """Write a file below `tables/`."""
        (self.path / "tables" / name).write_text(text, encoding="utf-8", newline="")
        self.tables.append((name, said))

    def picture(self, drawing: Drawing) -> Picture:
        """Write a figure's files."""
        return keep(drawing, self.path / "figures")

    def pictures(self, drawings: Sequence[Drawing]) -> list[Picture]:
        """Write figures' files."""
        return [self.picture(drawing) for drawing in drawings]
