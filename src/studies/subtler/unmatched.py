"""State why answers that match no option leave no tau, with examples."""

from __future__ import annotations

import pandas as pd

from src.errors import brief

EXAMPLES = 3
LONGEST_EXAMPLE = 60


def reason(members: pd.DataFrame, max_unmatched: float) -> str:
    """Return why a stratum has no tau; empty where enough of its answers match an option.

    Args:
        members: items with `response` and `matched`, and `unanswered` of a server's.
        max_unmatched: largest share of answers that may match no option.
    """
    unmatched = members[~members["matched"]]
    if len(unmatched) <= max_unmatched * len(members):
        return ""
    named = ", ".join(examples(unmatched))
    counts = f"{len(unmatched)} of {len(members)} answers match no option"
    return f"{counts}, more than {100 * max_unmatched:g}%: {named}"


def examples(unmatched: pd.DataFrame) -> list[str]:
    """Return the three most frequent answers that match no option, quoted or described.

    Args:
        unmatched: items with `response`, null where there is no text.
    """
    absent = "(two options equally likely)" if "position_effect" in unmatched else "(empty)"
    texts = unmatched["response"].map(lambda text: _quoted(text) if isinstance(text, str) else absent)
    texts = texts.where(unmatched["response"] != "", "(empty)")
    if "unanswered" in unmatched:
        reasons = unmatched["unanswered"].map(lambda why: f"({brief(why, LONGEST_EXAMPLE)})")
        texts = texts.where(unmatched["unanswered"].isna(), reasons)
    counts = texts.value_counts().rename_axis("text").reset_index(name="count")
    frequent = counts.sort_values(["count", "text"], ascending=[False, True]).head(EXAMPLES)
    return [str(text) for text in frequent["text"]]


def _quoted(text: str) -> str:
    return f"“{brief(text.strip(), LONGEST_EXAMPLE)}”"
