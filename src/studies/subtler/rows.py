"""Select and name the rows of analyses that the report shows."""

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
    "All answers are in results/answers.parquet. If the model reasons before it answers, permit more tokens "
    "(llm.most=2000); if not, word task.question more clearly. task.max_unmatched is the permitted "
    "share of answers that match no option."
)


def fill_columns(analyses: pd.DataFrame) -> pd.DataFrame:
    """Add the columns of the page that results of older versions lack: numbers as NaN, `reason` empty."""
    columns = (*NUMBERS, "position_effect")
    filled = analyses.reindex(columns=[*dict.fromkeys((*analyses.columns, *columns, "reason"))])
    return filled.astype(dict.fromkeys(columns, float)).fillna({"reason": ""})


def select_first_specifications(analyses: pd.DataFrame) -> pd.DataFrame:
    """Select the rows of the first specification of each task and model.

    Recorded answers in two languages may have two protocols: a single specification for all would hide one
    language.
    """
    groups = analyses.groupby(["exp", "model"], sort=False)
    return pd.concat([first_specification(group) for _, group in groups], ignore_index=True)


def count_hidden_specifications(analyses: pd.DataFrame) -> int:
    """Count the specifications of tasks and models that are not shown."""
    combinations = analyses[["exp", "model", *SPECIFICATION]].drop_duplicates()
    return len(combinations) - len(combinations[["exp", "model"]].drop_duplicates())


def list_domains(rows: pd.DataFrame) -> list[str]:
    """List the domains of rows, in order of occurrence, without `all`."""
    return [str(name) for name in dict.fromkeys(rows["domain"]) if name != ALL]


def split_by_task(rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the name and rows of each task and coding.

    With a single domain, the rows of `all` domains are left out because they repeat it.
    """
    for (task, coding), table in rows.groupby(["exp", "coding"], sort=False):
        has_several_domains = len(list_domains(table)) > 1
        distinct_rows = table if has_several_domains else table[table["domain"] != ALL]
        yield name_task(rows, str(task), str(coding)), distinct_rows


def name_task(rows: pd.DataFrame, task: str, coding: str) -> str:
    """Name a task and, if it has several codings, the coding."""
    has_several_codings = rows.loc[rows["exp"] == task, "coding"].nunique() > 1
    return f"{task}, {CODINGS.get(coding, coding)}" if has_several_codings else task


def select_task_comparisons(rows: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Select rows for comparing tasks: pairs (model, rows), whose column `series` names the task.

    Only domains that all tasks share are compared, and the domain `all` only if every task has exactly these
    domains and there are at least two of them. Tasks are compared within each model that has several tasks;
    if no model has several, the only pair is ("", rows of all models), whose `series` names the model too.
    """
    domains_by_task = [list_domains(task_rows) for _, task_rows in rows.groupby("exp", sort=False)]
    if len(domains_by_task) < 2:
        return []
    common = [name for name in domains_by_task[0] if all(name in names for names in domains_by_task)]
    if not common:
        return []
    has_same_domains = all(len(names) == len(common) for names in domains_by_task)
    pooled = [ALL] if has_same_domains and len(common) > 1 else []
    names = [name_task(rows, task, coding) for task, coding in zip(rows["exp"], rows["coding"], strict=True)]
    shared = rows.assign(series=names)[rows["domain"].isin([*common, *pooled])]
    by_model = {str(model): group for model, group in shared.groupby("model", sort=False)}
    with_several_tasks = {model: group for model, group in by_model.items() if group["exp"].nunique() > 1}
    if with_several_tasks:
        return [*with_several_tasks.items()]
    return [("", shared.assign(series=shared["model"].astype(str) + ": " + shared["series"]))]


def explain_missing_tau(analyses: pd.DataFrame) -> list[str]:
    """Return a line for each model, task, coding, domain and direction with τ-c withheld, and the remedy.

    If τ-c is missing in all domains, a single line covers them.
    """
    if "reason" not in analyses:  # rows of an older version
        return []
    totals = analyses[analyses["gender"] == ALL].fillna({"reason": ""})
    # If τ-c exists, `reason` explains a missing interval.
    lacks_tau = totals["reason"].ne("") & totals["tau_c"].isna()
    keys = [*SPECIFICATION, "model", "exp", "coding", "direction"]
    all_lack_tau = lacks_tau.groupby([totals[name] for name in keys]).transform("all")
    missing = totals[lacks_tau & (~all_lack_tau | (totals["domain"] == ALL))]
    columns = ["model", "exp", "coding", "domain", "direction"]
    return [
        f"{' '.join(str(row[name]) for name in columns)}: no τ-c. {row['reason']}. {REMEDY}"
        for row in missing.to_dict("records")
    ]
