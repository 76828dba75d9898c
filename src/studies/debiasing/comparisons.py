"""What debiasing changes: each number of a job against that of the same job without.

See docs/methods.md, section 6.11.

Neither paper asked: does removing directions of groups lower what is retrieved, or only what is measured?
"""

from __future__ import annotations

from collections.abc import Sequence

from src.report.findings import Findings
from src.studies.debiasing.audit_changes import accuracy, audit
from src.studies.debiasing.change import ACCURACY, CLES, IAT, RHO, Change
from src.studies.debiasing.job_pairs import pairs
from src.studies.debiasing.rho_changes import propagation
from src.studies.shared.draws import Draws

# What stands for a job that is not there.
OF_KIND = {"propagation": RHO, "audit": CLES, "zero_shot": ACCURACY}


def changes(findings: Findings) -> list[Change]:
    """All that debiasing changes in a sweep, every reading; jobs without counterpart with their reason."""
    draws = Draws(findings)
    found: list[Change] = []
    for pair in pairs(findings):
        if pair.reason:
            found.append(Change(pair, OF_KIND[pair.kind], reason=pair.reason))
        elif pair.kind == "propagation":
            found += propagation(findings, draws, pair)
        elif pair.kind == "audit":
            found += audit(findings, draws, pair)
        else:
            found.append(accuracy(findings, draws, pair))
    return _once(found)


def _once(found: Sequence[Change]) -> list[Change]:
    # Two audits ask for the same words, one for CLES, one for the IAT; each number is told once.
    told: dict[tuple[object, ...], str] = {}
    for one in sorted(found, key=lambda one: (one.pair.job["paper"] == "IAT") != (one.measure == IAT)):
        if one.attribute:
            told.setdefault(_number(one), one.pair.job["exp"])
    return [one for one in found if told.get(_number(one), one.pair.job["exp"]) == one.pair.job["exp"]]


def _number(one: Change) -> tuple[object, ...]:
    job = (one.pair.job[name] for name in ("model", "dataset", "protocol", "seed"))
    return (*job, one.pair.debias, one.measure, one.attribute)
