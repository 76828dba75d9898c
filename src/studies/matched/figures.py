"""Draw forest plots of matched pictures: shares and ranks by caption, and levels."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from src.report.drawing import Drawing
from src.report.forest_plot import describe_rows, draw_forest_plot, format_digits, sort_by
from src.report.format import format_number
from src.studies.matched.captions import ALL_CAPTIONS, ALL_GROUPS

MAX_POINTS = 60
BAND = "permutations within sets: 95%"
HOLLOW = "q > .05, or none"


def draw_shares(rows: pd.DataFrame, *, title: str, models: Sequence[str]) -> Drawing:
    """Draw the shares of groups among the first retrieved, with intervals and null bands, by caption."""
    recall = rows["recall"].map(format_number) + " (random " + rows["recall_random"].map(format_number) + ")"
    columns = {"value": "share_topk", "low": "share_low", "high": "share_high"}
    columns |= {"band_low": "null_low", "band_high": "null_high"}
    rows = rows.assign(note="recall " + recall if len(models) == 1 else "")
    caption = (
        "Points: share of a group among the first retrieved, with its 95% interval over sets; grey: 95% of "
        "permutations of the groups within sets."
    )
    return _draw(
        rows, columns, ("p", "q"), "matched-shares", "share of the first retrieved", title, models, caption
    )


def draw_ranks(rows: pd.DataFrame, *, title: str, models: Sequence[str]) -> Drawing:
    """Draw the mean normalised ranks of groups within sets, by caption."""
    columns = {"value": "rank", "low": "rank_low", "high": "rank_high"}
    columns |= {"band_low": "rank_null_low", "band_high": "rank_null_high"}
    caption = (
        "Points: mean rank of a group's picture within its set by similarity to the caption (0 nearest, 1 "
        "farthest, .5 without effect), with its 95% interval over sets; grey: as for shares."
    )
    label = "rank within the set (0: nearest)"
    return _draw(
        rows, columns, ("rank_p", "rank_q"), "matched-ranks", label, title, models, caption, zero=0.5
    )


def draw_levels(rows: pd.DataFrame, *, title: str, models: Sequence[str]) -> Drawing:
    """Draw the level of each group within sets."""
    rows = sort_by(rows[rows["group"] != ALL_GROUPS], group=[], model=models)
    is_first = rows["group"] != rows["group"].shift()
    drawn = rows.assign(
        name=rows["group"].where(is_first, ""),
        series=rows["model"],
        value=rows["level"],
        low=rows["level_low"],
        high=rows["level_high"],
        band_low=rows["null_low"],
        band_high=rows["null_high"],
        filled=rows["level_q"] <= 0.05,
        text=[format_digits(value, 3) for value in rows["level"]],
    )
    figure, _, placed = draw_forest_plot(
        drawn,
        title=title,
        label="level within sets (valence)",
        series=models if len(models) > 1 else (),
        band=BAND,
        hollow=HOLLOW,
    )
    placed["alt_text"] = placed["group"] + ", " + placed["series"] + " " + placed["text"]
    caption = (
        "Points: mean valence retrieved by a group's pictures minus that of others of the set, with its "
        "95% interval over sets; grey: 95% of permutations of the groups within sets."
    )
    return Drawing("matched-levels", figure, title, f"{title}. {describe_rows(placed)}.", caption)


def _draw(
    rows: pd.DataFrame,
    columns: dict[str, str],
    tests: tuple[str, str],
    name: str,
    label: str,
    title: str,
    models: Sequence[str],
    caption: str,
    zero: float | None = None,
) -> Drawing:
    """Draw columns of the captions with the smallest p, after the means; `tests` are columns of p and q."""
    p, q = tests
    smallest = rows.groupby("caption", sort=False)[p].min().drop(ALL_CAPTIONS).sort_values(kind="stable")
    per_caption = rows["group"].nunique() * rows["model"].nunique()
    count = max(1, MAX_POINTS // per_caption - 1)
    captions = [ALL_CAPTIONS, *smallest.index[:count]]
    groups = [*dict.fromkeys(rows["group"])]
    drawn = sort_by(rows[rows["caption"].isin(captions)], caption=captions, group=groups, model=models)
    is_first = (drawn["caption"] != drawn["caption"].shift()) | (drawn["group"] != drawn["group"].shift())
    is_significant = np.where(drawn["caption"] == ALL_CAPTIONS, drawn[p], drawn[q]) <= 0.05
    drawn = drawn.assign(
        block=drawn["caption"],
        note=drawn.get("note", ""),
        name=drawn["group"].where(is_first, ""),
        series=drawn["model"],
        filled=is_significant,
        text=[format_digits(value) for value in drawn[columns["value"]]],
        **{target: drawn[source] for target, source in columns.items()},
    )
    base = drawn["base_share"].to_numpy()
    if zero is None:
        zero = float(base[0]) if np.ptp(base) < 1e-9 else 0.0
    figure, _, placed = draw_forest_plot(
        drawn,
        title=title,
        label=label,
        series=models if len(models) > 1 else (),
        band=BAND,
        hollow=HOLLOW,
        zero=zero,
    )
    placed["alt_text"] = placed["group"] + ", " + placed["series"] + " " + placed["text"]
    if count < len(smallest):
        caption += f" Drawn: the {count} of {len(smallest)} captions with the smallest p."
    return Drawing(name, figure, title, f"Forest plot: {label}. {title}. {describe_rows(placed)}.", caption)
