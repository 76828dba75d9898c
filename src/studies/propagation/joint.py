"""Test sets of analyses jointly (docs/methods.md, section 6.6)."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from src.report.findings import Findings
from src.studies.propagation.combined import select_main_analyses

# Columns of the table of sets, and of the table of analyses.
SETS = ["set", "n", "p_median", "p_max", "rho_n", "rho_p_median", "rho_p_max"]
ANALYSES = ["exp", "model", "stratum", "level", "level_p", "level_q", "level_p_max"]
TOLERANCE = 1e-12  # rounding tolerance of standardised levels and rhos


def joint_tests(findings: Findings) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Test all analyses of the first specification jointly, then those of each experiment and of each model.

    Returns:
        Table of sets, columns `SETS`: `n`, the number of analyses with permutations; permutation p of the
        median and of the largest standardised |level|; likewise `rho_*` for rho, one-sided. Table of
        analyses, columns `ANALYSES`: `level_p_max` is the p of each level, adjusted for all analyses by the
        largest |level| in each permutation (Westfall & Young, single step).
    """
    analyses = select_main_analyses(findings).reset_index(drop=True)
    level_indices, levels = standardise(dict(_read_levels(findings, analyses)), absolute=True)
    rho_indices, rhos = standardise(dict(_read_rhos(findings, analyses)), absolute=False)
    adjusted = pd.Series(np.nan, index=analyses.index)
    if len(levels) > 1:
        adjusted[level_indices] = adjust_p(levels)
    rows = []
    for name, members in _yield_sets(analyses):
        row: dict[str, object] = {"set": name}
        for prefix, indices, draws in (("", level_indices, levels), ("rho_", rho_indices, rhos)):
            set_draws = draws[np.isin(indices, members)]
            row[f"{prefix}n"] = len(set_draws)
            if len(set_draws) > 1:
                for statistic, function in (("median", np.median), ("max", np.max)):
                    statistic_by_draw = function(set_draws, axis=0)
                    exceeds = statistic_by_draw >= statistic_by_draw[0] - TOLERANCE
                    row[f"{prefix}p_{statistic}"] = float(exceeds.mean())
        rows.append(row)
    table = analyses.reindex(columns=ANALYSES).assign(level_p_max=adjusted)
    return pd.DataFrame(rows, columns=SETS), table


def _yield_sets(analyses: pd.DataFrame) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name of each set, and the indices of its analyses."""
    yield "all analyses", analyses.index.to_numpy()
    for column in ("exp", "model"):
        if analyses[column].nunique() > 1:
            for name, rows in analyses.groupby(column, sort=False):
                yield f"{column} {name}", rows.index.to_numpy()


def _read_levels(findings: Findings, analyses: pd.DataFrame) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the index and the levels of each analysis, [R + 1]: observed, then one per permutation."""
    for config, rows in analyses.groupby("config", sort=False):
        draws = findings.read(str(config), "level_draws").sort_values("draw", kind="stable")
        by_stratum = dict(iter(draws.groupby("stratum", sort=False)["level"]))
        for index, stratum in zip(rows.index, rows["stratum"], strict=True):
            if stratum in by_stratum:
                yield int(index), by_stratum[stratum].to_numpy()


def _read_rhos(findings: Findings, analyses: pd.DataFrame) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the index of each analysis and its rhos on the placebo's units, [R + 1].

    The first is the observed rho, the others are one per permutation.
    """
    for config, rows in analyses.groupby("config", sort=False):
        draws = findings.read(str(config), "draws").sort_values("draw", kind="stable")
        by_stratum = dict(iter(draws[draws["kind"] == "placebo"].groupby("stratum", sort=False)["rho"]))
        columns = (rows.index, rows["stratum"], rows["rho_placebo_units"])
        for index, stratum, observed in zip(*columns, strict=True):
            if stratum in by_stratum:
                yield int(index), np.append(observed, by_stratum[stratum].to_numpy())


def adjust_p(levels: np.ndarray) -> np.ndarray:
    """Compute the p of each level, adjusted by the largest level of each permutation, [analyses].

    `levels` are standardised, [analyses, R + 1], with the observed levels in the first column.
    """
    exceeds = levels.max(axis=0)[None] >= levels[:, :1] - TOLERANCE
    return np.asarray(exceeds.mean(axis=1))


def standardise(draws: dict[int, np.ndarray], *, absolute: bool) -> tuple[np.ndarray, np.ndarray]:
    """Standardise the draws of each analysis, which are given by its index.

    Returns:
        Indices of the analyses, and their draws [analyses, R + 1], as absolute values if `absolute`. Analyses
        with undefined or constant draws, or with fewer draws than others, are left out.
    """
    count = max(map(len, draws.values()), default=0)
    usable = {
        index: values
        for index, values in draws.items()
        if len(values) == count and np.isfinite(values).all() and values.std() > 0
    }
    if not usable:
        return np.empty(0, dtype=int), np.empty((0, 1))
    values = np.stack([*usable.values()])
    standardised = (values - values.mean(axis=1, keepdims=True)) / values.std(axis=1, keepdims=True)
    return np.array([*usable]), np.abs(standardised) if absolute else standardised
