"""Compute how large level and difference of levels must be to be detected (docs/methods.md, section 6.16)."""

import math
from collections.abc import Iterable

import pandas as pd
from scipy import special

from src.metrics.power import NORMAL, detectable
from src.report.findings import Findings
from src.studies.propagation import differences
from src.studies.propagation.combined import main_analyses
from src.studies.propagation.estimates import JobEstimates


def table(findings: Findings) -> pd.DataFrame:
    """Return, per analysis, the smallest effects that are detected in 80% at 5% on the same targets.

    Columns: `exp`, `stratum`, `model`; `level`, from the standard error of the level; `level_placebo`, from
    the SD of the level under the placebo's permutations. For the first two models also `difference`, from the
    standard error of the difference of their levels. NaN where there is no interval, or no placebo.
    """
    rows = main_analyses(findings).to_dict("records")
    df = {(row["config"], row["stratum"]): row["df"] for row in rows}
    pairs = differences.models(findings, JobEstimates(findings)).drop_duplicates(["exp", "stratum"])
    of_pairs = {}
    for pair in pairs.to_dict("records"):
        smaller = min(df[pair[config], pair["stratum"]] for config in ("config_first", "config_second"))
        error = standard_error(pair["level_delta_low"], pair["level_delta_high"], smaller)
        of_pairs[pair["exp"], pair["stratum"]] = detectable(error, smaller)
    effects = [
        {
            **{name: row[name] for name in ("exp", "stratum", "model")},
            "level": detectable(standard_error(row["level_low"], row["level_high"], row["df"]), row["df"]),
            "level_placebo": NORMAL * _null_sd(findings, row["config"], row["stratum"]),
            "difference": of_pairs.get((row["exp"], row["stratum"]), math.nan),
        }
        for row in rows
    ]
    return pd.DataFrame(effects)


def plan_rows(findings: Findings) -> pd.DataFrame:
    """Return a row of texts for the plan of jobs: the range of `table` over groups and models."""
    effects = table(findings)
    rows = [
        {
            "experiment": exp,
            "level": _range(rows["level"]),
            "level, by the placebo": _range(rows["level_placebo"]),
            "difference of two models": _range(rows["difference"]),
            "from runs of": ", ".join(dict.fromkeys(rows["model"])),
        }
        for exp, rows in effects.groupby("exp", sort=False)
    ]
    return pd.DataFrame(rows)


def standard_error(low: float, high: float, df: float) -> float:
    """Return the standard error of an estimate from its 95% interval."""
    return (high - low) / 2 / float(special.stdtrit(df, 0.975))


def _null_sd(findings: Findings, config: str, stratum: str) -> float:
    """Return the SD of a level under the placebo's permutations, the observed one included."""
    draws = findings.read(config, "level_draws")
    levels = draws.loc[draws["stratum"] == stratum, "level"]
    return float(levels.std(ddof=0)) if len(levels) else math.nan


def _range(values: Iterable[float]) -> str:
    known = sorted(f"{value:.3f}" for value in values if not math.isnan(value))
    return " to ".join(dict.fromkeys([known[0], known[-1]])) if known else "–"
