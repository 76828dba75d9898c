"""Draw the forest plot of embedding association tests."""

from collections.abc import Sequence

import pandas as pd

from src.report.drawing import Drawing
from src.report.forest_plot import describe_rows, draw_forest_plot, format_digits, sort_by

# Names of the orders in figures, tables and sentences: targets, then attributes.
ORDER_LABELS = {
    "image_image": "images to images",
    "image_text": "images to texts",
    "text_image": "texts to images",
    "text_text": "texts to texts",
}
MAX_POINTS = 60
NAME = "association-tests"


def draw_tests(rows: pd.DataFrame, *, title: str, models: Sequence[str]) -> Drawing:
    """Draw d of each test with its interval and the range of random partitions, in blocks by test.

    `rows` are of analyses.csv. Of more than `MAX_POINTS` rows, the tests with the largest mean |d| are drawn.
    """
    sizes = (
        rows["d"].abs().groupby(rows["test"], sort=False).mean().sort_values(ascending=False, kind="stable")
    )
    count = max(1, MAX_POINTS * len(sizes) // len(rows))
    tests = [*sizes.index[:count]]
    orders = [order for order in ORDER_LABELS if order in set(rows["order"])]
    drawn = sort_by(rows[rows["test"].isin(tests)], test=tests, order=orders, model=models)
    is_first = (drawn["test"] != drawn["test"].shift()) | (drawn["order"] != drawn["order"].shift())
    drawn = drawn.assign(
        block=drawn["test"],
        name=drawn["order"].map(ORDER_LABELS).where(is_first, ""),
        series=drawn["model"],
        value=drawn["d"],
        low=drawn["d_low"],
        high=drawn["d_high"],
        band_low=drawn["null_low"],
        band_high=drawn["null_high"],
        filled=(drawn["d_low"] > 0) | (drawn["d_high"] < 0),
        text=[format_digits(value) for value in drawn["d"]],
    )
    figure, _, placed = draw_forest_plot(
        drawn,
        title=title,
        label="d (above 0: X nearer to A)",
        series=models if len(models) > 1 else (),
        band="random partitions: 95%",
        hollow="interval has 0, or none",
    )
    alt_texts = placed["order"].map(ORDER_LABELS) + ", " + placed["series"] + " " + placed["text"]
    alt_text = describe_rows(placed.assign(alt_text=alt_texts))
    caption = "Points: d with its 95% interval over targets; grey: 95% of random partitions of X and Y."
    if count < len(sizes):
        caption += f" Drawn: the {count} of {len(sizes)} tests with the largest |d|."
    return Drawing(NAME, figure, title, f"Forest plot of d. {title}. {alt_text}.", caption)
