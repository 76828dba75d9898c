"""Compute how large level and difference of levels must be to be detected (docs/methods.md, section 6.15)."""

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
    analyses = main_analyses(findings)
    rows = analyses[["exp", "stratum", "model", "config"]].assign(
        level=[
            detectable(standard_error(low, high, df), df)
            for low, high, df in analyses[["level_low", "level_high", "df"]].itertuples(index=False)
        ],
        level_placebo=[
            NORMAL * _null_sd(findings, row) for row in analyses[["config", "stratum"]].to_dict("records")
        ],
    )
    pairs = differences.models(findings, JobEstimates(findings)).drop_duplicates(["exp", "stratum"])
    df = analyses.set_index(["config", "stratum"])["df"]
    pairs["df"] = [
        min(df[row.config_first, row.stratum], df[row.config_second, row.stratum])
        for row in pairs.itertuples()
    ]
    pairs["difference"] = [
        detectable(standard_error(low, high, df), df)
        for low, high, df in pairs[["level_delta_low", "level_delta_high", "df"]].itertuples(index=False)
    ]
    return rows.drop(columns="config").merge(
        pairs[["exp", "stratum", "difference"]], on=["exp", "stratum"], how="left"
    )


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


def _null_sd(findings: Findings, row: dict[str, str]) -> float:
    """Return the SD of a level under the placebo's permutations, the observed one included."""
    draws = findings.read(row["config"], "level_draws")
    levels = draws.loc[draws["stratum"] == row["stratum"], "level"]
    return float(levels.std(ddof=0)) if len(levels) else math.nan


def _range(values: Iterable[float]) -> str:
    known = sorted(f"{value:.3f}" for value in values if not math.isnan(value))
    return " to ".join(dict.fromkeys([known[0], known[-1]])) if known else "–"
