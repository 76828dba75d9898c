"""State how many spreads between groups debiasing reduces, increases or leaves equivalent."""

import pandas as pd

from src.studies.debiasing.changes import INTRINSIC, OUTCOME
from src.studies.debiasing.estimates import without_distinguishability
from src.studies.shared.spreads import MARGIN, VERDICTS


def draw_conclusions(changes: pd.DataFrame, score: str) -> list[str]:
    """Return a list with a sentence with the number of spreads by verdict; an empty list without spreads.

    Args:
        changes: changes of one specification.
        score: name of the intrinsic score.
    """
    spreads = without_distinguishability(changes).dropna(subset=["verdict"])
    if spreads.empty:
        return []
    measured, retrieved = (
        _format_counts(spreads.loc[spreads["measure"] == measure, "verdict"])
        for measure in (INTRINSIC, OUTCOME)
    )
    return [
        f"With debiasing, the groups' differences in {score} are {measured}; in what is retrieved they are "
        f"{retrieved} (reduced: the 95% interval of the remaining share is between −1 and 1; equivalent: the "
        f"share is shown to be within {MARGIN:.0%} of 1; refused: it has no interval; differences that "
        "debiasing adds are not counted)."
    ]


def _format_counts(verdicts: pd.Series) -> str:
    """Format the number of comparisons by verdict.

    >>> _format_counts(pd.Series(["reduced", "undecided", "reduced"]))
    'reduced in 2 of 3 comparisons, equivalent in 0, undecided in 1, increased in 0 and refused in 0'
    """
    counts = verdicts.value_counts().reindex([*VERDICTS], fill_value=0)
    first, *others = [f"{name} in {count:,}" for name, count in counts.items()]
    return ", ".join([f"{first} of {len(verdicts):,} comparisons", *others[:-1]]) + f" and {others[-1]}"
