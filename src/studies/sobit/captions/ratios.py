"""How much more often captions that mention a word name a group than captions do at all."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from scipy import stats

from src.studies.sobit.captions.lexicon import Lexicon
from src.studies.sobit.captions.mentions import AXES, Counts

Z = float(stats.norm.ppf(0.975))
NEVER = "no caption mentions the word"
NOBODY = "no caption names the group"


def table(counts: Counts, lexicon: Lexicon, words: pd.DataFrame) -> pd.DataFrame:
    """One row per word x axis x group.

    Args:
        counts: of the captions.
        lexicon: what was counted.
        words: the taxonomy's `category`, `word`, `type`; a word in two categories has rows in each.

    Returns:
        `category`, `word`, `type`, `axis`, `group`; `captions`, `n_word`, `n_group`, `n_both`; `share` =
        n_both / n_word, `base` = n_group / captions, `ratio` = share / base with its 95% interval
        `ratio_low`, `ratio_high` (see `interval`); `placebo_low`, `placebo_high`, within which 95% of the
        ratios lie when captions name the group whether they say the word or not; `p` of that (see
        `p_value`), and `q` after Benjamini and Hochberg over the words within axis and group. The same
        among the captions that name any group of the axis: `n_named`, `n_word_named`, `share_named`,
        `base_named`, `ratio_named`, `ratio_named_low`, `ratio_named_high`, `p_named`, `q_named`. `note`
        says why there is no ratio.
    """
    size, groups = len(lexicon.words), lexicon.groups
    word = np.repeat(np.arange(size), len(groups))
    group = np.tile(np.arange(len(groups)), size)
    axis = np.array([AXES.index(name) for name in groups["axis"]], dtype=int)[group]
    found = pd.concat([lexicon.words.iloc[word], groups.iloc[group].set_index(word)], axis=1)
    found = found.reset_index(drop=True).assign(
        captions=counts.captions,
        n_word=counts.words[word],
        n_group=counts.groups[group],
        n_both=counts.both[word, group],
        n_named=counts.named[axis],
        n_word_named=counts.words_named[word, axis],
    )
    found = _compared(found, "n_word", "captions", "")
    found = _compared(found, "n_word_named", "n_named", "_named")
    low, high = placebo(*(found[name].to_numpy() for name in ("n_word", "n_group", "captions")))
    found = found.assign(placebo_low=low, placebo_high=high)
    found["note"] = np.where(found["n_word"] == 0, NEVER, np.where(found["n_group"] == 0, NOBODY, ""))
    return words.merge(found, on=["word", "type"], how="left")[_columns()]


def _columns() -> list[str]:
    named = [f"{name}_named" for name in ("share", "base", "ratio")]
    return [
        *("category", "word", "type", "axis", "group", "captions", "n_word", "n_group", "n_both"),
        *("share", "base", "ratio", "ratio_low", "ratio_high", "placebo_low", "placebo_high", "p", "q"),
        *("n_named", "n_word_named", *named, "ratio_named_low", "ratio_named_high", "p_named", "q_named"),
        "note",
    ]


def _compared(found: pd.DataFrame, word: str, captions: str, suffix: str) -> pd.DataFrame:
    sizes = [found[name].to_numpy() for name in ("n_both", word, "n_group", captions)]
    share, base = _divided(sizes[0], sizes[1]), _divided(sizes[2], sizes[3])
    low, high = interval(*sizes)
    p = pd.Series(p_value(*sizes))
    columns: dict[str, Any] = {
        f"share{suffix}": share,
        f"base{suffix}": base,
        f"ratio{suffix}": _divided(share, base),
        f"ratio{suffix}_low": low,
        f"ratio{suffix}_high": high,
        f"p{suffix}": p,
        f"q{suffix}": p.groupby([found["axis"], found["group"]]).transform(_adjusted),
    }
    return found.assign(**columns)


def _divided(of: np.ndarray, by: np.ndarray) -> Float[np.ndarray, " n"]:
    found = np.full(len(of), math.nan)
    np.divide(of, by, out=found, where=by > 0)
    return found


def _adjusted(p: pd.Series) -> pd.Series:
    known = p.dropna()
    return pd.Series(stats.false_discovery_control(known) if len(known) else known, known.index).reindex(
        p.index
    )


def wilson(
    successes: Float[np.ndarray, " n"], trials: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Wilson's 95% interval of a share (as scipy's `binomtest(...).proportion_ci(method="wilson")`)."""
    share = successes / trials
    middle = share + Z**2 / (2 * trials)
    reach = Z * np.sqrt(share * (1 - share) / trials + Z**2 / (4 * trials**2))
    low, high = ((middle + sign * reach) / (1 + Z**2 / trials) for sign in (-1, 1))
    # Exact at the ends, where rounding would leave 1e-17.
    return np.where(successes == 0, 0.0, low), np.where(successes == trials, 1.0, high)


def interval(
    n_both: Int[np.ndarray, " n"],
    n_word: Int[np.ndarray, " n"],
    n_group: Int[np.ndarray, " n"],
    captions: Int[np.ndarray, " n"],
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """95% interval of the ratio share / base, the base's own error and its overlap with the share included.

    With w the share of captions that mention the word, the ratio is f / (w f + 1 - w), f being the risk
    ratio of naming the group with the word against without it, from disjoint captions. f's limits come
    from the Wilson intervals of these two shares (MOVER-R: Donner & Zou 2012, "Closed-form confidence
    intervals for functions of the normal mean and standard deviation"); the ratio rises with f, so they are
    carried over; and the error of w, which matters where a group is hardly named without the word, is
    added in quadrature to the reach of the logarithm by the delta method (our choice). Checked by simulation:
    tests/studies/sobit/captions/test_ratios.py. Captions are taken as independent: copies of one make it
    too narrow.

    Returns:
        NaN where nobody mentions the word or names the group, or every caption mentions the word.
    """
    both, word, group, every = (
        np.asarray(number, dtype=float) for number in (n_both, n_word, n_group, captions)
    )
    rest = every - word
    known = (word > 0) & (group > 0) & (rest > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        one, other, base, w = both / word, (group - both) / rest, group / every, word / every
        low_one, high_one = wilson(both, word)
        low_other, high_other = wilson(group - both, rest)
        least = _lower(one, low_one, other, high_other)
        most = _upper(one, high_one, other, low_other)
        low = least / (w * least + 1 - w)
        # Where nobody without the word is of the group the risk ratio has no upper end; the ratio has.
        high = np.where(np.isinf(most), 1 / w, most / (w * most + 1 - w))
        of_w = Z * (one - other) / base * np.sqrt(w * (1 - w) / every)
        ratio = one / base
        wider_low = ratio * np.exp(-np.hypot(np.log(ratio / low), of_w))
        wider_high = ratio * np.exp(np.hypot(np.log(high / ratio), of_w))
    low, high = np.where(low > 0, wider_low, low), np.where(ratio > 0, wider_high, high)
    return np.where(known, low, math.nan), np.where(known, high, math.nan)


def _lower(one: np.ndarray, limit: np.ndarray, other: np.ndarray, upper: np.ndarray) -> np.ndarray:
    # As published, but for a common factor that may be 0.
    product, of = one * other, limit * (2 * one - limit)
    root = np.sqrt(np.maximum(product**2 - of * upper * (2 * other - upper), 0))
    return np.where(one == 0, 0.0, of / (product + root))


def _upper(one: np.ndarray, limit: np.ndarray, other: np.ndarray, lower: np.ndarray) -> np.ndarray:
    product, by = one * other, lower * (2 * other - lower)
    root = np.sqrt(np.maximum(product**2 - limit * (2 * one - limit) * by, 0))
    return np.where(other == 0, math.inf, (product + root) / by)


def p_value(
    n_both: Int[np.ndarray, " n"],
    n_word: Int[np.ndarray, " n"],
    n_group: Int[np.ndarray, " n"],
    captions: Int[np.ndarray, " n"],
) -> Float[np.ndarray, " n"]:
    """Exact two-sided p of a word and a group standing together by chance.

    Chance: which captions name the group is permuted; n_both is hypergeometric. Twice the smaller tail,
    at most 1. Captions that share a source or a wording are no independent draws: then p is too small.

    Returns:
        NaN where nobody mentions the word or names the group.
    """
    known = (n_word > 0) & (n_group > 0)
    urn = captions, n_group, n_word
    tail = np.minimum(stats.hypergeom.cdf(n_both, *urn), stats.hypergeom.sf(n_both - 1, *urn))
    return np.where(known, np.minimum(1, 2 * tail), math.nan)


def placebo(
    n_word: Int[np.ndarray, " n"], n_group: Int[np.ndarray, " n"], captions: Int[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """2.5th and 97.5th percentile of the ratio when which captions name the group is permuted; exact."""
    known = (n_word > 0) & (n_group > 0)
    low, high = (
        np.where(known, stats.hypergeom.ppf(level, captions, n_group, n_word), math.nan)
        for level in (0.025, 0.975)
    )
    expected = np.where(known, n_word * (n_group / np.maximum(captions, 1)), math.nan)
    return low / expected, high / expected
