"""The report's section on debiasing: its files, and what its template is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from src.report import format
from src.report.findings import Findings
from src.report.folder import Folder
from src.report.study import Section
from src.studies.debiasing import answer, answer_figure, improved, sentences
from src.studies.debiasing.answer import NAMES
from src.studies.debiasing.change import IAT, table
from src.studies.debiasing.comparisons import changes
from src.studies.debiasing.job_pairs import kinds, methods


def section(findings: Findings, folder: Folder) -> Section | None:
    """Write the figure and the tables; None if nothing was debiased.

    Args:
        findings: of a sweep.
        folder: of the report.
    """
    found = context(findings, folder)
    if found is None:
        return None
    return Section(
        rows=pd.DataFrame(),
        templates=Path(__file__).with_name("templates"),
        context={"debiasing": found},
        body=("debiasing.html",),
        links=(("debiasing", "Debiasing"),),
    )


def context(findings: Findings, folder: Folder) -> dict[str, Any] | None:
    """Values of the template `debiasing.html`; figures and tables are written.

    Args:
        findings: of a sweep.
        folder: of the report.
    """
    # So-B-IT says itself what debiasing changes.
    if not methods(findings) or (len(findings.of("sobit")) and not any(map(len, kinds(findings).values()))):
        return None
    every = changes(findings)
    shown = answer.shown(every)
    found, score = answer.estimates(shown), answer.score(shown)
    counts = improved.improved(shown)
    told = table(every)
    folder.table("debiasing", told, "every number with and without debiasing, all readings")
    folder.table("debiasing-models", answer.table(found), "the same per model, and over all")
    if len(counts):
        folder.table("debiasing-improved", counts, "how many models came out less biased")
    lacking = [one for one in every if one.pair.reason]
    first = shown[0].pair.job if shown else {}
    rows = format.records(table([one for one in shown if not one.pair.reason]))
    return {
        "sentences": [sentences.sentence(found, method, score) for method in methods(findings)],
        "pictures": folder.pictures(answer_figure.figures(found, score)),
        "reading": f"protocol {first['protocol']}, seed {first['seed']}" if first else "",
        "readings": len({(one.pair.job["protocol"], one.pair.job["seed"]) for one in every}),
        "counts": format.records(counts),
        "heads": {name: head.replace(answer.SC_EAT, score) for name, head in NAMES.items()} | {IAT: "IAT"},
        "score": score,
        "measures": format.grouped(rows, "measure"),
        "lacking": [{**one.pair.job, "debias": one.pair.debias, "reason": one.reason} for one in lacking],
    }
