"""The words that each group's faces are associated with most, with intervals and nulls."""

from __future__ import annotations

import pandas as pd

from src.report.drawing import Drawing
from src.report.forest_plot import forest_plot, in_digits, in_words
from src.studies.sobit.word_rows import NAMED, SMALL

# Words of a group; of an axis of two groups, whose C's are each other's with the sign turned, twice as many.
WORDS = 6
VALUES = {
    "association": "value",
    "association_low": "low",
    "association_high": "high",
    "null_q95": "band_high",
}
CAPTION = (
    "Of each group the words with the largest |C|, chosen among all: the largest of many lean outwards, and "
    "would do less in other faces. Each point is C, its line the 95% interval (faces resampled), the number "
    "at the right its value. Grey: where |C| lies in 95 of 100 permutations of the faces' labels, allowing "
    "for the number of groups."
)


def skewed(rows: pd.DataFrame, axis: str, number: int) -> Drawing | None:
    """Dots of the most skewed words of each group of an axis; None where no association was measured.

    Args:
        rows: `words.completed` of one model and reading.
        axis: which.
        number: of the model, for the file's name.
    """
    known = rows[rows["axis"] == axis].dropna(subset=["association"]).drop_duplicates(["caption", "group"])
    if known.empty:
        return None
    groups = [*dict.fromkeys(known["group"])]
    mirrored = len(groups) == 2
    chosen = pd.concat(
        [_most(known, group, WORDS * (1 + mirrored)) for group in groups[: 1 if mirrored else None]]
    )
    title = f"{known['model'].iloc[0]}: {NAMED.get(axis, axis)}, largest |C|"
    told = CAPTION + f" Of {groups[1]} they are the same with the sign turned." * mirrored
    faces = chosen[["n", "n_rest"]].sum(axis=1)
    rows = chosen.assign(
        block=chosen["group"].map(str),
        note=[f"n = {n:,.0f} of {every:,.0f} faces" for n, every in zip(chosen["n"], faces, strict=True)],
        name=chosen["word"].map(str),
        series="C, 95% interval",
        band_low=-chosen["null_q95"],
        filled=chosen["q"] <= SMALL,
        text=chosen["association"].map(in_digits),
    ).rename(columns=VALUES)
    figure, _, placed = forest_plot(
        rows.assign(words=rows["name"] + " " + rows["text"]),
        title=title,
        label="C, in SDs (0: as near as the others' faces)",
        band="permuted labels: 95%",
        hollow="q > .05",
    )
    alternative = f"Dot plot of C with intervals and nulls. {title}. {in_words(placed)}."
    return Drawing(f"sobit-skewed-{number}-{axis}", figure, title, alternative, told)


def _most(known: pd.DataFrame, group: str, count: int) -> pd.DataFrame:
    own = known[known["group"] == group]
    largest = own["association"].abs().sort_values(ascending=False, kind="stable").index[:count]
    return own.loc[largest].sort_values("association", ascending=False, kind="stable")
