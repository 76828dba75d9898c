"""Select and name the rows of generative models that the report shows."""

from collections.abc import Iterator

import pandas as pd

from src.report.findings import SPECIFICATION, first_specification
from src.studies.subtler.scoring import ALL, BOUNDS, GAPS, RATES

DIRECTIONS = {"SAI": "stimulus given, attribute chosen", "ASA": "attribute given, stimulus chosen"}
CODINGS = {"published": "as published", "corrected": "corrected"}
GENDERS = (ALL, "female", "male", "not_specified")
COUNTS = ("n", "n_unmatched", "n_unanswered", "n_templates")
NUMBERS = (*COUNTS, *RATES, *GAPS, "tau_c", "p", "tau_b", "tau_c_matched", *BOUNDS, "df")
REMEDY = (
    "All answers are in results/answers.parquet. If the model reasons before it answers, set llm.most=2000; "
    "if not, word task.question more clearly. task.max_unmatched is the permitted share of answers that "
    "match no option."
)


def fill_columns(subtler: pd.DataFrame) -> pd.DataFrame:
    """Add the columns of the page that results of older versions lack: numbers as NaN, `reason` empty."""
    columns = (*NUMBERS, "position_effect")
    filled = subtler.reindex(columns=[*dict.fromkeys((*subtler.columns, *columns, "reason"))])
    return filled.astype(dict.fromkeys(columns, float)).fillna({"reason": ""})


def first_specifications(subtler: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the first specification of each task and model.

    Recorded answers in two languages may have two protocols: the first of all rows would hide a language.
    """
    groups = subtler.groupby(["exp", "model"], sort=False)
    return pd.concat([first_specification(group) for _, group in groups], ignore_index=True)


def count_others(subtler: pd.DataFrame) -> int:
    """Count the specifications of tasks and models that are not shown."""
    combinations = subtler[["exp", "model", *SPECIFICATION]].drop_duplicates()
    return len(combinations) - len(combinations[["exp", "model"]].drop_duplicates())


def domains(rows: pd.DataFrame) -> list[str]:
    """Return the domains of rows, in order of occurrence, without `all`."""
    return [str(name) for name in dict.fromkeys(rows["domain"]) if name != ALL]


def sets(rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the name and rows of each task and coding.

    With a single domain, the rows of `all` domains are left out: they are the same.
    """
    for (task, coding), table in rows.groupby(["exp", "coding"], sort=False):
        has_several = len(domains(table)) > 1
        yield task_name(rows, str(task), str(coding)), table if has_several else table[table["domain"] != ALL]


def task_name(rows: pd.DataFrame, task: str, coding: str) -> str:
    """Name a task, with the coding if it has several."""
    has_several = rows.loc[rows["exp"] == task, "coding"].nunique() > 1
    return f"{task}, {CODINGS.get(coding, coding)}" if has_several else task


def task_comparisons(rows: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Return the rows that compare tasks, by model ("": all models together), with a name in `series`.

    Only domains that all tasks share are compared. The domain `all` is compared too if every task has exactly
    these domains and there are at least two of them. Tasks are compared within each model that has several
    tasks; if no model has, across all models.
    """
    tasks = [domains(group) for _, group in rows.groupby("exp", sort=False)]
    common = [
        name for name in (tasks[0] if tasks else []) if all(name in task_domains for task_domains in tasks)
    ]
    if len(tasks) < 2 or not common:
        return []
    pooled = [ALL] * (len(common) > 1 and all(len(task_domains) == len(common) for task_domains in tasks))
    names = [task_name(rows, task, coding) for task, coding in zip(rows["exp"], rows["coding"], strict=True)]
    shared = rows.assign(series=names)[rows["domain"].isin([*common, *pooled])]
    by_model = {str(model): group for model, group in shared.groupby("model", sort=False)}
    several = {model: group for model, group in by_model.items() if group["exp"].nunique() > 1}
    if several:
        return [*several.items()]
    return [("", shared.assign(series=shared["model"].astype(str) + ": " + shared["series"]))]


def reasons(subtler: pd.DataFrame) -> list[str]:
    """Return a line for each model, task, coding, domain and direction without τ-c, with the reason.

    If no domain has τ-c, one line covers all domains.
    """
    if "reason" not in subtler:  # rows of an older version
        return []
    totals = subtler[subtler["gender"] == ALL].fillna({"reason": ""})
    # Where tau-c exists, the reason is that of a missing interval.
    lacks_tau = totals["reason"].ne("") & totals["tau_c"].isna()
    keys = [*SPECIFICATION, "model", "exp", "coding", "direction"]
    all_lack_tau = lacks_tau.groupby([totals[name] for name in keys]).transform("all")
    lines = totals[lacks_tau & (~all_lack_tau | (totals["domain"] == ALL))]
    columns = ["model", "exp", "coding", "domain", "direction"]
    return [
        f"{' '.join(str(row[name]) for name in columns)}: no τ-c. {row['reason']}. {REMEDY}"
        for row in lines.to_dict("records")
    ]
