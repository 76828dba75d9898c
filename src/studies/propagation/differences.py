"""Compare models and groups by the differences of their levels and rhos (docs/methods.md, section 6.2)."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import pandas as pd

from src.metrics import benjamini_hochberg
from src.report.findings import Findings
from src.studies.propagation.combined import select_main_analyses
from src.studies.propagation.estimates import LEVEL, RHO, JobEstimates, compare_all
from src.studies.shared.draws import StimulusHashes

# Columns of both tables of differences; `difference` is the difference of rhos, with `ci_low` and `ci_high`.
RHO_COLUMNS = ["rho_first", "rho_second", "difference", "ci_low", "ci_high", "delta_p"]
LEVEL_COLUMNS = [
    "level_first",
    "level_second",
    "level_delta",
    "level_delta_low",
    "level_delta_high",
    "level_delta_p",
]
SHARED_COLUMNS = ["first", "second", *LEVEL_COLUMNS, "level_delta_q", *RHO_COLUMNS, "q"]
MODEL_COLUMNS = ["exp", "paper", "stratum", *SHARED_COLUMNS, "config_first", "config_second", "reason"]
GROUP_COLUMNS = ["exp", "paper", "model", *SHARED_COLUMNS, "config", "reason"]
# The rhos of two analyses are compared if the SDs of their intrinsic scores differ by less than this factor.
MAX_SD_RATIO = 1.5

Analysis = dict[Any, Any]  # row of the analyses


def compare_models(findings: Findings, estimates: JobEstimates) -> pd.DataFrame:
    """Compare pairs of models on the same experiment and stratum (columns: `MODEL_COLUMNS`).

    Analyses are of the first specification. Interval and p are from the jackknife over clusters of targets,
    each left out of both models at once; q is p adjusted by Benjamini and Hochberg's procedure over the
    table. `reason` explains missing values: models with different targets or sets A and B are not compared;
    rhos are not compared if one is at its ceiling or their intrinsic scores have different ranges.
    """
    stimuli, rows = StimulusHashes(findings), []
    for _, stratum_rows in select_main_analyses(findings).groupby(["exp", "paper", "stratum"], sort=False):
        analyses, by_stimuli = stratum_rows.to_dict("records"), defaultdict(list)
        for index, analysis in enumerate(analyses):
            by_stimuli[stimuli.hash_stimuli(analysis["config"], analysis["stratum"])].append(index)
        compared: dict[tuple[int, int], dict[str, Any]] = {}
        for indices in by_stimuli.values():
            compared |= _compare_all(estimates, analyses, indices)
        for pair in combinations(range(len(analyses)), 2):
            first, second = (analyses[index] for index in pair)
            row = _subtract(first, second, "model", ("exp", "paper", "stratum"))
            row |= {"config_first": first["config"], "config_second": second["config"]}
            rows.append(row | compared.get(pair, {"reason": "different targets, or different A and B"}))
    return _add_q(pd.DataFrame(rows, columns=MODEL_COLUMNS))


def compare_groups(findings: Findings, estimates: JobEstimates) -> pd.DataFrame:
    """Compare pairs of groups within an experiment and model (columns: `GROUP_COLUMNS`).

    The corpus, A and B are taken as fixed; clusters of both groups, such as a race word in labels, are left
    out of both at once. `reason` and q are as in `compare_models`.
    """
    rows = []
    for _, group_rows in (
        select_main_analyses(findings).dropna(subset=["group"]).groupby("config", sort=False)
    ):
        analyses = group_rows.to_dict("records")
        for (first, second), compared in _compare_all(estimates, analyses, range(len(analyses))).items():
            shared = ("exp", "paper", "model", "config")
            rows.append(_subtract(analyses[first], analyses[second], "group", shared) | compared)
    return _add_q(pd.DataFrame(rows, columns=GROUP_COLUMNS))


def _add_q(table: pd.DataFrame) -> pd.DataFrame:
    q = {
        "q": benjamini_hochberg(table["delta_p"]),
        "level_delta_q": benjamini_hochberg(table["level_delta_p"]),
    }
    return table.assign(**q)


def _subtract(first: Analysis, second: Analysis, column: str, shared: Sequence[str]) -> dict[str, Any]:
    row = {"first": first[column], "second": second[column], **{name: first[name] for name in shared}}
    row |= {
        "rho_first": first["rho"],
        "rho_second": second["rho"],
        "difference": first["rho"] - second["rho"],
    }
    levels = [analysis.get("level", float("nan")) for analysis in (first, second)]
    row |= {"level_first": levels[0], "level_second": levels[1], "level_delta": levels[0] - levels[1]}
    return row


def _compare_all(
    estimates: JobEstimates, analyses: Sequence[Analysis], indices: Sequence[int]
) -> dict[tuple[int, int], dict[str, Any]]:
    """Compare all pairs of some analyses; return intervals, p and `reason` by the indices of the pair."""
    results: dict[tuple[int, int], dict[str, Any]] = {
        (first, second): {"reason": explain_incomparable(analyses[first], analyses[second])}
        for first, second in combinations(indices, 2)
    }
    for kind, prefix, p in ((RHO, "ci_", "delta_p"), (LEVEL, "level_delta_", "level_delta_p")):
        known = {
            index: estimate
            for index in indices
            if (estimate := estimates.of(analyses[index]["config"], analyses[index], kind)) is not None
        }
        pairs = [pair for pair in combinations(known, 2) if kind == LEVEL or not results[pair]["reason"]]
        for pair, result in compare_all(known, pairs, is_correlation=kind == RHO).items():
            results[pair] |= {f"{prefix}low": result.low, f"{prefix}high": result.high, p: result.p}
    return results


def explain_incomparable(first: Analysis, second: Analysis) -> str:
    """Explain why the rhos of two analyses are not compared; empty if they are."""
    if any(analysis.get("ceiling") in (True, "True", 1.0) for analysis in (first, second)):
        return "at the ceiling: read the level"
    spreads = [analysis.get("sd_measured", float("nan")) for analysis in (first, second)]
    if max(spreads) >= MAX_SD_RATIO * min(spreads):
        return "range: the SDs of the intrinsic score differ too much"
    return ""
