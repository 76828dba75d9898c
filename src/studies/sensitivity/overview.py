"""Select and summarise changes by perturbations for page, terminal and conclusions."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from src.report.findings import list_specifications
from src.report.forest_plot import format_digits
from src.studies.sensitivity.changes import PERTURB
from src.studies.shared.job_pairs import FURTHER_NAMES

ALL = "all"
# Columns that identify a job, besides its perturbation, within a specification.
JOB = ["study", "exp", *FURTHER_NAMES, "model"]


def select_first_specification(rows: pd.DataFrame) -> tuple[pd.DataFrame, str, int]:
    """Select the rows of the first specification, perturbations aside; return its name and how many others.

    `rows` are those of `compute_changes` with results, or its summary.
    """
    columns = ["protocol", "seed", "debias"]
    specifications = list_specifications(rows.assign(perturb="none"))
    if not specifications:
        return rows, "", 0
    first = specifications[0]
    selected = rows[(rows[columns] == first[:3]).all(axis=1)]
    name = f"protocol {first[0]}, seed {first[1]}" + (f", debias {first[2]}" if first[2] != "none" else "")
    return selected, name, len(specifications) - 1


def select_main_measures(summary: pd.DataFrame) -> pd.DataFrame:
    """Select the first measure with a known unbiased value (a defined `size`) of each job."""
    return summary.dropna(subset=["size"]).drop_duplicates([*JOB, PERTURB])


def label_experiments(rows: pd.DataFrame) -> pd.Series:
    """Label rows by experiment and, if it has several, by list of words or classes."""
    # Words and classes are of different experiments.
    words, classes = (rows[name].fillna("").astype(str) for name in FURTHER_NAMES)
    lists = words + classes
    has_several = lists.groupby([rows["study"], rows["exp"]]).transform("nunique") > 1
    names = rows["exp"].astype(str)
    return names.where(~has_several, names + ", " + lists)


def summarise_perturbations(summary: pd.DataFrame) -> pd.DataFrame:
    """Summarise the main measures by perturbation, over all models and for each of several.

    Returns:
        One row per perturbation and model (or `ALL`): `perturb`, `model`; `comparisons`, pairs of jobs whose
        main measure has a relative change; its `median`, `lowest` and `highest`; `clear`, how many have an
        interval that excludes 0; `statistics`, the main measures' analyses with an interval; `exceeding`, how
        many of these move more than they measure.
    """
    main = select_main_measures(summary)
    models = [*dict.fromkeys(main["model"])]
    rows: list[dict[str, Any]] = []
    for perturb, perturb_rows in main.groupby(PERTURB, sort=False):
        for model in [ALL, *(models if len(models) > 1 else [])]:
            chosen = perturb_rows if model == ALL else perturb_rows[perturb_rows["model"] == model]
            relative = chosen["relative"].dropna()
            is_clear = (chosen["relative_low"] > 0) | (chosen["relative_high"] < 0)
            row = {
                PERTURB: perturb,
                "model": model,
                "comparisons": len(relative),
                "clear": int(is_clear.sum()),
            }
            row |= {"median": relative.median(), "lowest": relative.min(), "highest": relative.max()}
            row |= {"statistics": int(chosen["intervals"].sum()), "exceeding": int(chosen["exceeding"].sum())}
            rows.append(row)
    columns = [PERTURB, "model", "comparisons", "median", "lowest", "highest", "clear", "statistics"]
    return pd.DataFrame(rows, columns=[*columns, "exceeding"])


def format_share(value: float) -> str:
    """Format a relative change in percent, with its sign; a dash if it is undefined.

    >>> format_share(-0.434), format_share(0.2), format_share(-0.001), format_share(float("nan"))
    ('−43%', '+20%', '0%', '–')
    """
    if pd.isna(value):
        return "–"
    text = format_digits(100 * value, 0)
    return ("+" if value > 0 and text != "0" else "") + text + "%"


def describe_perturbation(row: Mapping[Any, Any]) -> str:
    """Describe a row of `summarise_perturbations` in a sentence."""
    if not row["comparisons"]:
        relative = "no relative change is defined"
    elif row["comparisons"] == 1:
        relative = f"what is measured changes by {format_share(row['median'])}"
    else:
        relative = (
            f"what is measured changes by {format_share(row['median'])} (median of {row['comparisons']} "
            f"experiments and models, {format_share(row['lowest'])} to {format_share(row['highest'])}; the "
            f"interval excludes 0 in {row['clear']})"
        )
    return (
        f"With perturb={row[PERTURB]}, {relative}; {row['exceeding']} of {row['statistics']} measures move "
        "more than they measure."
    )


def draw_conclusions(summary: pd.DataFrame) -> list[str]:
    """Return a sentence per perturbation."""
    rows = summarise_perturbations(summary)
    return [describe_perturbation(row) for row in rows[rows["model"] == ALL].to_dict("records")]
