"""Words that have faces near to them, and words that have none."""

from __future__ import annotations

import pandas as pd
from matplotlib.lines import Line2D

from src.report.drawing import Drawing
from src.report.forest_plot import ROW, at_right, number_said
from src.studies.sobit import row_figure

WORDS = 10
CAPTION = (
    "Strength: the share of ordinary captions, of frequent words, whose nearest faces are no nearer than "
    "this one's. Near 1 the encoder has faces that it places by the word; near 0 it has none, and what the "
    "word retrieves says little. Lines are 95% intervals (faces resampled)."
)


def strong(rows: pd.DataFrame, number: int) -> Drawing | None:
    """Dots of the strongest and the weakest words; None where no strength was measured.

    Args:
        rows: `words.completed` of one model and reading.
        number: of the model, for the file's name.
    """
    known = rows.dropna(subset=["strength"]).drop_duplicates("caption")
    if known.empty:
        return None
    known = known.sort_values(["strength", "similarity"], ascending=False, kind="stable")
    count = min(WORDS, -(-len(known) // 2))
    blocks = {"strongest": known.head(count), "weakest": known.iloc[count:].tail(WORDS)}
    blocks = {name: own for name, own in blocks.items() if len(own)}
    title = f"{known['model'].iloc[0]}: strong and weak words"
    height = sum(row_figure.HEAD + ROW * len(own) for own in blocks.values()) + 0.1
    point = Line2D(
        [],
        [],
        linestyle="",
        marker="o",
        markersize=6,
        color=row_figure.COLOUR,
        label="strength, 95% interval",
    )
    figure, axes = row_figure.named(height, title, [point])
    y, said = 0.0, []
    for name, own in blocks.items():
        y += row_figure.HEAD
        row_figure.head(axes, y, name, f"of {len(known)} words")
        at = []
        for row in own.to_dict("records"):
            at.append((row["strength"], y + ROW / 2))
            row_figure.name(axes, y + ROW / 2, str(row["word"]))
            at_right(axes, y + ROW / 2, number_said(row["strength"]))
            y += ROW
        heights = [place for _, place in at]
        axes.hlines(
            heights,
            own["strength_low"],
            own["strength_high"],
            color=row_figure.COLOUR,
            linewidth=1.6,
            zorder=3,
        )
        row_figure.points(axes, at, filled=True)
        values = ", ".join(f"{row['word']} {number_said(row['strength'])}" for row in own.to_dict("records"))
        said.append(f"{name}: {values}")
    axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel("strength", fontsize=8.5)
    alternative = f"Dot plot of strength with intervals. {title}. {'; '.join(said)}."
    return Drawing(f"sobit-strength-{number}", figure, title, alternative, CAPTION)
