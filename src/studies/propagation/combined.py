"""Combine the analyses of a sweep's jobs, and select from them."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from src.metrics import benjamini_hochberg
from src.report.findings import SPECIFICATION, Findings, first_specification
from src.report.study import concatenate

# Columns of the level of carry-over (docs/methods.md, section 6.3).
LEVEL = (
    *("level", "level_low", "level_high", "level_p", "level_z", "measured", "measured_low", "measured_high"),
    *("slope", "slope_low", "slope_high", "y_min", "y_max", "at_bound", "ceiling", "ties", "df"),
)
# Columns of the uncertainty of rho (docs/methods.md, section 6); jobs of older versions lack them.
UNCERTAINTY = (
    *("ci_low", "ci_high", "sd_attributes", "validity", "placebo_mean", "placebo_q95", "p_placebo"),
    *("placebo_n", "rho_placebo_units", "property_q05", "property_q95", "rho_property_units"),
    *("property_r2", "property_r2_draws", "clusters", "movable", "log10_placements"),
)
# Columns of jobs with exp.reliability=true (docs/methods.md, section 6.14).
RELIABILITY = (
    *("rho_cross", "reliability_measured", "reliability_retrieved", "noise_ceiling"),
    *("rho_true", "rho_true_low", "rho_true_high", "reliability_reason"),
)
# Other columns of an analysis of propagation.
PROPAGATION = (
    *("group", "stratum", "sd_measured", "sd_retrieved"),
    *("n", "n_excluded", "rho", "p", "reason", "rho_all", "p_all", "n_all"),
)


def combine(analyses: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate the analyses of jobs, each row once; columns that a job lacks are NaN.

    `level_q` and `q` are level_p and p_placebo adjusted by Benjamini and Hochberg's procedure within each
    specification, so that adding a specification changes no other.
    """
    combined = concatenate([frame.drop(columns=["q", "level_q"], errors="ignore") for frame in analyses])
    for name in (*PROPAGATION, *LEVEL, *UNCERTAINTY):
        if name not in combined:
            combined[name] = pd.array([None] * len(combined), "Int64") if name == "placebo_n" else math.nan
    for q, p in (("level_q", "level_p"), ("q", "p_placebo")):
        keys = [name for name in SPECIFICATION if name in combined]
        groups = combined.groupby(keys, sort=False, dropna=False)[p] if keys else None
        combined[q] = (
            benjamini_hochberg(combined[p]) if groups is None else groups.transform(benjamini_hochberg)
        )
    return combined


def select_main_analyses(findings: Findings) -> pd.DataFrame:
    """Return the analyses of the first specification."""
    return first_specification(findings.of("propagation"))


def select_corrected(analyses: pd.DataFrame) -> pd.DataFrame:
    """Return the analyses of jobs with exp.reliability=true."""
    if "rho_cross" not in analyses:
        return analyses.iloc[:0]
    refused = analyses["reliability_reason"].fillna("") != ""
    rows = analyses[analyses["rho_cross"].notna() | refused]
    return rows.assign(reliability_reason=rows["reliability_reason"].fillna(""))


def select_distant_models(analyses: pd.DataFrame, count: int) -> list[str]:
    """Return the names of at most `count` models whose levels differ most, in the order of the analyses.

    Starts from the two most distant models, then repeatedly adds the model whose distance to the nearest
    chosen model is largest. Distances are Euclidean, between levels that are standardised over the models;
    between rhos if no level is defined.
    """
    models = [*dict.fromkeys(analyses["model"])]
    if len(models) <= count:
        return models
    value = "level" if analyses["level"].notna().any() else "rho"
    levels = analyses.pivot_table(index="model", columns=["exp", "stratum"], values=value).reindex(models)
    spread = levels.std(ddof=0)
    standardised = ((levels - levels.mean()) / spread.where(spread > 0)).fillna(0).to_numpy()
    distances = np.linalg.norm(standardised[:, None] - standardised, axis=2)
    chosen = [*np.unravel_index(distances.argmax(), distances.shape)][:count]
    while len(chosen) < count:
        chosen.append(distances[:, chosen].min(axis=1).argmax())
    return [models[number] for number in sorted(map(int, chosen))]


def label_of(rows: pd.DataFrame, score: str, default: str) -> str:
    """Return the label of the `intrinsic` or `extrinsic` score in the rows; `default` if they have none."""
    names = rows.get(f"{score}_label", pd.Series(dtype=object)).dropna()
    return str(names.iloc[0]) if len(names) else default


def score_names_of(rows: pd.DataFrame) -> pd.Series:
    """Return the labels of each analysis's scores other than the paper's; empty if both are the paper's."""
    names = rows.reindex(columns=["intrinsic_label", "extrinsic_label"]).astype(object).fillna("")
    labels: pd.Series = names["intrinsic_label"] + ", " + names["extrinsic_label"]
    return labels.str.strip(", ")
