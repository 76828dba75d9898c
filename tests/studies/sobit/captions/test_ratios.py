"""Ratios: their sizes by hand, their interval by simulation, their p by permutation."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from src.studies.sobit.captions import ratios
from src.studies.sobit.captions.mentions import count, nothing
from tests.studies.sobit.captions.made import LEXICON, WORDS


def table(captions):
    import polars as pl

    return ratios.table(count(pl.Series(captions), LEXICON), LEXICON, WORDS)


def row(found, word, group, category=None):
    own = found[(found["word"] == word) & (found["group"] == group)]
    return (own if category is None else own[own["category"] == category]).iloc[0]


def test_a_table_by_hand():
    captions = (
        ["calm black man"] * 3 + ["calm"] * 5 + ["calm white man"] * 2 + ["white man"] * 8 + ["sea"] * 22
    )
    found = table(captions)
    assert len(found) == len(WORDS) * len(LEXICON.groups)
    assert found["word"].tolist() == WORDS["word"].repeat(len(LEXICON.groups)).tolist()
    one = row(found, "calm", "Black")
    assert one[["captions", "n_word", "n_group", "n_both"]].tolist() == [40, 10, 3, 3]
    assert one[["share", "base", "ratio"]].tolist() == pytest.approx([0.3, 3 / 40, 4.0])
    assert one[["n_named", "n_word_named"]].tolist() == [13, 5]
    assert one[["share_named", "base_named"]].tolist() == pytest.approx([3 / 5, 3 / 13])
    assert one["ratio_named"] == pytest.approx(13 / 5)
    assert one["ratio_low"] < 4 < one["ratio_high"]
    assert one["p"] == pytest.approx(2 * math.comb(10, 3) / math.comb(40, 3))
    assert one["note"] == ""
    again = row(found, "calm", "Black", "behaviour").drop("category")
    pd.testing.assert_series_equal(
        again, row(found, "calm", "Black", "health").drop("category"), check_names=False
    )


def test_what_is_not_there_has_no_ratio_and_says_so():
    found = table(["calm", "white man", "sea"])
    numbers = ["ratio", "ratio_low", "ratio_high", "placebo_low", "placebo_high", "p", "q"]
    for word, group, note in (("savage", "White", ratios.NEVER), ("calm", "Black", ratios.NOBODY)):
        one = row(found, word, group)
        assert one[numbers].isna().all()
        assert one["note"] == note
    zero = row(found, "calm", "White")
    assert zero["ratio"] == zero["ratio_low"] == 0
    assert 1 < zero["ratio_high"] < math.inf
    assert ratios.table(nothing(LEXICON), LEXICON, WORDS)["ratio"].isna().all()


def test_q_is_over_words_within_axis_and_group_each_word_once():
    rng = np.random.default_rng(0)
    words = rng.choice(["calm", "savage", "a criminal", "homemaker", "sea"], 3000)
    people = np.where(
        words == "savage", "white woman", rng.choice(["black man", "white", "men", "dog"], 3000)
    )
    found = table([f"{word} {whom}" for word, whom in zip(words, people, strict=True)])
    own = found[found["group"] == "Black"].drop_duplicates(["word", "type"]).dropna(subset=["p"])
    assert len(own) == 4
    np.testing.assert_allclose(own["q"], stats.false_discovery_control(own["p"]))


@given(st.integers(1, 10_000_000), st.floats(0, 1))
def test_wilson_is_scipy_s(trials, share):
    successes = round(share * trials)
    low, high = ratios.wilson(np.array([successes]), np.array([trials]))
    wanted = stats.binomtest(successes, trials).proportion_ci(method="wilson")
    assert (low[0], high[0]) == pytest.approx((wanted.low, wanted.high), rel=1e-9, abs=1e-12)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40), st.integers(1, 400))
def test_an_interval_holds_its_ratio_and_is_within_what_can_be(both, word, group, rest):
    n_word, n_group = both + word, both + group
    captions = n_word + group + rest
    low, high = (
        end[0] for end in ratios.interval(*(np.array([n]) for n in (both, n_word, n_group, captions)))
    )
    if not n_word or not n_group:
        assert math.isnan(low)
        assert math.isnan(high)
        return
    ratio = both * captions / (n_word * n_group)
    assert 0 <= low <= ratio * (1 + 1e-9)
    assert ratio * (1 - 1e-9) <= high < math.inf


# Share of captions with the word, with the group, and the ratio: rare and frequent, more and less, and a
# group that is hardly named without the word.
WORLDS = [
    (20_000, 0.01, 0.05, 1),
    (20_000, 0.01, 0.05, 2),
    (20_000, 0.01, 0.05, 0.3),
    (20_000, 0.3, 0.002, 1.5),
    (20_000, 0.002, 0.002, 400),
    (2_000, 0.01, 0.1, 3),
    (2_000, 0.5, 0.02, 0.5),
    (2_000, 0.9, 0.1, 1.05),
    (1_000_000, 0.0001, 0.1, 1.5),
]


@pytest.mark.parametrize(("captions", "word", "group", "ratio"), WORLDS)
def test_the_interval_covers_the_truth_19_times_in_20(captions, word, group, ratio):
    both = word * group * ratio
    rng = np.random.default_rng(1)
    cells = rng.multinomial(captions, [both, word - both, group - both, 1 - word - group + both], size=8000)
    low, high = ratios.interval(
        cells[:, 0], cells[:, :2].sum(axis=1), cells[:, [0, 2]].sum(axis=1), cells.sum(axis=1)
    )
    assert 0.94 < np.mean((low <= ratio) & (ratio <= high)) < 0.975


def test_p_and_placebo_are_those_of_permuted_groups():
    rng = np.random.default_rng(0)
    word, group = np.arange(200) < 30, np.arange(200) >= 155
    group[:12] = True
    sizes = [np.array([number]) for number in (int((word & group).sum()), 30, int(group.sum()), 200)]
    permuted = rng.permuted(np.broadcast_to(group, (40_000, 200)), axis=1)[:, :30].sum(axis=1)
    tail = min((permuted <= sizes[0]).mean(), (permuted >= sizes[0]).mean())
    assert ratios.p_value(*sizes)[0] == pytest.approx(2 * tail, abs=0.01)
    low, high = ratios.placebo(*sizes[1:])
    wanted = np.quantile(permuted, [0.025, 0.975]) / (30 * group.mean())
    assert [low[0], high[0]] == pytest.approx(wanted.tolist(), abs=1e-9)


def test_p_is_fisher_s_where_both_sides_are_alike():
    """Twice the smaller tail is what scipy's Fisher says where the urn is symmetric."""
    for both in range(21):
        wanted = stats.fisher_exact([[both, 20 - both], [20 - both, both]]).pvalue
        found = ratios.p_value(*(np.array([n]) for n in (both, 20, 20, 40)))
        assert found[0] == pytest.approx(wanted, rel=1e-9)


def test_p_of_independent_words_is_seldom_small():
    rng = np.random.default_rng(2)
    both = rng.hypergeometric(500, 9_500, 1_000, size=4000)
    sizes = (np.full(4000, number) for number in (1_000, 500, 10_000))
    found = ratios.p_value(both, *sizes)
    for level in (0.01, 0.05, 0.2):
        assert (found <= level).mean() <= level + 3 * math.sqrt(level * (1 - level) / 4000)
    assert (found <= 0.2).mean() > 0.12
