"""Words that have faces near to them, and words that have none."""

from __future__ import annotations

import pandas as pd

from src.report.drawing import Drawing
from src.report.forest_plot import number_said
from src.studies.sobit import row_figure
from src.studies.sobit.row_figure import Block, in_blocks

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
    ends = {"strongest": known.head(count), "weakest": known.iloc[count:].tail(WORDS)}
    title = f"{known['model'].iloc[0]}: strong and weak words"
    blocks = [
        Block(
            name,
            f"of {len(known)} words",
            [*zip(own["word"].map(str), own["strength"].map(number_said), strict=True)],
        )
        for name, own in ends.items()
        if len(own)
    ]
    figure, axes, heights = in_blocks(title, [row_figure.point("strength, 95% interval")], blocks)
    shown = pd.concat(ends.values())
    low, high = shown["strength_low"], shown["strength_high"]
    axes.hlines(heights, low, high, color=row_figure.COLOUR, linewidth=1.6, zorder=3)
    row_figure.points(axes, shown["strength"], heights, filled=True)
    said = [f"{name}: {', '.join(map(' '.join, rows))}" for name, _, rows in blocks]
    axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel("strength", fontsize=8.5)
    alternative = f"Dot plot of strength with intervals. {title}. {'; '.join(said)}."
    return Drawing(f"sobit-strength-{number}", figure, title, alternative, CAPTION)
