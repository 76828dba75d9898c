"""State claims on differences between languages, which fail on shuffled vectors."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy import stats

from src.configs import ENGLISH
from src.studies.languages.validity import LABELS, LANGUAGE, WORDS
from validation.truth.claims import Claim
from validation.truth.languages_experiments import ALIKE, DIFFERENT, ENGLISH_ALONE, GROUP_EXPERIMENTS

# Experiment in which a planted association with valence orders the targets, and so changes ρ.
RHO_EXPERIMENT = "scenes_to_labels"
# Largest share of the difference with bias in English alone that is measured with the same bias in both.
MAX_WITHOUT = 0.2
# Smallest share of the groups' labels that are placed in a language of the captions, and largest in another,
# in which an interval is above 0 in 2.5% of cases by chance.
MIN_PLACED, MAX_PLACED = 0.9, 0.15


def claims(scores: pd.DataFrame, placement: pd.DataFrame) -> Iterator[Claim]:
    """Yield the claims on the scores of `languages_scores`, and whether each holds."""
    for exp in GROUP_EXPERIMENTS:
        of_exp = scores[scores["exp"] == exp].set_index("world")
        english = of_exp.loc[[DIFFERENT], "slope_english"].mean()
        slope = "slope of the levels' differences to English on planted valence"
        yield _differs(f"{exp}: {slope}", of_exp["slope"], f", of {english:.3f} in English")
        yield _sides(exp, of_exp)
    of_exp = scores[scores["exp"] == RHO_EXPERIMENT].set_index("world")
    yield _differs(f"{RHO_EXPERIMENT}: difference of ρ to English, planted groups", of_exp["rho"])
    yield from _placement(placement)


def describe_intervals(scores: pd.DataFrame) -> str:
    """Describe what is not claimed: how many paired intervals of single toys are clear of 0."""
    shares = [
        f"{exp}, {world}: {rows['clear'].mean():.0%} of levels, {rows['rho_clear'].mean():.0%} of ρ"
        for (exp, world), rows in scores.groupby(["exp", "world"], sort=False)
    ]
    return f"Not claimed: paired intervals of single toys that are clear of 0. {'; '.join(shares)}."


def _differs(quantity: str, values: pd.Series, note: str = "") -> Claim:
    """State that values, by world, are below 0 where English alone is biased, and not where both are.

    `note`: text after the measured values of the former.
    """
    with_bias, without = (values.loc[[world]] for world in (DIFFERENT, ALIKE))
    low, high = _interval(without)
    return Claim(
        f"{quantity}, mean and 95% interval over seeds",
        "below 0 where English alone is biased; where both languages are, the interval includes 0, the mean "
        f"is at most {MAX_WITHOUT} of that in size",
        f"{_format(with_bias)}{note}; {_format(without)}",
        bool(
            _interval(with_bias)[1] < 0
            and low <= 0 <= high
            and abs(without.mean()) <= MAX_WITHOUT * abs(with_bias.mean())
        ),
    )


def _sides(exp: str, scores: pd.DataFrame) -> Claim:
    shares = scores.loc[[DIFFERENT], "on_side"]
    return Claim(
        f"{exp}: planted groups whose level differs from English with a paired interval clear of 0, on the "
        "planted side, where English alone is biased",
        "all, in every seed",
        ", ".join(f"{share:.0%}" for share in shares),
        bool((shares == 1).all()),
    )


def _placement(placement: pd.DataFrame) -> Iterator[Claim]:
    is_other = (placement["world"] == ENGLISH_ALONE) & (placement[LANGUAGE] != ENGLISH)
    names = {WORDS: "words by valence", LABELS: "labels of a group"}
    bounds = {WORDS: (1.0, 0.0), LABELS: (MIN_PLACED, MAX_PLACED)}
    for text, name in names.items():
        is_text = placement["text"] == text
        shares = [_average(placement[is_text & selected]) for selected in (~is_other, is_other)]
        counts = [placement.loc[is_text & selected, "texts"].sum() for selected in (~is_other, is_other)]
        minimum, maximum = bounds[text]
        yield Claim(
            f"{name} that toys place, in the languages of their captions and in another",
            f"at least {minimum:.0%}; at most {maximum:.0%}",
            "; ".join(f"{share:.0%} of {count}" for share, count in zip(shares, counts, strict=True)),
            bool(shares[0] >= minimum and shares[1] <= maximum),
        )


def _average(placement: pd.DataFrame) -> float:
    return float(np.average(placement["placed"], weights=placement["texts"]))


def _interval(values: pd.Series) -> tuple[float, float]:
    """Return the 95% interval of the mean over seeds; NaN for a single seed."""
    half_width = stats.t.ppf(0.975, len(values) - 1) * values.std() / np.sqrt(len(values))
    return float(values.mean() - half_width), float(values.mean() + half_width)


def _format(values: pd.Series) -> str:
    low, high = _interval(values)
    return f"{values.mean():.3f} ({low:.3f} to {high:.3f})"
