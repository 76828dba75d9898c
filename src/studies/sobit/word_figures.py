"""Draw the words with the largest |C|, the groups of the nearest faces, and strong and weak words.

C is the association of a word with a group (docs/methods.md, section 4).
"""

from typing import Any

import pandas as pd
from matplotlib.lines import Line2D

from src.report.drawing import Drawing
from src.report.forest_plot import describe_rows, draw_forest_plot, format_digits, sort_by
from src.studies.shared.face_axes import label_axis
from src.studies.sobit.word_rows import ALPHA, list_axes

# Maximum number of words per group in the figure of C. On an axis of two groups, C of one group is the
# negative of the other's: one group is drawn, with twice as many words.
MAX_ASSOCIATED = 6
# Maximum number of words in the figure of nearest faces: on an axis of at most FEW_GROUPS groups, and on one
# of more.
MAX_NEAREST, MAX_NEAREST_MANY_GROUPS, FEW_GROUPS = 6, 3, 8
# Maximum number of words at each end of the strength scale.
MAX_STRONG = 10
ASSOCIATION_CAPTION = (
    "For each group, the words with the largest |C|. As the largest of many values they are overestimates, "
    "and would be smaller for other faces. Each point is C, its line the 95% interval (people resampled), "
    "the number at the right its value. Grey: range of C in 95 of 100 permutations of people's labels, "
    "corrected for the number of groups. Hollow: q > .05 or none."
)
NEAREST_CAPTION = (
    "The words with the largest MaxSkew. As the largest of many values they are overestimates, and would be "
    "smaller for other faces. A bar is a group's share of the nearest faces, its line the 95% interval, the "
    "tick the group's share of all faces (base), and the number at the right their ratio. Grey: range in 95 "
    "of 100 permutations of people's labels, corrected for the number of groups. Hollow: q > .05 or none."
)
STRONG_CAPTION = (
    "Strength: the share of ordinary captions (of frequent words) whose nearest faces are no nearer than "
    "those of this caption. Near 1, some faces are unusually near to the word; near 0, none are, and the "
    "faces that the word retrieves say little. Lines are 95% intervals (people resampled)."
)
BASE_TICK: dict[str, Any] = {"color": "black", "marker": "|", "markersize": 9, "markeredgewidth": 1.6}


def draw_word_figures(rows: pd.DataFrame, model_number: int) -> dict[str, list[Drawing]]:
    """Draw the figures `associations`, `nearest` and `strength` of a model; a missing measure has none.

    `rows` are rows of `word_rows.fill_columns` of one model and specification; `model_number` is part of the
    figures' file names.
    """
    axes = list_axes(rows)
    drawings = {
        "associations": [draw_associations(rows, axis, model_number) for axis in axes],
        "nearest": [draw_nearest(rows, axis, model_number) for axis in axes],
        "strength": [draw_strength(rows, model_number)],
    }
    return {name: [drawing for drawing in candidates if drawing] for name, candidates in drawings.items()}


def draw_associations(rows: pd.DataFrame, axis: str, model_number: int) -> Drawing | None:
    """Draw the words with the largest |C| of each group of an axis; return None without associations."""
    cells = rows[rows["axis"] == axis].dropna(subset=["association"]).drop_duplicates(["caption", "group"])
    if cells.empty:
        return None
    groups = [*dict.fromkeys(cells["group"])]
    is_mirrored = len(groups) == 2
    order = cells["association"].abs().sort_values(ascending=False, kind="stable").index
    largest = cells.loc[order].groupby("group").head(MAX_ASSOCIATED * (1 + is_mirrored))
    largest = largest.sort_values("association", ascending=False, kind="stable")
    drawn_groups = groups[:1] if is_mirrored else groups
    points = sort_by(largest[largest["group"].isin(drawn_groups)], group=drawn_groups)
    title = f"{cells['model'].iloc[0]}: {label_axis(axis)}, largest |C|"
    face_counts = points[["n", "n_rest"]].sum(axis=1)
    figure, _, placed = draw_forest_plot(
        _with_values(points, "association").assign(
            block=points["group"].map(str),
            note=[
                f"n = {n:,.0f} of {total:,.0f} faces"
                for n, total in zip(points["n"], face_counts, strict=True)
            ],
            series="C, 95% interval",
            band_low=-points["null_q95"],
            band_high=points["null_q95"],
            filled=points["q"] <= ALPHA,
        ),
        title=title,
        label="C, in SDs (0: as near as the others' faces)",
        band="permuted labels: 95%",
        hollow="q > .05 or none",
    )
    alt_text = f"Dot plot of C with intervals and nulls. {title}. {describe_rows(placed)}."
    caption = ASSOCIATION_CAPTION + f" For {groups[-1]}, C has the opposite sign." * is_mirrored
    return Drawing(
        f"sobit-associations-{model_number}-{axis.replace(':', '-')}", figure, title, alt_text, caption
    )


def draw_nearest(rows: pd.DataFrame, axis: str, model_number: int) -> Drawing | None:
    """Draw the groups' shares of the nearest faces as bars; return None without retrieval."""
    cells = rows[rows["axis"] == axis].dropna(subset=["share_topk"]).drop_duplicates(["caption", "group"])
    if cells.empty:
        return None
    words = cells.drop_duplicates("caption").sort_values("maxskew", ascending=False, kind="stable")
    max_words = MAX_NEAREST if cells["group"].nunique() <= FEW_GROUPS else MAX_NEAREST_MANY_GROUPS
    captions = words["caption"].head(max_words).tolist()
    points = sort_by(cells[cells["caption"].isin(captions)], caption=captions)
    title = f"{cells['model'].iloc[0]}: {label_axis(axis)}, nearest faces"
    figure, plot, placed = draw_forest_plot(
        points.assign(
            block=points["word"].map(str),
            note=[
                f"MaxSkew {format_digits(skew)}" + f" (null 95th {format_digits(null)})" * pd.notna(null)
                for skew, null in zip(points["maxskew"], points["maxskew_q95"], strict=True)
            ],
            name=points["group"].map(str),
            series="share, 95% interval",
            value=points["share_topk"],
            low=points["share_low"],
            high=points["share_high"],
            band_low=points["base_share"] - points["null_q95"],
            band_high=points["base_share"] + points["null_q95"],
            filled=points["q"] <= ALPHA,
            text=[f"× {format_digits(ratio, 1)}" for ratio in points["ratio"]],
            alt_text=[
                f"{group} {share:.2f} of {base:.2f}"
                for group, share, base in points[["group", "share_topk", "base_share"]].to_numpy()
            ],
        ),
        title=title,
        label="share of the nearest faces",
        band="permuted labels: 95%",
        hollow="q > .05 or none",
        further_entries=[Line2D([], [], label="base", linestyle="", **BASE_TICK)],
        bars=True,
    )
    plot.plot(placed["base_share"], placed["y"], linestyle="", **BASE_TICK)
    plot.set_xlim(0, min(1, plot.get_xlim()[1]))
    alt_text = (
        f"Bars of each group's share of the nearest faces, and its share of all. {title}. "
        f"{describe_rows(placed)}."
    )
    return Drawing(
        f"sobit-nearest-{model_number}-{axis.replace(':', '-')}", figure, title, alt_text, NEAREST_CAPTION
    )


def draw_strength(rows: pd.DataFrame, model_number: int) -> Drawing | None:
    """Draw the strongest and weakest words as dots; return None without strength."""
    words = rows.dropna(subset=["strength"]).drop_duplicates("caption")
    if words.empty:
        return None
    words = words.sort_values(["strength", "similarity"], ascending=False, kind="stable")
    count = min(MAX_STRONG, -(-len(words) // 2))
    ends = {"strongest": words.head(count), "weakest": words.iloc[count:].tail(MAX_STRONG)}
    points = pd.concat([end_rows.assign(block=name) for name, end_rows in ends.items()])
    title = f"{words['model'].iloc[0]}: strong and weak words"
    values = _with_values(points, "strength")
    figure, _, placed = draw_forest_plot(
        values.assign(note=f"of {len(words)} words", series="strength, 95% interval"),
        title=title,
        label="strength",
        limits=(-0.02, 1.02),
    )
    alt_text = f"Dot plot of strength with intervals. {title}. {describe_rows(placed.assign(note=''))}."
    return Drawing(f"sobit-strength-{model_number}", figure, title, alt_text, STRONG_CAPTION)


def _with_values(points: pd.DataFrame, value: str) -> pd.DataFrame:
    """Add the columns of a forest plot of words: the value with its interval, and their texts."""
    name, text = points["word"].map(str), points[value].map(format_digits)
    points = points.assign(name=name, text=text, alt_text=name + " " + text, value=points[value])
    return points.assign(low=points[f"{value}_low"], high=points[f"{value}_high"])
