"""Models ranked by their implicit bias (Capitani et al. 2024, table 2): the least biased ranks first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from src.studies.implicit.terminal import measure

MEASURES = ("competence", "emotions", "iat")
# Where each stands in analyses.csv of the audits: its attribute and its column, in the audits whose null is
# of this column.
WHERE = {
    "competence": ("competence", "cles_gap"),
    "emotions": ("emotions", "cles_gap"),
    "iat": ("semantic", "iat"),
}
# Models are compared where all of these are the same: `faces` is the hash of the table of faces.
READING = ("dataset", "protocol", "seed", "groups", "faces")


def measures(audits: pd.DataFrame) -> pd.DataFrame:
    """What models are ranked by: means over unordered pairs of groups (docs/methods.md, section 3).

    Only what was not debiased counts. Of two configs of one audit, model and reading the later row's is
    taken; so is the later of two runs of one config.

    Args:
        audits: analyses.csv of audits, oldest first; `faces`, where it is there, says which faces they saw.

    Returns:
        One row per reading and model: `READING`, `model`, `MEASURES` (NaN where a model lacks one, or a pair
        of groups has none), and of each `*_null`, the mean over the pairs of the random partitions' means,
        `*_n`, the smallest number of faces in a group, and `*_config`.
    """
    rows = audits[audits["debias"] == "none"].copy() if len(audits) else audits
    measured = [name + kind for name in MEASURES for kind in ("", "_null", "_n", "_config")]
    columns = [*READING, "model", *measured]
    if rows.empty:
        return pd.DataFrame(columns=columns)
    rows["faces"] = rows["faces"].fillna("") if "faces" in rows else ""
    rows["groups"] = rows["config"].map(_groups(rows))
    found = []
    for keys, own in rows.groupby([*READING, "model"], sort=False):
        assert isinstance(keys, tuple)
        about: dict[str, Any] = dict(zip((*READING, "model"), keys, strict=True))
        found.append(about | {name: value for one in MEASURES for name, value in _measured(own, one).items()})
    return pd.DataFrame(found, columns=columns)


def complete(models: pd.DataFrame) -> pd.Series:
    """Which rows have every measure."""
    return models[list(MEASURES)].notna().all(axis=1)


def readings(measured: pd.DataFrame) -> list[pd.DataFrame]:
    """The rows of each reading, that with most models that can be ranked first; then the paper's protocol.

    Args:
        measured: see `measures`.
    """
    parts = [own for _, own in measured.groupby(list(READING), sort=False)]

    def far(own: pd.DataFrame) -> tuple[int, int, bool, int]:
        protocol = str(own["protocol"].iloc[0])
        return -int(complete(own).sum()), -len(own), protocol.split("+")[0] != "paper", len(protocol)

    return sorted(parts, key=far)


def ranking(models: pd.DataFrame) -> pd.DataFrame:
    """Models by the sum of their ranks on the measures; ties get the average rank (Capitani et al. 2024).

    Args:
        models: one row per model, or per set of models, with `MEASURES`: lower is less biased.

    Returns:
        The same rows and, of each measure, `*_rank`; `rank_sum`; and `place`, 1 the least biased, equal sums
        sharing the best. In that order; rows that lack a measure come last and have none of these.
    """
    known = complete(models)
    found = models.copy()
    ranked = models.loc[known, list(MEASURES)]
    names = [f"{name}_rank" for name in MEASURES]
    for name, rank in zip(MEASURES, names, strict=True):
        # Compared as far as they can be told apart: what is equal but for the order of a sum is a tie.
        values = ranked[name].astype(float).round(12)
        found[rank] = pd.Series(stats.rankdata(values, "average"), ranked.index, dtype=float)
    found["rank_sum"] = found[names].sum(axis=1, skipna=False)
    places = stats.rankdata(found.loc[known, "rank_sum"], "min")
    found["place"] = pd.Series(places, ranked.index, dtype=float)
    return found.sort_values("rank_sum", kind="stable", na_position="last").reset_index(drop=True)


def by_pretraining(models: pd.DataFrame) -> pd.DataFrame:
    """Sets of pretraining data by the means of their models, ranked as models are.

    Args:
        models: one row per model: `pretraining` and `MEASURES`.

    Returns:
        One row per set, see `ranking`: `pretraining`, `models` (how many the means are over: those with every
        measure), `incomplete` (how many are not), each measure's mean and `*_sd` (ddof 1; NaN of one model).
    """
    known = complete(models)
    rows = []
    for name, own in models.groupby("pretraining", sort=False):
        whole = own[known[own.index]]
        row: dict[str, Any] = {"pretraining": name, "models": len(whole), "incomplete": len(own) - len(whole)}
        for one in MEASURES:
            row |= {one: whole[one].mean(), f"{one}_sd": whole[one].std(ddof=1)}
        rows.append(row)
    measured = [name + kind for name in MEASURES for kind in ("", "_sd")]
    columns = ["pretraining", "models", "incomplete", *measured]
    return ranking(pd.DataFrame(rows, columns=columns))


def with_pretraining(measured: pd.DataFrame, models: pd.DataFrame) -> pd.DataFrame:
    """Measures with what is known of each model's pretraining.

    Args:
        measured: see `measures`.
        models: `model` and, where it is known, `pretraining`.
    """
    known = dict(zip(models["model"], models["pretraining"], strict=True)) if "pretraining" in models else {}
    return measured.assign(pretraining=[known.get(name) or "unknown" for name in measured["model"]])


def _groups(rows: pd.DataFrame) -> dict[Any, str]:
    # Which groups an audit was of stands in no column: their pairs tell.
    return {
        config: ", ".join(sorted({*own["group_a"], *own["group_b"]}))
        for config, own in rows.groupby("config")
    }


def _measured(own: pd.DataFrame, name: str) -> dict[str, Any]:
    attribute, column = WHERE[name]
    rows = own[(own["attribute"] == attribute) & (measure(own) == column)]
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
