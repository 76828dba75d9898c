"""Name languages, and summarise differences to English for page, terminal and conclusions."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import pandas as pd
import yaml

from src.configs import CONF, ENGLISH
from src.report.format import format_number
from src.studies.languages.differences import COUNTS, DIFFERS, INTERPRETED, JOB
from src.studies.languages.validity import LABELS, LANGUAGE, NO, RATINGS, WORDS, YES

# Text -> by what it is placed, and an experiment that checks it.
CHECKS = {WORDS: ("valence", "words_to_scenes"), LABELS: ("group", "labels_to_faces")}
NUMBERS = {"validity": 2, "low": 3, "high": 3}  # digits of numbers in sentences
COUNTED = ("level", "rho")  # measures whose differences are counted


@cache
def _load_names() -> dict[str, str]:
    """Load the names of the languages of this repository by their codes."""
    paths = sorted((CONF / "language").glob("*.yaml"))
    return {path.stem: str(yaml.safe_load(path.read_text("utf-8"))["name"]) for path in paths}


def name_language(language: str) -> str:
    """Name a language in English; of those defined elsewhere, return the code.

    >>> name_language("es"), name_language("es+stemmer=None"), name_language("eo")
    ('Spanish', 'Spanish (es+stemmer=None)', 'eo')
    """
    name = _load_names().get(language.partition("+")[0], language)
    return f"{name} ({language})" if "+" in language and name != language else name


def label_languages(rows: pd.DataFrame) -> pd.Series:
    """Name the language of each row; of several jobs that differ in their words only, add what differs.

    That is whose ratings the words have, or where these are the same, the first letters of `config`.
    """
    job, rows = [*JOB, LANGUAGE], rows.fillna({"paper": "", RATINGS: ""})
    names = rows[LANGUAGE].map(name_language)
    several_ratings = rows.groupby(job)[RATINGS].transform("nunique") > 1
    names = names.where(~several_ratings, names + ", " + rows[RATINGS] + " ratings")
    several = rows.groupby([*job, RATINGS])["config"].transform("nunique") > 1
    return names.where(~several, names + " " + rows["config"].fillna("").str[:6])


def summarise_languages(rows: pd.DataFrame) -> pd.DataFrame:
    """Summarise the rows of a specification, with a column `label`, by model, language and text.

    Returns:
        One row per model, `label` and `text`: `scopes`, groups of labels (words: 1), of which `placed` are
        placed and `not_placed` are not; `validity`, `low`, `high`: mean validity and, of words, the interval
        of `measured`; `n_texts`, of which `n_unread` are left out, as they are not read whole; for each of
        `COUNTED`, differences that are `interpreted`, and of those that `differ`.
    """
    summaries: list[dict[str, Any]] = []
    for (model, language, label, text), texts in rows.dropna(subset=["text"]).groupby(
        ["model", LANGUAGE, "label", "text"], sort=False
    ):
        scopes = texts.assign(scope=texts["item"] if text == LABELS else "").drop_duplicates("scope")
        checks = texts[texts["checks"].astype(bool)]
        measured = checks[checks["measure"] == "measured"]
        summary = {"model": model, LANGUAGE: language, "label": label, "text": text, "scopes": len(scopes)}
        summary |= {"placed": (scopes["placed"] == YES).sum(), "not_placed": (scopes["placed"] == NO).sum()}
        summary["validity"] = checks.loc[checks["measure"] == "validity", "value"].mean()
        summary |= {end: measured[end].min() if text == WORDS else float("nan") for end in ("low", "high")}
        summary |= {name: texts[name].max() for name in COUNTS}
        for measure in COUNTED:
            verdicts = texts.loc[texts["measure"] == measure, "verdict"]
            summary |= {
                f"{measure}_interpreted": verdicts.isin(INTERPRETED).sum(),
                f"{measure}_differ": (verdicts == DIFFERS).sum(),
            }
        summaries.append(summary)
    names = ["model", LANGUAGE, "label", "text", "scopes", "placed", "not_placed", "validity", "low", "high"]
    names += COUNTS
    counts = [f"{measure}_{count}" for measure in COUNTED for count in ("interpreted", "differ")]
    return pd.DataFrame(summaries, columns=[*names, *counts])


def describe_placement(row: Mapping[Any, Any]) -> str:
    """Describe whether texts are placed, of a row of `summarise_languages`, in a sentence."""
    by, exp = CHECKS[row["text"]]
    texts = f"the {row['text']} of {row['label']} by {by}"
    if row["placed"] == row["scopes"]:
        return f"{row['model']} places {texts}."
    if row["text"] == LABELS and row["placed"] + row["not_placed"]:
        unread = "the others" if row["placed"] else "them"
        return (
            f"{row['model']} places {texts} for {row['placed']} of {row['scopes']} groups: no ρ and no level "
            f"with {unread} is interpreted."
        )
    if row["not_placed"]:
        numbers = [format_number(row[name], digits) for name, digits in NUMBERS.items()]
        return (
            f"{row['model']} does not place {texts} (validity {numbers[0]}; interval of the measured level "
            f"{numbers[1]} to {numbers[2]}, not above 0): no ρ and no level with them is interpreted."
        )
    return (
        f"It is unknown whether {row['model']} places {texts}, as exp={exp} is not in the sweep or has no "
        "interval: no ρ and no level with them is interpreted."
    )


def describe_unread(row: Mapping[Any, Any]) -> str:
    """Describe how many texts are left out, as they are not read whole; empty if none or unknown."""
    if not row["n_unread"] > 0:
        return ""
    share = format_number(100 * row["n_unread"] / row["n_texts"], 1)
    return (
        f" {row['model']} does not read {row['n_unread']:.0f} of {row['n_texts']:.0f} {row['text']} of "
        f"{row['label']} whole ({share}%): they are left out."
    )


def describe_row(row: Mapping[Any, Any]) -> str:
    """Describe a row of `summarise_languages`: placement, differences to English, and texts left out."""
    return describe_placement(row) + describe_differences(row) + describe_unread(row)


def describe_differences(row: Mapping[Any, Any]) -> str:
    """Describe how many differences to English have an interval without 0; empty if none is interpreted."""
    counts = [
        f"{row[f'{measure}_differ']} of {row[f'{measure}_interpreted']} {noun}"
        for measure, noun in zip(COUNTED, ("levels", "ρ"), strict=True)
        if row[f"{measure}_interpreted"]
    ]
    if not counts:
        return ""
    return f" With them, {' and '.join(counts)} differ from English (interval without 0)."


def draw_conclusions(summary: pd.DataFrame) -> list[str]:
    """Return a sentence on each model, language and text; on English only if its texts are not placed."""
    return [
        describe_row(row)
        for row in summary.to_dict("records")
        if row[LANGUAGE] != ENGLISH or row["placed"] < row["scopes"]
    ]
