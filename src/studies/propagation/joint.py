"""Test many analyses at once (docs/methods.md, section 6.6)."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from src.report.findings import Findings
from src.studies.propagation.combined import main_analyses

# Columns of the table of sets of analyses, and of the table of analyses.
SETS = ["set", "n", "p_median", "p_max", "rho_n", "rho_p_median", "rho_p_max"]
ANALYSES = ["exp", "model", "stratum", "level", "level_p", "level_q", "level_p_max"]
TOLERANCE = 1e-12


def joint_tests(findings: Findings) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Test all analyses of the first specification jointly, then those of each experiment and of each model.

    Returns:
        Table with columns `SETS`: number of analyses with draws, and permutation p of the median and of the
        largest standardised level; likewise for rho, whose p are one-sided. Table with columns `ANALYSES`:
        `level_p_max` is the p of each level, adjusted by the largest level of all analyses in each
        permutation (Westfall & Young, single step).
    """
    analyses = main_analyses(findings).reset_index(drop=True)
    level_places, levels = standardise(dict(_level_draws(findings, analyses)), absolute=True)
    rho_places, rhos = standardise(dict(_rho_draws(findings, analyses)), absolute=False)
    adjusted = pd.Series(np.nan, index=analyses.index)
    if len(levels) > 1:
        adjusted[level_places] = adjusted_p(levels)
    rows = []
    for name, members in _sets(analyses):
        row: dict[str, object] = {"set": name}
        for prefix, places, values in (("", level_places, levels), ("rho_", rho_places, rhos)):
            chosen = values[np.isin(places, members)]
            row[f"{prefix}n"] = len(chosen)
            if len(chosen) > 1:
                for statistic, function in (("median", np.median), ("max", np.max)):
                    of_draws = function(chosen, axis=0)
                    row[f"{prefix}p_{statistic}"] = float((of_draws >= of_draws[0] - TOLERANCE).mean())
        rows.append(row)
    table = analyses.reindex(columns=ANALYSES).assign(level_p_max=adjusted)
    return pd.DataFrame(rows, columns=SETS), table


def _sets(analyses: pd.DataFrame) -> Iterator[tuple[str, np.ndarray]]:
    yield "all analyses", analyses.index.to_numpy()
    for column in ("exp", "model"):
        if analyses[column].nunique() > 1:
            for name, rows in analyses.groupby(column, sort=False):
                yield f"{column} {name}", rows.index.to_numpy()


def _level_draws(findings: Findings, analyses: pd.DataFrame) -> Iterator[tuple[int, np.ndarray]]:
    """Yield index and levels of each analysis: the observed level, then one per permutation, [R + 1]."""
    for config, rows in analyses.groupby("config", sort=False):
        draws = findings.read(str(config), "level_draws").sort_values("draw", kind="stable")
        by_stratum = dict(iter(draws.groupby("stratum", sort=False)["level"]))
        for place, stratum in zip(rows.index, rows["stratum"], strict=True):
            if stratum in by_stratum:
                yield int(place), by_stratum[stratum].to_numpy()


def _rho_draws(findings: Findings, analyses: pd.DataFrame) -> Iterator[tuple[int, np.ndarray]]:
    """Yield index and rhos of each analysis: on the placebo's units, then one per permutation, [R + 1]."""
    for config, rows in analyses.groupby("config", sort=False):
        draws = findings.read(str(config), "draws").sort_values("draw", kind="stable")
        by_stratum = dict(iter(draws[draws["kind"] == "placebo"].groupby("stratum", sort=False)["rho"]))
        columns = (rows.index, rows["stratum"], rows["rho_placebo_units"])
        for place, stratum, observed in zip(*columns, strict=True):
            if stratum in by_stratum:
                yield int(place), np.append(observed, by_stratum[stratum].to_numpy())


def adjusted_p(levels: np.ndarray) -> np.ndarray:
    """Return the p of each level against the largest in each permutation (Westfall & Young), [analyses].

    `levels` are standardised, [analyses, R + 1], the observed ones first.
    """
    reached = levels.max(axis=0)[None] >= levels[:, :1] - TOLERANCE
    return np.asarray(reached.mean(axis=1))


def standardise(draws: dict[int, np.ndarray], *, absolute: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of analyses and their draws in units of their SD, [analyses, R + 1].

    Analyses whose draws are undefined, constant, or fewer than those of the others are left out.
    """
    count = max(map(len, draws.values()), default=0)
    used = {
        place: values
        for place, values in draws.items()
        if len(values) == count and np.isfinite(values).all() and values.std() > 0
    }
    if not used:
        return np.empty(0, dtype=int), np.empty((0, 1))
    values = np.stack([*used.values()])
    standardised = (values - values.mean(axis=1, keepdims=True)) / values.std(axis=1, keepdims=True)
    return np.array([*used]), np.abs(standardised) if absolute else standardised
