"""What generative models chose, as a reader meets it: which rows are shown, and how they are called."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from src.report.findings import READING, of_reading, readings

ALL = "all"
DIRECTIONS = {"SAI": "stimulus given, attribute chosen", "ASA": "attribute given, stimulus chosen"}
CODINGS = {"published": "as published", "corrected": "corrected"}
GENDERS = (ALL, "female", "male", "not_specified")
RATES = ("PPL", "PNL", "PNuL", "NPL", "NNL", "NNuL")
GAPS = ("del_PL", "del_NL", "del_NuL")
COUNTS = ("n", "n_unmatched", "n_unanswered", "n_templates")
ENDS = tuple(f"{name}_{end}" for name in (*GAPS, "tau_c") for end in ("low", "high"))
NUMBERS = (*COUNTS, *RATES, *GAPS, "tau_c", "p", "tau_b", "tau_c_matched", *ENDS)
ITEMS = ("exp", "coding")


def completed(subtler: pd.DataFrame) -> pd.DataFrame:
    """The rows with every column that the page shows: NaN where an older version had none."""
    columns = (*NUMBERS, "position_effect")
    found = subtler.reindex(columns=[*dict.fromkeys((*subtler.columns, *columns, "reason"))])
    return found.astype(dict.fromkeys(columns, float)).fillna({"reason": ""})


def shown(subtler: pd.DataFrame) -> pd.DataFrame:
    """Of each task and model the rows of its first reading.

    Recorded answers of two languages may be of two protocols: a first reading of the whole would hide one.

    Args:
        subtler: rows of analyses.csv of generative models; there may be none.
    """
    if subtler.empty:
        return subtler
    parts = [of_reading(own, readings(own)[0]) for _, own in subtler.groupby(["exp", "model"], sort=False)]
    return pd.concat(parts, ignore_index=True)


def others(subtler: pd.DataFrame) -> int:
    """How many readings of a task and a model are not shown."""
    every = subtler[["exp", "model", *READING]].drop_duplicates()
    return len(every) - len(every[["exp", "model"]].drop_duplicates())


def told(own: pd.DataFrame) -> pd.DataFrame:
    """The rows of a task, without `all` domains where there is one domain: they are the same."""
    return own[own["domain"] != ALL] if len(domains(own)) == 1 else own


def domains(own: pd.DataFrame) -> list[str]:
    """The domains of rows, in their order, without `all`."""
    return [str(name) for name in dict.fromkeys(own["domain"]) if name != ALL]


def sets(rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rows of each task and coding, and what to call them."""
    for (task, coding), own in rows.groupby([*ITEMS], sort=False):
        yield called(rows, str(task), str(coding)), told(own)


def called(rows: pd.DataFrame, task: str, coding: str) -> str:
    """A task's name, with the coding where it has several."""
    several = rows.loc[rows["exp"] == task, "coding"].nunique() > 1
    return f"{task}, {CODINGS.get(coding, coding)}" if several else task


def compared(rows: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """The rows of tasks side by side: with `series`, and what to call them.

    Only domains that all tasks have are compared; `all` of them only where these are the same. A model that
    did several tasks is compared with itself; where none did, all models are.
    """
    tasks = [domains(own) for _, own in rows.groupby("exp", sort=False)]
    common = [name for name in (tasks[0] if tasks else []) if all(name in one for one in tasks)]
    if len(tasks) < 2 or not common:
        return []
    whole = [ALL] * (len(common) > 1 and all(len(one) == len(common) for one in tasks))
    names = [called(rows, task, coding) for task, coding in zip(rows["exp"], rows["coding"], strict=True)]
    found = rows.assign(series=names)[rows["domain"].isin([*common, *whole])]
    by_model = {str(model): own for model, own in found.groupby("model", sort=False)}
    both = {model: own for model, own in by_model.items() if own["exp"].nunique() > 1}
    if both:
        return [*both.items()]
    return [("", found.assign(series=found["model"].astype(str) + ": " + found["series"]))]
