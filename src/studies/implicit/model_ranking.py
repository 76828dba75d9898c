"""Rank models by their implicit bias (Capitani et al. 2024, table 2): the least biased ranks first."""

from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

# Statistics of which an audit compares one with its null.
IAT, GAP = "iat", "cles_gap"
MEASURES = ("competence", "emotions", IAT)
# Measure -> attribute and column of analyses.csv; only audits that compare this column with its null count.
SOURCES = {"competence": ("competence", GAP), "emotions": ("emotions", GAP), IAT: ("semantic", IAT)}
# Models are ranked together if all of these are equal; `faces` is the hash of the table of faces.
SPECIFICATION = ("dataset", "protocol", "seed", "groups", "faces")


def infer_null_statistic(audits: pd.DataFrame) -> pd.Series:
    """Infer the statistic that each row of analyses.csv compares with its null: `iat` or `cles_gap`."""
    # Analyses of older versions lack the column `measure`; there the name of the experiment decides.
    by_name = audits["exp"].astype(str).str.startswith(IAT).map({True: IAT, False: GAP})
    return audits["measure"].fillna(by_name) if "measure" in audits else by_name


def compute_measures(audits: pd.DataFrame) -> pd.DataFrame:
    """Compute the measures of the ranking: means over unordered pairs of groups (docs/methods.md, section 3).

    Only jobs without debiasing and without perturbation count. Where an audit of a model and specification
    has several configs, or a config several runs, the last rows are used.

    Returns:
        One row per specification and model. Columns: `SPECIFICATION`, `model` and `MEASURES` (NaN where the
        model or a pair of groups lacks the measure); for each measure also `*_null` (mean of the null, over
        pairs), `*_n` (smallest number of faces of a group) and `*_config`.
    """
    rows = audits
    if len(audits):
        rows = audits[(audits["debias"] == "none") & (audits["perturb"] == "none")].copy()
    measure_columns = [name + kind for name in MEASURES for kind in ("", "_null", "_n", "_config")]
    columns = [*SPECIFICATION, "model", *measure_columns]
    if rows.empty:
        return pd.DataFrame(columns=columns)
    rows["faces"] = rows["faces"].fillna("") if "faces" in rows else ""
    # No column lists the groups of an audit: their pairs identify them.
    jobs = rows.groupby("config")
    groups = {key: ", ".join(sorted({*job["group_a"], *job["group_b"]})) for key, job in jobs}
    rows["groups"] = rows["config"].map(groups)
    records = []
    for _, model_rows in rows.groupby([*SPECIFICATION, "model"], sort=False):
        record: dict[Any, Any] = model_rows.iloc[0][[*SPECIFICATION, "model"]].to_dict()
        for name in MEASURES:
            record |= _compute_measure(model_rows, name)
        records.append(record)
    return pd.DataFrame(records, columns=columns)


def has_measures(models: pd.DataFrame) -> pd.Series:
    """Mark the rows that have every measure."""
    return models[list(MEASURES)].notna().all(axis=1)


def split_by_specification(rows: pd.DataFrame) -> list[pd.DataFrame]:
    """Split rows by specification; specifications with more complete models come first.

    Ties are ordered by the number of models, then the paper's protocol before others, then the length of the
    protocol's name.
    """
    tables = [models for _, models in rows.groupby(list(SPECIFICATION), sort=False)]

    def sort_key(table: pd.DataFrame) -> tuple[int, int, bool, int]:
        protocol = str(table["protocol"].iloc[0])
        return -int(has_measures(table).sum()), -len(table), protocol.split("+")[0] != "paper", len(protocol)

    return sorted(tables, key=sort_key)


def rank_models(models: pd.DataFrame) -> pd.DataFrame:
    """Rank models by the sum of their ranks over `MEASURES` (lower is less biased); ties share average ranks.

    Returns:
        The same rows with `*_rank` of each measure; `rank_sum`; and `place`, 1 for the least biased, where
        equal sums share the best place. Sorted by place; incomplete rows come last, with NaN.
    """
    is_complete = has_measures(models)
    ranked = models.copy()
    complete = models.loc[is_complete, list(MEASURES)]
    rank_columns = [f"{name}_rank" for name in MEASURES]
    for name, rank_column in zip(MEASURES, rank_columns, strict=True):
        # Rounded, so that values that differ only by the order of a sum are ties.
        values = complete[name].astype(float).round(12)
        ranked[rank_column] = pd.Series(stats.rankdata(values, "average"), complete.index, dtype=float)
    ranked["rank_sum"] = ranked[rank_columns].sum(axis=1, skipna=False)
    places = stats.rankdata(ranked.loc[is_complete, "rank_sum"], "min")
    ranked["place"] = pd.Series(places, complete.index, dtype=float)
    return ranked.sort_values("rank_sum", kind="stable", na_position="last").reset_index(drop=True)


def rank_pretraining(models: pd.DataFrame) -> pd.DataFrame:
    """Rank sets of pretraining data by the means of their models.

    Returns:
        One row per set, with the columns of `rank_models` and `pretraining`, `models` (number with every
        measure; these enter the means), `incomplete` (number of the others), and each measure's mean and
        `*_sd` (over models, ddof 1; NaN for a single model).
    """
    is_complete = has_measures(models)
    rows = []
    for name, set_models in models.groupby("pretraining", sort=False):
        complete = set_models[is_complete[set_models.index]]
        row: dict[str, Any] = {"pretraining": name, "models": len(complete)}
        row["incomplete"] = len(set_models) - len(complete)
        for measure in MEASURES:
            row |= {measure: complete[measure].mean(), f"{measure}_sd": complete[measure].std(ddof=1)}
        rows.append(row)
    measure_columns = [name + kind for name in MEASURES for kind in ("", "_sd")]
    columns = ["pretraining", "models", "incomplete", *measure_columns]
    return rank_models(pd.DataFrame(rows, columns=columns))


def _compute_measure(audits: pd.DataFrame, name: str) -> dict[str, Any]:
    """Compute a measure of a model, with its columns `*_null`, `*_n` and `*_config` (`compute_measures`)."""
    attribute, column = SOURCES[name]
    rows = audits[(audits["attribute"] == attribute) & (infer_null_statistic(audits) == column)]
    if rows.empty:
        return {name: np.nan}
    audit = rows[rows["config"] == rows["config"].iloc[-1]]
    audit = audit.drop_duplicates(["group_a", "group_b"], keep="last")
    return {
        name: audit[column].mean(skipna=False),
        f"{name}_null": audit["null_mean"].mean(skipna=False) if "null_mean" in audit else np.nan,
        f"{name}_n": float(audit[["n_a", "n_b"]].min(axis=None)),
        f"{name}_config": audit["config"].iloc[0],
    }
