"""The report's section on poems about faces: its files, and what its template is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from src.report.findings import Findings, first_reading, of_reading, readings
from src.report.folder import Folder
from src.report.format import records, slugs
from src.report.study import Section
from src.studies.poems import figures

# Models whose figures and tables the page shows.
DETAILED = 8


def section(findings: Findings, folder: Folder) -> Section:
    """Write figures and tables of poems.

    Args:
        findings: of a sweep with poems.
        folder: of the report.
    """
    every = findings.of("poems")
    return Section(
        rows=first_reading(every),
        templates=Path(__file__).with_name("templates"),
        context={"poems": context(every, folder)},
        body=("poems.html",),
        links=(("poems", "Poems about faces"),),
    )


def context(found: pd.DataFrame, folder: Folder) -> dict[str, Any]:
    """What the template `poems.html` is given; figures and tables are written.

    Args:
        found: rows of analyses.csv of poems, every reading.
        folder: of the report.
    """
    folder.table("poems", found, "poems about faces: every pool and pair of groups, all readings")
    first, *others = readings(found)
    shown = of_reading(found, first)
    models = [*dict.fromkeys(shown["model"])]
    names = slugs(models)
    return {
        "protocol": first[0],
        "seed": first[1],
        "others": len(others),
        "left": max(0, len(models) - DETAILED),
        "models": [
            _model(shown[shown["model"] == model], str(model), names[model], folder)
            for model in models[:DETAILED]
        ],
    }


def _model(own: pd.DataFrame, model: str, slug: str, folder: Folder) -> dict[str, Any]:
    apart = own[(own["shared"] == "removed") & own["cles"].notna()]
    drawings = [figures.pairs(apart, name=f"poems-{slug}", title=f"Poems of {model}")] if len(apart) else []
    return {
        "name": model,
        "pictures": folder.pictures(drawings),
        "rows": records(own),
        "most": int(own["most"].iloc[0]),
        "empty": sorted({f"{row['pool']}, {row['shared']}" for row in records(own) if not row["pool_size"]}),
    }
