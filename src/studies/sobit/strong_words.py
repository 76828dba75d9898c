"""Words that have faces near to them, and words that have none."""

from __future__ import annotations

import pandas as pd

from src.report.drawing import Drawing
from src.report.forest_plot import forest_plot, in_digits, in_words

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
    shown = pd.concat([rows.assign(block=name) for name, rows in ends.items()])
    shown = shown.assign(
        note=f"of {len(known)} words",
        name=shown["word"].map(str),
        series="strength, 95% interval",
        text=shown["strength"].map(in_digits),
    ).rename(columns={"strength": "value", "strength_low": "low", "strength_high": "high"})
    figure, _, placed = forest_plot(
        shown.assign(words=shown["name"] + " " + shown["text"]),
        title=title,
        label="strength",
        limits=(-0.02, 1.02),
    )
    alternative = f"Dot plot of strength with intervals. {title}. {in_words(placed.assign(note=''))}."
    return Drawing(f"sobit-strength-{number}", figure, title, alternative, CAPTION)
