"""Rank models by their implicit bias (Capitani et al. 2024, table 2): the least biased ranks first."""

from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

# Statistics of an audit that are compared with its null.
IAT, GAP = "iat", "cles_gap"
MEASURES = ("competence", "emotions", IAT)
# Measure -> its attribute and column in analyses.csv, of the audits whose null is of this statistic.
SOURCES = {"competence": ("competence", GAP), "emotions": ("emotions", GAP), IAT: ("semantic", IAT)}
# Models are compared where all of these are equal: `faces` is the hash of the table of faces.
SPECIFICATION = ("dataset", "protocol", "seed", "groups", "faces")


def null_statistic(audits: pd.DataFrame) -> pd.Series:
    """Return which statistic each row of analyses.csv compares with its null: `iat` or `cles_gap`."""
    # Older versions lack the column `measure`: there the name of the experiment decides.
    by_name = audits["exp"].astype(str).str.startswith(IAT).map({True: IAT, False: GAP})
    return audits["measure"].fillna(by_name) if "measure" in audits else by_name


def measures(audits: pd.DataFrame) -> pd.DataFrame:
    """Compute the measures of the ranking: means over unordered pairs of groups (docs/methods.md, section 3).

    Only jobs without debiasing count. Where an audit of a model and specification has several configs, or a
    config several runs, the last rows are used.

    Returns:
        One row per specification and model. Columns: `SPECIFICATION`, `model` and `MEASURES` (NaN where the
        model or a pair of groups lacks the measure); for each measure also `*_null` (mean over pairs of their
        random partitions' mean), `*_n` (smallest number of faces of a group) and `*_config`.
    """
    rows = audits[audits["debias"] == "none"].copy() if len(audits) else audits
    measured = [name + kind for name in MEASURES for kind in ("", "_null", "_n", "_config")]
    columns = [*SPECIFICATION, "model", *measured]
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
            record |= _measure(model_rows, name)
        records.append(record)
    return pd.DataFrame(records, columns=columns)


def complete(models: pd.DataFrame) -> pd.Series:
    """Mark the rows that have every measure."""
    return models[list(MEASURES)].notna().all(axis=1)


def by_specification(measured: pd.DataFrame) -> list[pd.DataFrame]:
    """Split rows by specification, in order of complete models; at a tie the paper's protocol comes first."""
    specifications = [models for _, models in measured.groupby(list(SPECIFICATION), sort=False)]

    def sort_key(models: pd.DataFrame) -> tuple[int, int, bool, int]:
        protocol = str(models["protocol"].iloc[0])
        return -int(complete(models).sum()), -len(models), protocol.split("+")[0] != "paper", len(protocol)

    return sorted(specifications, key=sort_key)


def ranking(models: pd.DataFrame) -> pd.DataFrame:
    """Rank models by the sum of their ranks over `MEASURES` (lower is less biased); ties share average ranks.

    Returns:
        The same rows with `*_rank` of each measure; `rank_sum`; and `place`, 1 for the least biased, where
        equal sums share the best place. Sorted by place; incomplete rows come last, with NaN.
    """
    is_complete = complete(models)
    table = models.copy()
    ranked = models.loc[is_complete, list(MEASURES)]
    names = [f"{name}_rank" for name in MEASURES]
    for name, rank in zip(MEASURES, names, strict=True):
        # Rounded, so that values that differ only by the order of a sum are ties.
        values = ranked[name].astype(float).round(12)
        table[rank] = pd.Series(stats.rankdata(values, "average"), ranked.index, dtype=float)
    table["rank_sum"] = table[names].sum(axis=1, skipna=False)
    places = stats.rankdata(table.loc[is_complete, "rank_sum"], "min")
    table["place"] = pd.Series(places, ranked.index, dtype=float)
    return table.sort_values("rank_sum", kind="stable", na_position="last").reset_index(drop=True)


def by_pretraining(models: pd.DataFrame) -> pd.DataFrame:
    """Rank sets of pretraining data by the means of their models.

    Returns:
        One row per set, see `ranking`: `pretraining`, `models` (the number with every measure, which enter
        the means), `incomplete` (the number without), each measure's mean and `*_sd` (ddof 1; NaN for one).
    """
    is_complete = complete(models)
    rows = []
    for name, set_models in models.groupby("pretraining", sort=False):
        ranked = set_models[is_complete[set_models.index]]
        row: dict[str, Any] = {"pretraining": name, "models": len(ranked)}
        row["incomplete"] = len(set_models) - len(ranked)
        for measure in MEASURES:
            row |= {measure: ranked[measure].mean(), f"{measure}_sd": ranked[measure].std(ddof=1)}
        rows.append(row)
    measured = [name + kind for name in MEASURES for kind in ("", "_sd")]
    columns = ["pretraining", "models", "incomplete", *measured]
    return ranking(pd.DataFrame(rows, columns=columns))


def with_pretraining(measured: pd.DataFrame, models: pd.DataFrame) -> pd.DataFrame:
    """Add the pretraining set of each model to its measures; `unknown` where no model states it."""
    known = dict(zip(models["model"], models["pretraining"], strict=True)) if "pretraining" in models else {}
    return measured.assign(pretraining=[known.get(name) or "unknown" for name in measured["model"]])


def _measure(audits: pd.DataFrame, name: str) -> dict[str, Any]:
    """Compute a measure of a model and its further columns, see `measures`."""
    attribute, column = SOURCES[name]
    rows = audits[(audits["attribute"] == attribute) & (null_statistic(audits) == column)]
    if rows.empty:
        return {name: np.nan}
    last = rows[rows["config"] == rows["config"].iloc[-1]]
    last = last.drop_duplicates(["group_a", "group_b"], keep="last")
    return {
        name: last[column].mean(skipna=False),
        f"{name}_null": last["null_mean"].mean(skipna=False) if "null_mean" in last else np.nan,
        f"{name}_n": float(last[["n_a", "n_b"]].min(axis=None)),
        f"{name}_config": last["config"].iloc[0],
    }
