"""Differences of two models, and of two groups, with what they are worth (docs/methods.md, section 6.5)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from src.report.findings import Findings
from src.studies.propagation.combined import shown
from src.studies.shared.draws import Draws, interval, p_of_difference

ABOUT = ["exp", "paper", "stratum", "first", "second", "rho_first", "rho_second", "difference"]
MODELS = [*ABOUT, "ci_low", "ci_high", "p_placebo", "q", "config_first", "config_second", "reason"]
GROUPS = ["exp", "paper", "model", "first", "second", "rho_first", "rho_second", "difference"]
GROUPS += ["ci_low", "ci_high", "config"]


def models(findings: Findings) -> pd.DataFrame:
    """Two models on the same experiment and stratum, of the shown reading.

    The interval is of the paired bootstrap, draw by draw. p is two-sided, of the models' difference on
    the placebo's units against its differences under the same permutations; q is Benjamini-Hochberg's over
    the p of this table.

    Returns:
        `MODELS`; `reason` says why there is neither interval nor p: models that were shown other
        targets, or met other sets A and B, share no draws.
    """
    draws = Draws(findings)
    rows = []
    for (exp, paper, stratum), own in shown(findings).groupby(["exp", "paper", "stratum"], sort=False):
        for one, other in combinations(own.to_dict("records"), 2):
            rows.append(
                {
                    "exp": exp,
                    "paper": paper,
                    "stratum": stratum,
                    "first": one["model"],
                    "second": other["model"],
                    "config_first": one["config"],
                    "config_second": other["config"],
                    "rho_first": one["rho"],
                    "rho_second": other["rho"],
                    "difference": one["rho"] - other["rho"],
                    **_worth(draws, one, other, stratum),
                }
            )
    found = pd.DataFrame(rows, columns=MODELS)
    known = found["p_placebo"].notna()
    if known.any():
        found.loc[known, "q"] = stats.false_discovery_control(found.loc[known, "p_placebo"].astype(float))
    return found


def groups(findings: Findings) -> pd.DataFrame:
    """Two groups within an experiment and model, of the shown reading: given this corpus, this A and B.

    The bootstrap is unpaired: the second group's draws are taken one further, so that weights which
    two groups may share (those of a race word) meet no more.

    Returns:
        `GROUPS`.
    """
    draws = Draws(findings)
    rows = []
    for config, own in shown(findings).dropna(subset=["group"]).groupby("config", sort=False):
        for one, other in combinations(own.to_dict("records"), 2):
            first, second = (draws.of(config, row["stratum"], "bootstrap") for row in (one, other))
            low, high = interval(first, np.roll(second, -1))
            rows.append(
                {
                    **{name: one[name] for name in ("exp", "paper", "model")},
                    "first": one["group"],
                    "second": other["group"],
                    "rho_first": one["rho"],
                    "rho_second": other["rho"],
                    "difference": one["rho"] - other["rho"],
                    "ci_low": low,
                    "ci_high": high,
                    "config": config,
                }
            )
    return pd.DataFrame(rows, columns=GROUPS)


def _worth(
    draws: Draws, one: Mapping[Hashable, Any], other: Mapping[Hashable, Any], stratum: Any
) -> dict[str, Any]:
    first, second = one["config"], other["config"]
    if draws.stimuli(first, stratum) != draws.stimuli(second, stratum):
        return {"reason": "other targets, or other A and B"}
    boots = [draws.of(config, stratum, "bootstrap") for config in (first, second)]
    placebos = [draws.of(config, stratum, "placebo") for config in (first, second)]
    low, high = interval(*boots)
    found: dict[str, Any] = {"ci_low": low, "ci_high": high, "reason": ""}
    if len(placebos[0]) == len(placebos[1]):
        observed = float(one["rho_placebo_units"]) - float(other["rho_placebo_units"])
        found["p_placebo"] = p_of_difference(observed, placebos[0] - placebos[1])
    return found
