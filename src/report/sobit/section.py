"""The report's section on So-B-IT: its files, and what its template is given."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from src.report.cells import records
from src.report.drawing import Drawing
from src.report.findings import Findings
from src.report.folder import Folder
from src.report.sobit import changed, changes, words
from src.report.sobit.composition import composition
from src.report.sobit.heatmap import heatmaps, limit
from src.report.sobit.skewed import skewed
from src.report.sobit.strong import strong

# Models whose figures and words the page shows.
DETAILED = 8
SCRIPT = Path(__file__).parents[1] / "templates" / "words.js"


def context(findings: Findings, folder: Folder) -> dict[str, Any]:
    """What the template `sobit.html` is given; figures and tables are written.

    Args:
        findings: of a sweep with rows of So-B-IT.
        folder: of the report.
    """
    folder.table(
        "sobit", findings.sobit, "So-B-IT: every word, axis and group, all readings, to the last bit"
    )
    rows, reading, others = words.shown(words.completed(findings.sobit))
    found = words.by_word(rows)
    told = words.summary(found[found["axis"] != ""])
    folder.table("sobit-words", found, "So-B-IT: a row per word and axis of the shown reading")
    folder.table("sobit-models", told, "So-B-IT in short: per model and axis")
    models = [*dict.fromkeys(rows["model"])]
    end = limit(rows)
    detailed = [
        _model(rows[rows["model"] == name], found[found["model"] == name], end, number, folder)
        for number, name in enumerate(models[:DETAILED], 1)
    ]
    script = SCRIPT.read_text(encoding="utf-8")
    return {
        "reading": reading,
        "others": others,
        "words": rows["caption"].nunique(),
        "faces": words.faces(rows),
        "named": words.NAMED,
        "table": records(told),
        "models": detailed,
        "left": len(models) - len(detailed),
        "columns": words.COLUMNS,
        "shares": words.SHARES,
        "debiasing": _debiasing(findings, folder),
        # The page allows no script but this one.
        "script": Markup(script),
        "digest": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    }


def pictures(rows: pd.DataFrame, number: int) -> dict[str, list[Drawing]]:
    """The most skewed words, whose faces are nearest, the strongest and weakest; empty where not measured.

    Args:
        rows: `words.completed` of one model and reading.
        number: of the model, for the files' names.
    """
    every = words.axes(rows)
    drawn = {
        "skewed": [skewed(rows, axis, number) for axis in every],
        "nearest": [composition(rows, axis, number) for axis in every],
        "strong": [strong(rows, number)],
    }
    return {name: [one for one in parts if one] for name, parts in drawn.items()}


def _model(
    rows: pd.DataFrame, found: pd.DataFrame, end: float, number: int, folder: Folder
) -> dict[str, Any]:
    drawn = {name: folder.pictures(drawings) for name, drawings in pictures(rows, number).items()}
    return {
        "name": str(rows["model"].iloc[0]),
        **drawn,
        "heatmaps": folder.pictures(heatmaps(rows, end, number)),
        "rows": records(found),
    }


def _debiasing(findings: Findings, folder: Folder) -> dict[str, Any] | None:
    """What debiasing changed; None where no job has a counterpart without."""
    every = changes.changes(findings)
    if every.empty:
        return None
    verdicts = changes.verdicts(every)
    counts = changes.counts(verdicts)
    keys = [*changes.ABOUT, "caption"]
    folder.table(
        "sobit-debiasing",
        every.merge(verdicts[[*keys, "verdict"]], on=keys),
        "So-B-IT: what debiasing changes, every word",
    )
    folder.table("sobit-verdicts", counts, "the same counted")
    readings = [*every[["protocol", "seed", "taxonomy"]].drop_duplicates().itertuples(index=False, name=None)]
    shown, told, counts = (_of(frame, readings[0]) for frame in (every, verdicts, counts))
    drawn = []
    pairs = [*shown.groupby(["model", "debias"], sort=False)]
    for number, ((model, debias), own) in enumerate(pairs[:DETAILED], 1):
        which = told[(told["model"] == model) & (told["debias"] == debias)]
        drawn.append(changed.changed(own, which, f"sobit-debiasing-{number}"))
    # The axes of a word one below the other.
    mixed = told.loc[told["verdict"] == changes.MIXED, keys].merge(shown, on=keys)
    protocol, seed, _ = readings[0]
    return {
        "sentences": [changes.sentence(counts, method) for method in dict.fromkeys(counts["debias"])],
        "reading": f"protocol {protocol}, seed {seed}",
        "others": len(readings) - 1,
        "reasons": [reason for reason in dict.fromkeys(shown["reason"]) if reason],
        "verdicts": changes.VERDICTS,
        "counts": records(counts),
        "pictures": folder.pictures([one for one in drawn if one]),
        "left": max(0, len(pairs) - DETAILED),
        "mixed": records(mixed),
    }


def _of(frame: pd.DataFrame, reading: tuple[Any, ...]) -> pd.DataFrame:
    protocol, seed, taxonomy = reading
    same = (frame["protocol"] == protocol) & (frame["seed"] == seed) & (frame["taxonomy"] == taxonomy)
    found: pd.DataFrame = frame[same]
    return found
