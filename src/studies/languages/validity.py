"""Check whether an encoder places a language's words by valence and its labels by group (methods, 10.1)."""

from dataclasses import dataclass

import pandas as pd

from src.report.findings import Findings

LANGUAGE = "language"  # column of the language
# Column of whose ratings the words have, where they are not English; see `src.configs.classify_ratings`.
RATINGS = "ratings"
WORDS, LABELS = "words", "labels"  # texts of a job
YES, NO, UNKNOWN = "yes", "no", "unknown"  # whether texts are placed
# Columns in which jobs whose texts are the same agree; of labels, items are groups.
SHARED = ["study", "model", "dataset", "debias", "perturb", "protocol", "seed", LANGUAGE, RATINGS, "text"]
SHARED += ["scope"]


@dataclass(frozen=True)
class Texts:
    """Texts of a job."""

    name: str  # `WORDS` if they have ratings, `LABELS` if they have groups
    are_targets: bool  # whether they are the targets, and pictures the corpus
    match_pictures: bool  # whether the pictures have the same property, ratings or groups


def describe_texts(findings: Findings, config: str) -> Texts:
    """Describe the texts of a job by its tables of targets and of sets A and B."""
    sets = findings.read(config, "attributes").reindex(columns=["group", "template"])
    targets = findings.read(config, "targets").reindex(columns=["valence"])
    corpus_has_ratings = bool(sets["group"].isna().all())
    targets_have_ratings = bool(targets["valence"].notna().any())
    # A corpus of pictures has no templates.
    are_targets = bool(sets["template"].isna().all())
    have_ratings = targets_have_ratings if are_targets else corpus_has_ratings
    name = WORDS if have_ratings else LABELS
    return Texts(name, are_targets, corpus_has_ratings == targets_have_ratings)


def add_placement(values: pd.DataFrame, findings: Findings) -> pd.DataFrame:
    """Add the columns `text`, `text_targets`, `checks` and `placed` to values of jobs.

    `checks`: whether the job shows if texts are placed: its targets are the texts, and its pictures have the
    same property (words and rated scenes, labels and faces). With pictures as targets, the interval would not
    cover other texts: any direction, even that of meaningless words, correlates with the ratings that the
    vectors of scenes encode. `placed`: whether the interval of `measured` is above 0 in every such job with
    the same texts; `NO` if it is not in one of them, `UNKNOWN` without such a job or interval.
    """
    texts = {config: describe_texts(findings, config) for config in values["config"].unique()}
    described = values["config"].map(texts)
    values = values.assign(
        text=[each.name for each in described],
        text_targets=[each.are_targets for each in described],
        checks=[each.are_targets and each.match_pictures for each in described],
    )
    values[RATINGS] = values.reindex(columns=[RATINGS])[RATINGS].fillna("")
    values["scope"] = values["item"].where(values["text"] == LABELS, "")
    measured = values[(values["measure"] == "measured") & values["checks"]]
    placed = {key: _classify(lows) for key, lows in measured.groupby(SHARED, sort=False)["low"]}
    keys = values[SHARED].itertuples(index=False, name=None)
    return values.assign(placed=[placed.get(key, UNKNOWN) for key in keys])


def _classify(lows: pd.Series) -> str:
    """Classify texts by the lower ends of intervals of `measured`."""
    if (lows <= 0).any():
        return NO
    return UNKNOWN if lows.isna().any() else YES
