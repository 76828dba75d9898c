"""Write a report's figures and tables as files of its folder."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from src.report.drawing import Drawing, Picture, save_drawing


class ReportFolder:
    """The folder of a report, with `figures/` and `tables/`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tables: list[tuple[str, str]] = []  # file name and description of each written table
        for name in ("figures", "tables"):
            (path / name).mkdir()

    def write_table(self, name: str, frame: pd.DataFrame, description: str) -> None:
        """Write a table as CSV, with floats that read back exactly."""
        self.write_text(f"{name}.csv", frame.to_csv(index=False), description)

    def write_text(self, name: str, text: str, description: str) -> None:
        """Write a text file into `tables/`."""
        (self.path / "tables" / name).write_text(text, encoding="utf-8", newline="")
        self.tables.append((name, description))

    def write_figure(self, drawing: Drawing) -> Picture:
        """Write the files of a figure; return the picture for the page."""
        return save_drawing(drawing, self.path / "figures")

    def write_figures(self, drawings: Sequence[Drawing]) -> list[Picture]:
        """Write the files of figures; return their pictures for the page."""
        return [self.write_figure(drawing) for drawing in drawings]
