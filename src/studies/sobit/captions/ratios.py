"""Compare how often captions that mention a word name a group with how often all captions name it."""

import math
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from scipy import stats

from src.metrics import benjamini_hochberg
from src.studies.sobit.captions.counting import Counts
from src.studies.sobit.captions.lexicon import Lexicon

Counted = Int[np.ndarray, " n"]
Values = Float[np.ndarray, " n"]
Limits = tuple[Values, Values]  # lower and upper

Z = float(stats.norm.ppf(0.975))
COLUMNS = [
    *("category", "word", "type", "axis", "group", "captions", "n_word", "n_group", "n_both"),
    *("share", "base", "ratio", "ratio_low", "ratio_high", "placebo_low", "placebo_high", "p", "q"),
    *("n_named", "n_word_named", "share_named", "base_named", "ratio_named"),
    *("ratio_named_low", "ratio_named_high", "p_named", "q_named", "note"),
]
NO_WORD = "no caption mentions the word"
NO_GROUP = "no caption names the group"


def build_table(counts: Counts, lexicon: Lexicon, words: pd.DataFrame) -> pd.DataFrame:
    """Build the table of ratios: one row per category, word, axis and group.

    Returns:
        `category`, `word`, `type`, `axis`, `group`; `captions`, `n_word`, `n_group`, `n_both`; `share` =
        n_both / n_word, `base` = n_group / captions, `ratio` = share / base with its 95% interval
        `ratio_low`, `ratio_high` (see `compute_ratio_interval`); `placebo_low`, `placebo_high`: range of 95%
        of the ratios if captions name the group independently of the word; `p` under this null (see
        `p_value`), and `q` after Benjamini and Hochberg over the words within axis and group. The same
        numbers among the captions that name any group of the axis: `n_named`, `n_word_named`, `share_named`,
        `base_named`, `ratio_named`, `ratio_named_low`, `ratio_named_high`, `p_named`, `q_named`. `note`
        explains a missing ratio.
    """
    size, groups = len(lexicon.words), lexicon.groups
    axis_indices = [lexicon.axes.index(name) for name in groups["axis"]]
    rows = lexicon.words.merge(groups, how="cross").assign(
        captions=counts.captions,
        n_word=np.repeat(counts.words, len(groups)),
        n_group=np.tile(counts.groups, size),
        n_both=counts.both.ravel(),
        n_named=np.tile(counts.named[axis_indices], size),
        n_word_named=counts.words_named[:, axis_indices].ravel(),
    )
    rows = _add_ratios(rows, "n_word", "captions", "")
    rows = _add_ratios(rows, "n_word_named", "n_named", "_named")
    low, high = compute_placebo_range(*(rows[name].to_numpy() for name in ("n_word", "n_group", "captions")))
    rows = rows.assign(placebo_low=low, placebo_high=high)
    rows["note"] = np.where(rows["n_word"] == 0, NO_WORD, np.where(rows["n_group"] == 0, NO_GROUP, ""))
    return words.merge(rows, on=["word", "type"], how="left")[COLUMNS]


def _add_ratios(rows: pd.DataFrame, word: str, captions: str, suffix: str) -> pd.DataFrame:
    """Add share, base, ratio, interval, p and q with a suffix, from the counts in two columns."""
    counts = [rows[name].to_numpy() for name in ("n_both", word, "n_group", captions)]
    share, base = rows["n_both"] / rows[word], rows["n_group"] / rows[captions]
    low, high = compute_ratio_interval(*counts)
    p = pd.Series(p_value(*counts))
    q = p.groupby([rows["axis"], rows["group"]]).transform(benjamini_hochberg)
    columns: dict[str, Any] = {"share": share, "base": base, "ratio": share / base, "p": p, "q": q}
    columns = {f"{name}{suffix}": values for name, values in columns.items()}
    return rows.assign(**columns, **{f"ratio{suffix}_low": low, f"ratio{suffix}_high": high})


def compute_wilson_interval(successes: Values, trials: Values) -> Limits:
    """Compute Wilson's 95% interval of a share (as scipy's `binomtest(...).proportion_ci("wilson")`)."""
    share = successes / trials
    centre = share + Z**2 / (2 * trials)
    half_width = Z * np.sqrt(share * (1 - share) / trials + Z**2 / (4 * trials**2))
    low, high = ((centre + sign * half_width) / (1 + Z**2 / trials) for sign in (-1, 1))
    # Exactly 0 and 1 at the ends, where rounding would leave 1e-17.
    return np.where(successes == 0, 0.0, low), np.where(successes == trials, 1.0, high)


def compute_ratio_interval(n_both: Counted, n_word: Counted, n_group: Counted, captions: Counted) -> Limits:
    """Compute the 95% interval of the ratio share / base.

    It allows for the error of the base, and for the fact that the captions with the word are part of the
    base.

    With w the share of captions that mention the word, the ratio is f / (w f + 1 - w). f is the risk ratio:
    the share of captions with the word that name the group, over the same share of captions without the word.
    Its limits come from the Wilson intervals of these two shares (MOVER-R: Donner & Zou 2012, "Closed-form
    confidence intervals for functions of the normal mean and standard deviation") and are converted to limits
    of the ratio, which rises with f. The error of w matters where captions without the word hardly name the
    group; it is added by the delta method, in quadrature to the half-width of the log ratio (our choice).
    Checked by simulation: tests/studies/sobit/captions/test_ratios.py. Captions are assumed to be
    independent: copies of a caption make the interval too narrow.

    Returns:
        Lower and upper limits; NaN where no caption mentions the word or names the group, or all mention
        the word.
    """
    both, word, group, total = np.array([n_both, n_word, n_group, captions], dtype=float)
    others = total - word
    defined = (word > 0) & (group > 0) & (others > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share, other_share, base, w = (both / word, (group - both) / others, group / total, word / total)
        share_low, share_high = compute_wilson_interval(both, word)
        other_low, other_high = compute_wilson_interval(group - both, others)
        risk_low = _lower_limit(share, share_low, other_share, other_high)
        risk_high = _upper_limit(share, share_high, other_share, other_low)
        low = risk_low / (w * risk_low + 1 - w)
        # If every caption that names the group has the word, the risk ratio is unbounded; the ratio is not.
        high = np.where(np.isinf(risk_high), 1 / w, risk_high / (w * risk_high + 1 - w))
        error_of_w = Z * (share - other_share) / base * np.sqrt(w * (1 - w) / total)
        ratio = share / base
        wider_low = ratio * np.exp(-np.hypot(np.log(ratio / low), error_of_w))
        wider_high = ratio * np.exp(np.hypot(np.log(high / ratio), error_of_w))
    low, high = np.where(low > 0, wider_low, low), np.where(ratio > 0, wider_high, high)
    return np.where(defined, low, math.nan), np.where(defined, high, math.nan)


def _lower_limit(
    share: np.ndarray, low: np.ndarray, other_share: np.ndarray, other_high: np.ndarray
) -> np.ndarray:
    # The published limit is (product - root) / d with d = other_high * (2 * other_share - other_high).
    # Multiplying both by (product + root) avoids the division by d, which may be 0.
    product, term = share * other_share, low * (2 * share - low)
    root = np.sqrt(np.maximum(product**2 - term * other_high * (2 * other_share - other_high), 0))
    return np.where(share == 0, 0.0, term / (product + root))


def _upper_limit(
    share: np.ndarray, high: np.ndarray, other_share: np.ndarray, other_low: np.ndarray
) -> np.ndarray:
    product, term = share * other_share, other_low * (2 * other_share - other_low)
    root = np.sqrt(np.maximum(product**2 - high * (2 * share - high) * term, 0))
    return np.where(other_share == 0, math.inf, (product + root) / term)


def p_value(n_both: Counted, n_word: Counted, n_group: Counted, captions: Counted) -> Values:
    """Compute the exact two-sided p of n_both, if word and group occurred independently.

    Under this null, the captions that name the group are permuted, and n_both is hypergeometric. p is twice
    the smaller tail, at most 1. It is too small if captions share a source or a wording.

    Returns:
        p, NaN where no caption mentions the word or names the group.
    """
    defined = (n_word > 0) & (n_group > 0)
    parameters = captions, n_group, n_word
    tail = np.minimum(stats.hypergeom.cdf(n_both, *parameters), stats.hypergeom.sf(n_both - 1, *parameters))
    return np.where(defined, np.minimum(1, 2 * tail), math.nan)


def compute_placebo_range(n_word: Counted, n_group: Counted, captions: Counted) -> Limits:
    """Compute the exact 2.5th and 97.5th percentiles of the ratio if the group's captions are permuted."""
    defined = (n_word > 0) & (n_group > 0)
    low, high = (
        np.where(defined, stats.hypergeom.ppf(level, captions, n_group, n_word), math.nan)
        for level in (0.025, 0.975)
    )
    expected = np.where(defined, n_word * (n_group / np.maximum(captions, 1)), math.nan)
    return low / expected, high / expected
