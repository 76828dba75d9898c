"""Write and print the results of an audit of captions: ratios, counts, correlations, figures."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from src.configs import CHECKOUT, LabelsConfig
from src.errors import redact
from src.report import tables
from src.report.drawing import save_drawing
from src.report.format import slugs
from src.studies.sobit.captions import figures
from src.studies.sobit.captions.counting import Audit
from src.studies.sobit.captions.files import File
from src.studies.sobit.captions.lexicon import NOUN, Lexicon, forms, name_forms
from src.studies.sobit.captions.mentions import AXES

RATIOS, COUNTS, CORRELATIONS = "ratios.csv", "counts.json", "correlations.csv"
# Maximum number of words, or of files, that the terminal lists.
MAX_LISTED = 12


@dataclass(frozen=True)
class Results:
    """The results of an audit of captions."""

    settings: Mapping[str, str]  # options of the command line, with the column of captions
    labels: LabelsConfig  # labels whose words name groups
    lexicon: Lexicon  # words and groups that were searched for
    files: list[File]  # files of captions
    audit: Audit  # counts of the captions
    ratios: pd.DataFrame  # table of ratios, see `ratios.table`
    # Correlations, see `associations.correlate`; None if no run is named.
    correlations: pd.DataFrame | None
    seconds: float  # duration, without figures


def folder(path: str) -> Path:
    """Return the default folder of the results, named after the file, folder or pattern."""
    name = Path(path).expanduser().resolve().stem or "captions"
    return CHECKOUT / "outputs" / "captions" / slugs([name])[name]


def write(results: Results, draft: Path) -> Path:
    """Write all files into an empty folder; return the path of counts.json."""
    results.ratios.to_csv(draft / RATIOS, index=False)
    if results.correlations is not None:
        results.correlations.to_csv(draft / CORRELATIONS, index=False)
    for drawing in figures.drawings(results.ratios):
        save_drawing(drawing, draft)
    text = json.dumps(summary(results), indent=2, ensure_ascii=False)
    (draft / COUNTS).write_text(text + "\n", encoding="utf-8")
    return draft / COUNTS


def summary(results: Results) -> dict[str, Any]:
    """Return everything but the ratios, for machines."""
    audit, lexicon = results.audit, results.lexicon
    counts, labels = audit.counts, results.labels
    words = lexicon.words[["word", "type"]].itertuples(index=False)
    return {
        "asked": {name: redact(value) for name, value in results.settings.items()},
        "rows": audit.rows,
        "captions": counts.captions,
        "broken": dict(audit.broken),
        "problems": audit.problems,
        "seconds": round(results.seconds, 3),
        "words": len(lexicon.words),
        "never_mentioned": never_mentioned(results),
        "naming_any_group": dict(zip(AXES, counts.named.tolist(), strict=True)),
        "naming": {
            axis: dict(zip(lexicon.members(axis), axis_counts.tolist(), strict=True))
            for axis in AXES
            for axis_counts in [counts.groups[lexicon.groups["axis"] == axis]]
        },
        "limits": figures.LIMITS,
        "files": [
            {"path": str(file.path), "rows": file.rows, **file.about}
            | ({"problem": file.problem} if file.problem else {})
            for file in results.files
        ],
        # Forms as listed, before case and hyphens are normalised.
        "looked_for": {
            "words": {f"{word} ({kind})": forms(word, kind == NOUN) for word, kind in words},
            "groups": {
                group: name_forms(group_words)
                for group, group_words in (labels.race_words | labels.gender_words).items()
            },
        },
    }


def never_mentioned(results: Results) -> list[str]:
    """Return the words that no caption mentions."""
    words = results.lexicon.words["word"]
    return list(words[results.audit.counts.words == 0].unique())


def print_results(results: Results) -> None:
    """Print the results and their limits on the terminal."""
    console = Console()
    audit = results.audit
    broken = ", ".join(f"{rows:,} {kind.replace('_', ' ')}" for kind, rows in audit.broken.items() if rows)
    title = f"{audit.counts.captions:,} captions: ratio to the group's share of all captions (95% interval)"
    console.print(tables.plain(figures.overview(results.ratios), title))
    if results.correlations is not None:
        run = results.correlations.iloc[0]
        comparison = f"captions against run {run['run']} ({run['model']}, debias {run['debias']})"
        console.print(tables.plain(figures.correlations(results.correlations), comparison))
    print(f"Rows: {audit.rows:,}; not captions: {broken or 'none'}.")
    for file, problem in list(audit.problems.items())[:MAX_LISTED]:
        print(f"Unreadable: {file}: {problem}")
    if len(audit.problems) > MAX_LISTED:
        print(f"Unreadable: {len(audit.problems) - MAX_LISTED} more files, in {COUNTS}")
    if unmentioned := never_mentioned(results):
        more = f" and {len(unmentioned) - MAX_LISTED} more" if len(unmentioned) > MAX_LISTED else ""
        listed = ", ".join(unmentioned[:MAX_LISTED]) + more
        print(f"Never mentioned: {len(unmentioned)} of {len(results.lexicon.words)} words: {listed}.")
    for limit in figures.LIMITS:
        print(f"- {limit}")
