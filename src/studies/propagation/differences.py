"""Compute differences of models and of groups with their uncertainty (docs/methods.md, section 6.5)."""

from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from src.metrics import benjamini_hochberg
from src.report.findings import Findings
from src.studies.propagation.combined import main_analyses
from src.studies.shared.draws import Draws, interval, p_of_difference

# Columns of the tables of differences: shared by both tables, of models, and of groups.
SHARED = ["first", "second", "rho_first", "rho_second", "difference", "ci_low", "ci_high"]
MODELS = ["exp", "paper", "stratum", *SHARED, "p_placebo", "q", "config_first", "config_second", "reason"]
GROUPS = ["exp", "paper", "model", *SHARED, "config"]

Analysis = Mapping[Hashable, Any]  # row of the analyses


def models(findings: Findings) -> pd.DataFrame:
    """Compare pairs of models on the same experiment and stratum, under the first specification (`MODELS`).

    The interval is from the bootstrap paired draw by draw. p is two-sided: the difference of models on the
    placebo's units against their differences under the same permutations; q is Benjamini-Hochberg's over
    the p of this table. `reason` explains missing intervals and p: models with other targets or other sets
    A and B share no draws.
    """
    draws = Draws(findings)
    rows = []
    for _, stratum_rows in main_analyses(findings).groupby(["exp", "paper", "stratum"], sort=False):
        for first, second in combinations(stratum_rows.to_dict("records"), 2):
            row = _difference(first, second, "model", ("exp", "paper", "stratum"))
            row |= {"config_first": first["config"], "config_second": second["config"]}
            rows.append(row | _uncertainty(draws, first, second))
    table = pd.DataFrame(rows, columns=MODELS)
    return table.assign(q=benjamini_hochberg(table["p_placebo"]))


def groups(findings: Findings) -> pd.DataFrame:
    """Compare pairs of groups within an experiment and model, under the first specification.

    The corpus, A and B are taken as fixed. The bootstrap is unpaired: the second group's draws are shifted by
    one, as two groups may share weights (those of a race word). Columns are `GROUPS`.
    """
    draws = Draws(findings)
    rows = []
    for config, group_rows in main_analyses(findings).dropna(subset=["group"]).groupby("config", sort=False):
        for first, second in combinations(group_rows.to_dict("records"), 2):
            bootstraps = [draws.of(config, row["stratum"], "bootstrap") for row in (first, second)]
            low, high = interval(bootstraps[0], np.roll(bootstraps[1], -1))
            row = _difference(first, second, "group", ("exp", "paper", "model", "config"))
            rows.append(row | {"ci_low": low, "ci_high": high})
    return pd.DataFrame(rows, columns=GROUPS)


def _difference(first: Analysis, second: Analysis, column: str, shared: Sequence[str]) -> dict[str, Any]:
    row = {"first": first[column], "second": second[column], **{name: first[name] for name in shared}}
    row |= {"rho_first": first["rho"], "rho_second": second["rho"]}
    return row | {"difference": first["rho"] - second["rho"]}


def _uncertainty(draws: Draws, first: Analysis, second: Analysis) -> dict[str, Any]:
    stratum, configs = first["stratum"], (first["config"], second["config"])
    if draws.stimuli_hash(configs[0], stratum) != draws.stimuli_hash(configs[1], stratum):
        return {"reason": "other targets, or other A and B"}
    low, high = interval(*(draws.of(config, stratum, "bootstrap") for config in configs))
    placebos = [draws.of(config, stratum, "placebo") for config in configs]
    columns: dict[str, Any] = {"ci_low": low, "ci_high": high, "reason": ""}
    if len(placebos[0]) == len(placebos[1]):
        observed = float(first["rho_placebo_units"]) - float(second["rho_placebo_units"])
        columns["p_placebo"] = p_of_difference(observed, placebos[0] - placebos[1])
    return columns
