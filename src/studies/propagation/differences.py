"""Compute differences of models and of groups with their uncertainty (docs/methods.md, section 6.2)."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import pandas as pd

from src.metrics import benjamini_hochberg
from src.report.findings import Findings
from src.studies.propagation.combined import main_analyses
from src.studies.propagation.estimates import LEVEL, RHO, JobEstimates, compare_all
from src.studies.shared.draws import StimulusHashes

# Columns of rho and of level in both tables of differences: `ci_low` and `ci_high` are those of `difference`.
OF_RHO = ["rho_first", "rho_second", "difference", "ci_low", "ci_high", "delta_p"]
OF_LEVEL = [
    "level_first",
    "level_second",
    "level_delta",
    "level_delta_low",
    "level_delta_high",
    "level_delta_p",
]
SHARED = ["first", "second", *OF_LEVEL, "level_delta_q", *OF_RHO, "q"]
MODELS = ["exp", "paper", "stratum", *SHARED, "config_first", "config_second", "reason"]
GROUPS = ["exp", "paper", "model", *SHARED, "config", "reason"]
# The SDs of SC-EAT of two analyses whose rho are compared differ by less than this factor.
MAX_SD_RATIO = 1.5

Analysis = dict[Any, Any]  # row of the analyses


def models(findings: Findings, estimates: JobEstimates) -> pd.DataFrame:
    """Compare pairs of models on the same experiment and stratum, under the first specification (`MODELS`).

    Interval and p are from the jackknife over clusters of targets, which leave both models at once; q is
    Benjamini-Hochberg's over the p of this table. `reason` explains what is missing: models with other
    targets or other sets A and B are not compared, nor is rho where one is at its ceiling or ranges differ.
    """
    stimuli, rows = StimulusHashes(findings), []
    for _, stratum_rows in main_analyses(findings).groupby(["exp", "paper", "stratum"], sort=False):
        analyses, by_stimuli = stratum_rows.to_dict("records"), defaultdict(list)
        for number, each in enumerate(analyses):
            by_stimuli[stimuli.stimuli_hash(each["config"], each["stratum"])].append(number)
        compared: dict[tuple[int, int], dict[str, Any]] = {}
        for numbers in by_stimuli.values():
            compared |= _compare_all(estimates, analyses, numbers)
        for pair in combinations(range(len(analyses)), 2):
            first, second = (analyses[number] for number in pair)
            row = _difference(first, second, "model", ("exp", "paper", "stratum"))
            row |= {"config_first": first["config"], "config_second": second["config"]}
            rows.append(row | compared.get(pair, {"reason": "other targets, or other A and B"}))
    return _with_q(pd.DataFrame(rows, columns=MODELS))


def groups(findings: Findings, estimates: JobEstimates) -> pd.DataFrame:
    """Compare pairs of groups within an experiment and model, under the first specification (`GROUPS`).

    The corpus, A and B are taken as fixed; clusters that both groups share, as words of labels, leave both at
    once. `reason` and q are as in `models`.
    """
    rows = []
    for _, group_rows in main_analyses(findings).dropna(subset=["group"]).groupby("config", sort=False):
        analyses = group_rows.to_dict("records")
        for (first, second), compared in _compare_all(estimates, analyses, range(len(analyses))).items():
            shared = ("exp", "paper", "model", "config")
            rows.append(_difference(analyses[first], analyses[second], "group", shared) | compared)
    return _with_q(pd.DataFrame(rows, columns=GROUPS))


def _with_q(table: pd.DataFrame) -> pd.DataFrame:
    q = {
        "q": benjamini_hochberg(table["delta_p"]),
        "level_delta_q": benjamini_hochberg(table["level_delta_p"]),
    }
    return table.assign(**q)


def _difference(first: Analysis, second: Analysis, column: str, shared: Sequence[str]) -> dict[str, Any]:
    row = {"first": first[column], "second": second[column], **{name: first[name] for name in shared}}
    row |= {
        "rho_first": first["rho"],
        "rho_second": second["rho"],
        "difference": first["rho"] - second["rho"],
    }
    levels = [each.get("level", float("nan")) for each in (first, second)]
    row |= {"level_first": levels[0], "level_second": levels[1], "level_delta": levels[0] - levels[1]}
    return row


def _compare_all(
    estimates: JobEstimates, analyses: Sequence[Analysis], numbers: Sequence[int]
) -> dict[tuple[int, int], dict[str, Any]]:
    """Compare all pairs of the numbered analyses."""
    results: dict[tuple[int, int], dict[str, Any]] = {
        (first, second): {"reason": incomparable(analyses[first], analyses[second])}
        for first, second in combinations(numbers, 2)
    }
    for kind, prefix, p in ((RHO, "ci_", "delta_p"), (LEVEL, "level_delta_", "level_delta_p")):
        of_kind = {
            number: estimates.of(analyses[number]["config"], analyses[number], kind) for number in numbers
        }
        known = {number: estimate for number, estimate in of_kind.items() if estimate is not None}
        pairs = [pair for pair in combinations(known, 2) if kind == LEVEL or not results[pair]["reason"]]
        for pair, result in compare_all(known, pairs, is_correlation=kind == RHO).items():
            results[pair] |= {f"{prefix}low": result.low, f"{prefix}high": result.high, p: result.p}
    return results


def incomparable(first: Analysis, second: Analysis) -> str:
    """Explain why the rho of two analyses are not compared; empty where they are."""
    if any(each.get("ceiling") in (True, "True", 1.0) for each in (first, second)):
        return "at the ceiling: read the level"
    spreads = [each.get("sd_measured", float("nan")) for each in (first, second)]
    if max(spreads) >= MAX_SD_RATIO * min(spreads):
        return "range: the SDs of the intrinsic score differ too much"
    return ""
