"""Draw the shares of variance that predictors explain."""

from collections.abc import Iterator

import pandas as pd

from src.report.drawing import Drawing
from src.report.forest_plot import describe_rows, draw_forest_plot
from src.studies.predictors.family_table import LABELS, OUTCOMES, name_outcome
from src.studies.predictors.regression import ALL


def plot_shares(shares: pd.DataFrame) -> Iterator[Drawing]:
    """Plot the share of each predictor with its interval and null: a figure per outcome.

    A block is an experiment. `shares` is the first result of `regress_outcomes`; an outcome without a
    regression has no figure.
    """
    defined = shares[shares["share"].notna()]
    for outcome, rows in defined.groupby("outcome", sort=False):
        yield _plot_outcome(str(outcome), rows)


def _plot_outcome(outcome: str, rows: pd.DataFrame) -> Drawing:
    title = f"What predicts {OUTCOMES[outcome]}"
    if outcome == "d" and rows["exp"].nunique() == 1:
        # The name of a block has no room for both.
        title += f" of {rows['exp'].iloc[0]}"
        names = rows["order"]
    else:
        names = pd.Series([name_outcome(row) for row in rows.to_dict("records")], rows.index)
    totals = rows["predictor"] == ALL
    notes = {
        name: _describe_total(row)
        for name, (_, row) in zip(names[totals], rows[totals].iterrows(), strict=True)
    }
    rows, names = rows[~totals], names[~totals]
    percents = {
        column: 100 * rows[source]
        for column, source in (
            ("value", "share"),
            ("low", "low"),
            ("high", "high"),
            ("band_low", "null_low"),
            ("band_high", "null_high"),
        )
    }
    texts = rows["share"].map("{:.0%}".format)
    labels = rows["predictor"].map(LABELS)
    drawn = pd.DataFrame(
        {
            "block": names,
            "note": names.map(notes),
            "name": labels,
            "text": texts,
            "filled": rows["share"] > rows["null_high"],
            "alt_text": labels + " " + texts,
            **percents,
        }
    )
    figure, _, placed = draw_forest_plot(
        drawn,
        title=title,
        label="share of the variance explained (%)",
        band="shuffled families: 95%",
        hollow="within that range",
        bars=True,
        limits=(0, 100),
    )
    caption = (
        "Shares of the variance of family means, averaged over all orders of entry, with 95% intervals over "
        "families; grey: 95% of 10,000 permutations of the outcome over families."
    )
    alt_text = f"Forest plot. {title}: share of the variance explained. {describe_rows(placed)}."
    return Drawing(f"predictors-{outcome}", figure, title, alt_text, caption)


def _describe_total(row: pd.Series) -> str:
    return f"R² {row['share']:.0%}, shuffled {row['null_mean']:.0%}; {row['families']} families"
