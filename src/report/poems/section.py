"""The report's section on poems about faces: its files, and what its template is given."""

from __future__ import annotations

from typing import Any

import pandas as pd

from src.report.cells import records, slugs
from src.report.findings import of_reading, readings
from src.report.folder import Folder
from src.report.poems import figure

# Models whose figures and tables the page shows.
DETAILED = 8


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
    drawings = [figure.pairs(apart, name=f"poems-{slug}", title=f"Poems of {model}")] if len(apart) else []
    return {
        "name": model,
        "pictures": folder.pictures(drawings),
        "rows": records(own),
        "most": int(own["most"].iloc[0]),
        "empty": sorted({f"{row['pool']}, {row['shared']}" for row in records(own) if not row["pool_size"]}),
    }
