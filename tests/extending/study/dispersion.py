"""Measure how far the faces of a group lie from their mean: a study in a single file, with a section."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from rich.text import Text

from src.configs import ExpConfig
from src.configs.fields import bounded_number
from src.errors import InputError
from src.report.findings import first_specification
from src.report.format import to_records
from src.report.study import Section, StudyReport
from src.studies.protocol import AnalysisTables, Study


@dataclass
class DispersionConfig(ExpConfig):
    """Fields of the experiment."""

    min_faces: int = bounded_number(2, default=2)  # minimum number of faces per group


def check(cfg, tables):
    """Check that each group has enough faces."""
    for group, size in tables["faces"].frame["group"].value_counts().items():
        if size < cfg.exp.min_faces:
            raise InputError(
                f"exp.options.min_faces={cfg.exp.min_faces}: expected at least as many faces of each group, "
                f"got {size} of {group!r}. Lower it, or add faces."
            )


def run(cfg, tables, vectors):
    """Measure 1 − the length of each group's mean vector."""
    frame, unit = tables["faces"].frame, vectors["faces"]
    rows = [
        {"group": group, "n": len(faces), "dispersion": 1 - float(unit[faces.index].mean(0).norm())}
        for group, faces in frame.groupby("group")
    ]
    return AnalysisTables(pd.DataFrame(rows), {})


def section(findings, folder):
    """Write the table of dispersions; return the section of the report."""
    dispersions = findings.of("dispersion:STUDY")
    folder.write_table("dispersion", dispersions, "dispersion of each group")
    return Section(
        rows=first_specification(dispersions),
        templates=Path(__file__).parent,
        context={"rows": to_records(dispersions)},
        body=("dispersion.html",),
        links=(("dispersion", "Dispersion"),),
    )


def terminal(analyses, dataset):
    """Return the line of the terminal: the mean dispersion."""
    return [Text(f"{dataset}: dispersion {analyses['dispersion'].mean():.3f} over {len(analyses)} groups")]


STUDY = Study(
    name="dispersion",
    roles=lambda _: ("faces",),
    check=check,
    run=run,
    protocol_fields=lambda *_: frozenset(),
    metrics=lambda result: {"dispersion": float(result.analyses["dispersion"].mean())},
    report=StudyReport(section=section, terminal=terminal),
    config=DispersionConfig,
    version=1,
)
