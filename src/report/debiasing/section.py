"""The report's section on debiasing: its files, and what its template is given."""

from __future__ import annotations

from typing import Any

from src.report import cells, sections
from src.report.debiasing import answer, changes, figure, improved, sentences
from src.report.debiasing.answer import NAMES
from src.report.debiasing.change import IAT, table
from src.report.debiasing.pairs import kinds, methods
from src.report.findings import Findings
from src.report.folder import Folder

HEADS = {**NAMES, IAT: "IAT"}


def section(findings: Findings, folder: Folder) -> dict[str, Any] | None:
    """Write the section's figure and tables; None where nothing was debiased.

    Args:
        findings: of a sweep.
        folder: of the report.
    """
    # So-B-IT says itself what debiasing changes.
    if not methods(findings) or (len(findings.sobit) and not any(map(len, kinds(findings).values()))):
        return None
    every = changes(findings)
    shown = answer.shown(every)
    found = answer.estimates(shown)
    counts = improved.improved(shown)
    told = table(every)
    folder.table("debiasing", told, "every number with and without debiasing, all readings")
    folder.table("debiasing-models", answer.table(found), "the same per model, and over all")
    if len(counts):
        folder.table("debiasing-improved", counts, "how many models came out less biased")
    lacking = [one for one in every if one.pair.reason]
    first = shown[0].pair.job if shown else {}
    rows = cells.records(table([one for one in shown if not one.pair.reason]))
    return {
        "sentences": [sentences.sentence(found, method) for method in methods(findings)],
        "pictures": folder.pictures(figure.figures(found)),
        "reading": f"protocol {first['protocol']}, seed {first['seed']}" if first else "",
        "readings": len({(one.pair.job["protocol"], one.pair.job["seed"]) for one in every}),
        "counts": cells.records(counts),
        "heads": HEADS,
        "measures": sections.grouped(rows, "measure"),
        "lacking": [{**one.pair.job, "debias": one.pair.debias, "reason": one.reason} for one in lacking],
    }
