"""Draw forest plots of the shares of groups that are classified as harmful, or as their own group."""

from collections.abc import Sequence

import pandas as pd

from src.errors import first_few
from src.report.drawing import Drawing
from src.report.forest_plot import describe_rows, draw_forest_plot, format_digits, sort_by
from src.studies.harms.outcomes import ACCURACY, ALL_GROUPS, FPR, SHARE, TPR

MAX_POINTS = 60
BAND = "groups permuted: 95%"
HOLLOW = "p > .05, or none"
LABELS = {
    ACCURACY: "right, among groups",
    TPR: "right, among all classes",
    FPR: "others' faces in its class",
}


def label_outcome(kind: str, measure: str) -> str:
    """Return the label of an outcome: its kind of classes or, of the classes of groups, its measure."""
    return LABELS.get(measure, kind.replace("_", " "))


def label_experiments(rows: pd.DataFrame) -> pd.Series:
    """Return the experiment of each row, with its list of classes and its groups where it has several.

    Jobs of an experiment may differ in `classes`, and in the groups that they compare (`exp.axis`,
    `exp.groups`).
    """
    members = rows[rows["group"] != ALL_GROUPS].drop_duplicates(["config", "group"])
    groups = rows["config"].map(
        members.groupby("config", sort=False)["group"].agg(lambda names: first_few(names, len(names)))
    )
    labels = rows["exp"].astype(str)
    for names in (", " + rows["classes"], " (" + groups + ")"):
        has_several = names.groupby(rows["exp"]).transform("nunique") > 1
        labels = labels.where(~has_several, labels + names)
    return labels


def draw_shares(rows: pd.DataFrame, *, title: str, models: Sequence[str], are_harms: bool = True) -> Drawing:
    """Draw the share of each group, with intervals and null bands, by kind of class.

    Args:
        rows: rows of analyses.csv of an experiment.
        title: title of the figure.
        models: names of the models, in the order of their colours.
        are_harms: whether to draw shares of kinds; False: accuracies and false positives of groups.
    """
    rows = rows[(rows["measure"] == SHARE) == are_harms]
    outcomes = rows[["kind", "measure"]].drop_duplicates()
    groups = [*dict.fromkeys(rows["group"])]
    count = max(1, MAX_POINTS // (len(groups) * len(outcomes)))
    rows = sort_by(
        rows[rows["model"].isin(models[:count])],
        kind=[*dict.fromkeys(rows["kind"])],
        measure=[*dict.fromkeys(rows["measure"])],
        group=groups,
        model=models,
    )
    blocks = [label_outcome(*each) for each in zip(rows["kind"], rows["measure"], strict=True)]
    is_first = (rows["group"] != rows["group"].shift()) | (
        pd.Series(blocks, rows.index).ne(pd.Series(blocks, rows.index).shift())
    )
    drawn = rows.assign(
        block=blocks,
        name=rows["group"].where(is_first, ""),
        series=rows["model"],
        value=rows["share"],
        low=rows["share_low"],
        high=rows["share_high"],
        band_low=rows["null_low"],
        band_high=rows["null_high"],
        filled=(rows["p"] <= 0.05) | (rows["group"] == ALL_GROUPS),
        text=[format_digits(value, 3) for value in rows["share"]],
    )
    figure, _, placed = draw_forest_plot(
        drawn,
        title=title,
        label="share of the group's faces" if are_harms else "share of faces",
        series=models if len(models) > 1 else (),
        band=BAND,
        hollow=HOLLOW,
        limits=(0, None),
    )
    placed["alt_text"] = placed["group"] + ", " + placed["series"] + " " + placed["text"]
    caption = (
        "Points: share of faces in a class of the kind"
        if are_harms
        else "Points: share of faces in the class of their group, or of other groups' faces in it"
    )
    caption += ", with its 95% interval over people; grey: 95% of permutations of the groups over people."
    if count < len(models):
        caption += f" Drawn: the first {count} of {len(models)} models."
    name = "harms" if are_harms else "harms-accuracy"
    return Drawing(name, figure, title, f"Forest plot of shares. {title}. {describe_rows(placed)}.", caption)
