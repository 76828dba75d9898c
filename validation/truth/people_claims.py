"""State claims on matched pictures, harms and perturbations, which fail on shuffled vectors."""

from collections.abc import Iterator

import pandas as pd

from validation.truth.claims import PEARSON, Claim

# Smallest scores at full bias (`people_scores.tabulate`), and the largest share of them without bias.
MIN_ORDER, MIN_WORDS, MIN_HARM, MIN_LEVEL = 0.3, 0.1, 0.15, 0.1
MAX_WITHOUT = 0.2
# Smallest share of tests or intervals that find what is planted, at full bias.
MIN_SHARE = 0.8
# Largest share of the slope without background that is measured with it; smallest share of groups whose level
# moves more than it measures.
MAX_HIDDEN, MIN_EXCEEDED = 0.5, 0.5
# Smallest mean recall of the right scenes without bias: 0 for random pictures, 1 for the largest possible.
MIN_RECALL = 0.6


def claims(toys: pd.DataFrame) -> Iterator[Claim]:
    """Yield the claims on the scores of `people_scores.tabulate`, and whether each holds."""
    yield _planted(
        "matched: other groups' rank within sets minus that of the planted, less that of other captions",
        toys,
        "order",
        MIN_ORDER,
    )
    yield _significant(
        "matched: planted groups of a caption with p of rank at most .05", toys, "order_significant"
    )
    without = toys[toys["bias"] == toys["bias"].min()]["recall"]
    yield Claim(
        "matched: recall of the right scene without bias, of the largest possible, mean over seeds",
        f"at least {MIN_RECALL}",
        f"{without.mean():.3f}",
        bool(without.mean() >= MIN_RECALL),
    )
    yield _planted("matched_words: slope of levels within sets on planted valence", toys, "words", MIN_WORDS)
    full = toys[toys["bias"] == toys["bias"].max()]
    yield Claim(
        "matched_words: planted valence and level within sets, full bias: Pearson, mean over seeds",
        f"at least {PEARSON}",
        f"{full['words_pearson'].mean():.3f}",
        bool(full["words_pearson"].mean() >= PEARSON),
    )
    for column in (
        name for name in map(str, toys) if name.startswith("harm_") and name != "harm_significant"
    ):
        kind = column.removeprefix("harm_")
        yield _planted(f"harms: share in {kind} classes, planted group minus others", toys, column, MIN_HARM)
    yield _significant("harms: planted groups with p of their share at most .05", toys, "harm_significant")
    yield _planted(
        "sensitivity: slope of levels without background on the faces' planted valence, which it hides",
        toys,
        "level_grey_background",
        MIN_LEVEL,
    )
    slopes = full[["level_none", "level_flip", "level_grey_background"]].mean()
    shares = slopes.iloc[:2].abs() / slopes.iloc[2]
    yield Claim(
        "sensitivity: this slope with background, and in mirrored pictures, full bias, mean over seeds",
        f"at most {MAX_HIDDEN} of that without background, which is at least {MIN_LEVEL}, in size",
        f"{slopes.iloc[0]:.3f} and {slopes.iloc[1]:.3f}, of {slopes.iloc[2]:.3f}",
        bool((shares <= MAX_HIDDEN).all() and slopes.iloc[2] >= MIN_LEVEL),
    )
    yield _significant("sensitivity: planted groups whose level a grey background changes", toys, "moved")
    exceeded = full["exceeded"].mean()
    yield Claim(
        "sensitivity: planted groups whose level moves more than it measures, full bias",
        f"at least {MIN_EXCEEDED:.0%}",
        f"{exceeded:.0%}",
        bool(exceeded >= MIN_EXCEEDED),
    )


def _planted(quantity: str, toys: pd.DataFrame, column: str, minimum: float) -> Claim:
    means = toys.groupby("bias")[column].mean()
    is_small = abs(means.iloc[0]) <= MAX_WITHOUT * means.iloc[-1]
    return Claim(
        f"{quantity}, mean over seeds",
        f"rises with the bias, to at least {minimum}; without bias at most {MAX_WITHOUT} of that in size",
        ", ".join(f"{bias:g}: {mean:.3f}" for bias, mean in means.items()),
        bool(means.is_monotonic_increasing and means.iloc[-1] >= minimum and is_small),
    )


def _significant(quantity: str, toys: pd.DataFrame, column: str) -> Claim:
    full = toys[toys["bias"] == toys["bias"].max()][column].mean()
    return Claim(
        f"{quantity}, full bias", f"at least {MIN_SHARE:.0%}", f"{full:.0%}", bool(full >= MIN_SHARE)
    )
