"""State claims on differences between languages, which fail on shuffled vectors."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy import stats

from src.configs import ENGLISH
from src.studies.languages.validity import LABELS, LANGUAGE, WORDS
from validation.truth.claims import Claim
from validation.truth.languages_experiments import ALIKE, DIFFERENT, ENGLISH_ALONE, GROUP_EXPERIMENTS

# Smallest share of the slope in English by which the levels differ where English alone is biased (of all of
# it), and largest share of this difference that is measured where none is planted.
MIN_RECOVERED, MAX_WITHOUT = 0.5, 0.2
# Smallest share of the groups' labels that are placed in a language of the captions, and largest in another,
# in which an interval is above 0 in 2.5% of cases by chance.
MIN_PLACED, MAX_PLACED = 0.9, 0.15


def claims(scores: pd.DataFrame, placement: pd.DataFrame) -> Iterator[Claim]:
    """Yield the claims on the scores of `languages_scores`, and whether each holds."""
    for exp in GROUP_EXPERIMENTS:
        of_exp = scores[scores["exp"] == exp].set_index("world")
        yield _slopes(exp, of_exp)
        yield _sides(exp, of_exp)
    yield from _placement(placement)


def describe_rho(scores: pd.DataFrame) -> str:
    """Describe what is claimed of no language: differences of ρ, and intervals of a single toy."""
    parts = []
    for exp in GROUP_EXPERIMENTS:
        for world in (DIFFERENT, ALIKE):
            rows = scores[(scores["exp"] == exp) & (scores["world"] == world)]
            parts.append(
                f"{exp}, {world}: ρ {_format(rows['rho'])}; intervals clear of 0: "
                f"{rows['clear'].mean():.0%} of levels, {rows['rho_clear'].mean():.0%} of ρ"
            )
    return (
        "Not claimed: differences of ρ (mean over groups, with the interval over seeds), and how many paired "
        "intervals of single toys are clear of 0. " + ". ".join(parts) + "."
    )


def _slopes(exp: str, scores: pd.DataFrame) -> Claim:
    with_bias, without = (scores.loc[[world], "slope"] for world in (DIFFERENT, ALIKE))
    english = scores.loc[[DIFFERENT], "slope_english"].mean()
    low, high = _interval(without)
    recovered = -with_bias.mean() / english
    return Claim(
        f"{exp}: slope of the levels' differences to English on planted valence, mean and 95% interval over "
        "seeds",
        f"below 0 where English alone is biased, at least {MIN_RECOVERED} of the slope in English in size; "
        f"includes 0 where both are, at most {MAX_WITHOUT} of that in size",
        f"{_format(with_bias)}, {recovered:.2f} of the slope in English; {_format(without)}",
        bool(
            _interval(with_bias)[1] < 0
            and english > 0
            and recovered >= MIN_RECOVERED
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
