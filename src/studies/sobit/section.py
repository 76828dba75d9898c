"""The report's section on So-B-IT: its files, and what its template is given."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from src.report.drawing import Drawing
from src.report.findings import Findings, first_reading
from src.report.folder import Folder
from src.report.format import records
from src.report.study import Section
from src.studies.sobit import change_figure, debiasing_changes, word_rows
from src.studies.sobit.composition_figure import composition
from src.studies.sobit.heatmap import heatmaps, limit
from src.studies.sobit.skewed_words import skewed
from src.studies.sobit.strong_words import strong

# Models whose figures and words the page shows.
DETAILED = 8
TEMPLATES = Path(__file__).with_name("templates")


def section(findings: Findings, folder: Folder) -> Section:
    """Write figures and tables of So-B-IT.

    Args:
        findings: of a sweep with rows of So-B-IT.
        folder: of the report.
    """
    # The page allows no other script than this one.
    script = (TEMPLATES / "words.js").read_text(encoding="utf-8")
    return Section(
        rows=first_reading(findings.of("sobit")),
        templates=TEMPLATES,
        context={"sobit": {**context(findings, folder), "script": Markup(script)}},
        body=("sobit.html",),
        links=(("sobit", "So-B-IT"),),
        script=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def context(findings: Findings, folder: Folder) -> dict[str, Any]:
    """What the template `sobit.html` is given; figures and tables are written.

    Args:
        findings: of a sweep with rows of So-B-IT.
        folder: of the report.
    """
    every = findings.of("sobit")
    folder.table("sobit", every, "So-B-IT: every word, axis and group, all readings, to the last bit")
    rows, reading, others = word_rows.shown(word_rows.completed(every))
    found = word_rows.by_word(rows)
    told = word_rows.summary(found[found["axis"] != ""])
    folder.table("sobit-words", found, "So-B-IT: a row per word and axis of the shown reading")
    folder.table("sobit-models", told, "So-B-IT in short: per model and axis")
    models = [*dict.fromkeys(rows["model"])]
    end = limit(rows)
    detailed = [
        _model(rows[rows["model"] == name], found[found["model"] == name], end, number, folder)
        for number, name in enumerate(models[:DETAILED], 1)
    ]
    return {
        "reading": reading,
        "others": others,
        "words": rows["caption"].nunique(),
        "faces": word_rows.faces(rows),
        "named": word_rows.NAMED,
        "table": records(told),
        "models": detailed,
        "left": len(models) - len(detailed),
        "columns": word_rows.COLUMNS,
        "shares": word_rows.SHARES,
        "debiasing": _debiasing(findings, folder),
    }


def pictures(rows: pd.DataFrame, number: int) -> dict[str, list[Drawing]]:
    """The most skewed words, whose faces are nearest, the strongest and weakest; empty where not measured.

    Args:
        rows: `words.completed` of one model and reading.
        number: of the model, for the files' names.
    """
    every = word_rows.axes(rows)
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
    every = debiasing_changes.changes(findings)
    if every.empty:
        return None
    verdicts = debiasing_changes.verdicts(every)
    counts = debiasing_changes.counts(verdicts)
    keys = [*debiasing_changes.ABOUT, "caption"]
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
        drawn.append(change_figure.changed(own, which, f"sobit-debiasing-{number}"))
    # The axes of a word one below the other.
    mixed = told.loc[told["verdict"] == debiasing_changes.MIXED, keys].merge(shown, on=keys)
    protocol, seed, _ = readings[0]
    return {
        "sentences": [
            debiasing_changes.sentence(counts, method) for method in dict.fromkeys(counts["debias"])
        ],
        "reading": f"protocol {protocol}, seed {seed}",
        "others": len(readings) - 1,
        "reasons": [reason for reason in dict.fromkeys(shown["reason"]) if reason],
        "verdicts": debiasing_changes.VERDICTS,
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
