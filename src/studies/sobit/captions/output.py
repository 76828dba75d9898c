"""What an audit of captions leaves: ratios.csv, counts.json, correlations.csv, figures; and what it says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from src.configs import CHECKOUT, LabelsConfig
from src.errors import masked
from src.report import tables
from src.report.drawing import keep
from src.report.format import slugs
from src.studies.sobit.captions import figures
from src.studies.sobit.captions.counting import Audit
from src.studies.sobit.captions.files import File
from src.studies.sobit.captions.lexicon import NOUN, Lexicon, forms, names
from src.studies.sobit.captions.mentions import AXES

RATIOS, COUNTS, CORRELATIONS = "ratios.csv", "counts.json", "correlations.csv"
# Words in one line of the terminal.
LISTED = 12


@dataclass(frozen=True)
class Results:
    """All that is known at the end.

    Attributes:
        said: what was asked for.
        labels: whose words name groups.
        lexicon: what was looked for.
        files: where.
        audit: what was counted.
        ratios: see `ratios.table`.
        correlations: see `associations.correlate`; None where no run is named.
        seconds: that it took, figures not included.
    """

    said: Mapping[str, str]
    labels: LabelsConfig
    lexicon: Lexicon
    files: list[File]
    audit: Audit
    ratios: pd.DataFrame
    correlations: pd.DataFrame | None
    seconds: float


def folder(path: str) -> Path:
    """Where results go unless somebody says: named by the file or folder, or by the pattern."""
    name = Path(path).expanduser().resolve().stem or "captions"
    return CHECKOUT / "outputs" / "captions" / slugs([name])[name]


def write(results: Results, draft: Path) -> Path:
    """Write all files into an empty folder; gives the path of counts.json."""
    results.ratios.to_csv(draft / RATIOS, index=False)
    if results.correlations is not None:
        results.correlations.to_csv(draft / CORRELATIONS, index=False)
    for drawing in figures.drawings(results.ratios):
        keep(drawing, draft)
    text = json.dumps(summary(results), indent=2, ensure_ascii=False)
    (draft / COUNTS).write_text(text + "\n", encoding="utf-8")
    return draft / COUNTS


def summary(results: Results) -> dict[str, Any]:
    """Everything but the ratios, for machines."""
    audit, lexicon = results.audit, results.lexicon
    counts = audit.counts
    return {
        "asked": {name: masked(value) for name, value in results.said.items()},
        "rows": audit.rows,
        "captions": counts.captions,
        "broken": dict(audit.broken),
        "problems": audit.problems,
        "seconds": round(results.seconds, 3),
        "words": len(lexicon.words),
        "never_mentioned": never(results),
        "naming_any_group": dict(zip(AXES, counts.named.tolist(), strict=True)),
        "naming": {
            axis: dict(zip(lexicon.members(axis), own.tolist(), strict=True))
            for axis in AXES
            for own in [counts.groups[(lexicon.groups["axis"] == axis).to_numpy()]]
        },
        "limits": figures.LIMITS,
        "files": [
            {"path": str(file.path), "rows": file.rows, **file.about}
            | ({"problem": file.problem} if file.problem else {})
            for file in results.files
        ],
        "looked_for": looked_for(results),
    }


def looked_for(results: Results) -> dict[str, dict[str, list[str]]]:
    """What stands for each word and each group in a caption, before case and hyphens are made plain."""
    words = results.lexicon.words
    kinds = zip(words["word"], words["type"], strict=True)
    named = {**results.labels.race_words, **results.labels.gender_words}
    return {
        "words": {f"{word} ({kind})": forms(word, kind == NOUN) for word, kind in kinds},
        "groups": {group: names(own) for group, own in named.items()},
    }


def never(results: Results) -> list[str]:
    """Words that no caption mentions."""
    words = results.lexicon.words
    return [str(word) for word in dict.fromkeys(words.loc[results.audit.counts.words == 0, "word"])]


def tell(results: Results) -> None:
    """Say on the terminal what was found, and what it is not."""
    console = Console()
    audit = results.audit
    broken = ", ".join(f"{rows:,} {kind.replace('_', ' ')}" for kind, rows in audit.broken.items() if rows)
    title = f"{audit.counts.captions:,} captions: ratio to the group's share of all captions (95% interval)"
    console.print(tables.plain(figures.overview(results.ratios), title))
    if results.correlations is not None:
        about = results.correlations.iloc[0]
        named = f"captions against run {about['run']} ({about['model']}, debias {about['debias']})"
        console.print(tables.plain(figures.correlations(results.correlations), named))
    print(f"Rows: {audit.rows:,}; no captions: {broken or 'none'}.")
    for file, problem in list(audit.problems.items())[:LISTED]:
        print(f"Unreadable: {file}: {problem}")
    if len(audit.problems) > LISTED:
        print(f"Unreadable: {len(audit.problems) - LISTED} more files, in {COUNTS}")
    if unsaid := never(results):
        more = f" and {len(unsaid) - LISTED} more" if len(unsaid) > LISTED else ""
        listed = ", ".join(unsaid[:LISTED]) + more
        print(f"Never mentioned: {len(unsaid)} of {len(results.lexicon.words)} words: {listed}.")
    for limit in figures.LIMITS:
        print(f"- {limit}")
