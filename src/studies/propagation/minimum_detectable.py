"""Compute the smallest detectable levels and differences of levels (docs/methods.md, section 6.16)."""

import math
from collections.abc import Iterable

import pandas as pd
from scipy import special

from src.metrics.power import QUANTILE_SUM, detectable
from src.report.findings import Findings
from src.studies.propagation import differences
from src.studies.propagation.combined import select_main_analyses
from src.studies.propagation.estimates import JobEstimates


def compute_effects(findings: Findings) -> pd.DataFrame:
    """Compute the smallest effects that a test at 5% detects with a power of 80%, from finished runs.

    A row per analysis: `exp`, `stratum`, `model`; `level`, from the standard error of the level;
    `level_placebo`, from the SD of the level under the placebo's permutations; `difference`, from the
    standard error of the difference between the levels of the first two models. NaN without an interval or a
    placebo.
    """
    rows = select_main_analyses(findings).to_dict("records")
    df = {(row["config"], row["stratum"]): row["df"] for row in rows}
    pairs = differences.compare_models(findings, JobEstimates(findings)).drop_duplicates(["exp", "stratum"])
    difference_effects = {}
    for pair in pairs.to_dict("records"):
        pair_df = min(df[pair[config], pair["stratum"]] for config in ("config_first", "config_second"))
        error = standard_error(pair["level_delta_low"], pair["level_delta_high"], pair_df)
        difference_effects[pair["exp"], pair["stratum"]] = detectable(error, pair_df)
    effects = [
        {
            **{name: row[name] for name in ("exp", "stratum", "model")},
            "level": detectable(standard_error(row["level_low"], row["level_high"], row["df"]), row["df"]),
            "level_placebo": QUANTILE_SUM * _compute_null_sd(findings, row["config"], row["stratum"]),
            "difference": difference_effects.get((row["exp"], row["stratum"]), math.nan),
        }
        for row in rows
    ]
    return pd.DataFrame(effects)


def build_plan_rows(findings: Findings) -> pd.DataFrame:
    """Build the table for the plan of jobs: ranges of `compute_effects` over groups and models, as texts."""
    effects = compute_effects(findings)
    rows = [
        {
            "experiment": exp,
            "level": _format_range(rows["level"]),
            "level, by the placebo": _format_range(rows["level_placebo"]),
            "difference of two models": _format_range(rows["difference"]),
            "from runs of": ", ".join(dict.fromkeys(rows["model"])),
        }
        for exp, rows in effects.groupby("exp", sort=False)
    ]
    return pd.DataFrame(rows)


def standard_error(low: float, high: float, df: float) -> float:
    """Return the standard error of an estimate from the ends of its 95% interval by Student's t."""
    return (high - low) / 2 / float(special.stdtrit(df, 0.975))


def _compute_null_sd(findings: Findings, config: str, stratum: str) -> float:
    """Return the SD of a level over the placebo's permutations and the observed level; NaN without any."""
    draws = findings.read(config, "level_draws")
    levels = draws.loc[draws["stratum"] == stratum, "level"]
    return float(levels.std(ddof=0)) if len(levels) else math.nan


def _format_range(values: Iterable[float]) -> str:
    known = sorted(f"{value:.3f}" for value in values if not math.isnan(value))
    return " to ".join(dict.fromkeys([known[0], known[-1]])) if known else "–"
