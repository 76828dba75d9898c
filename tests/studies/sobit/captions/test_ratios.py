"""Check ratios: their values by hand, their intervals by simulation, their p by permutation."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from src.studies.sobit.captions import ratios
from src.studies.sobit.captions.counting import count, zero_counts
from tests.studies.sobit.captions.examples import LEXICON, WORDS


def table(captions):
    import polars as pl

    return ratios.table(count(pl.Series(captions), LEXICON), LEXICON, WORDS)


def row(result, word, group, category=None):
    rows = result[(result["word"] == word) & (result["group"] == group)]
    return (rows if category is None else rows[rows["category"] == category]).iloc[0]


def test_a_table_by_hand():
    captions = (
        ["calm black man"] * 3 + ["calm"] * 5 + ["calm white man"] * 2 + ["white man"] * 8 + ["sea"] * 22
    )
    result = table(captions)
    assert len(result) == len(WORDS) * len(LEXICON.groups)
    assert result["word"].tolist() == WORDS["word"].repeat(len(LEXICON.groups)).tolist()
    item = row(result, "calm", "Black")
    assert item[["captions", "n_word", "n_group", "n_both"]].tolist() == [40, 10, 3, 3]
    assert item[["share", "base", "ratio"]].tolist() == pytest.approx([0.3, 3 / 40, 4.0])
    assert item[["n_named", "n_word_named"]].tolist() == [13, 5]
    assert item[["share_named", "base_named"]].tolist() == pytest.approx([3 / 5, 3 / 13])
    assert item["ratio_named"] == pytest.approx(13 / 5)
    assert item["ratio_low"] < 4 < item["ratio_high"]
    assert item["p"] == pytest.approx(2 * math.comb(10, 3) / math.comb(40, 3))
    assert item["note"] == ""
    again = row(result, "calm", "Black", "behaviour").drop("category")
    pd.testing.assert_series_equal(
        again, row(result, "calm", "Black", "health").drop("category"), check_names=False
    )


def test_absent_words_and_groups_have_no_ratio_but_a_note():
    result = table(["calm", "white man", "sea"])
    numbers = ["ratio", "ratio_low", "ratio_high", "placebo_low", "placebo_high", "p", "q"]
    for word, group, note in (("savage", "White", ratios.NO_WORD), ("calm", "Black", ratios.NO_GROUP)):
        item = row(result, word, group)
        assert item[numbers].isna().all()
        assert item["note"] == note
    zero = row(result, "calm", "White")
    assert zero["ratio"] == zero["ratio_low"] == 0
    assert 1 < zero["ratio_high"] < math.inf
    assert ratios.table(zero_counts(LEXICON), LEXICON, WORDS)["ratio"].isna().all()


def test_q_is_over_words_within_axis_and_group_each_word_once():
    rng = np.random.default_rng(0)
    words = rng.choice(["calm", "savage", "a criminal", "homemaker", "sea"], 3000)
    people = np.where(
        words == "savage", "white woman", rng.choice(["black man", "white", "men", "dog"], 3000)
    )
    result = table([f"{word} {person}" for word, person in zip(words, people, strict=True)])
    rows = result[result["group"] == "Black"].drop_duplicates(["word", "type"]).dropna(subset=["p"])
    assert len(rows) == 4
    np.testing.assert_allclose(rows["q"], stats.false_discovery_control(rows["p"]))


@given(st.integers(1, 10_000_000), st.floats(0, 1))
def test_wilson_is_scipy_s(trials, share):
    successes = round(share * trials)
    low, high = ratios.wilson(np.array([successes]), np.array([trials]))
    expected = stats.binomtest(successes, trials).proportion_ci(method="wilson")
    assert (low[0], high[0]) == pytest.approx((expected.low, expected.high), rel=1e-9, abs=1e-12)


# Number of captions, share with the word, share with the group, and ratio: rare and frequent, more and less,
# and a group that is hardly named without the word.
POPULATIONS = [
    *((20_000, 0.01, 0.05, 1), (20_000, 0.01, 0.05, 0.3), (20_000, 0.002, 0.002, 400), (2_000, 0.01, 0.1, 3)),
    *((2_000, 0.9, 0.1, 1.05), (1_000_000, 0.0001, 0.1, 1.5)),
]


@pytest.mark.parametrize(("captions", "word", "group", "ratio"), POPULATIONS)
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
    expected = np.quantile(permuted, [0.025, 0.975]) / (30 * group.mean())
    assert [low[0], high[0]] == pytest.approx(expected.tolist(), abs=1e-9)


def test_p_is_fisher_s_where_the_distribution_is_symmetric():
    """Compare twice the smaller tail with Fisher's exact test of scipy."""
    for both in range(21):
        expected = stats.fisher_exact([[both, 20 - both], [20 - both, both]]).pvalue
        result = ratios.p_value(*(np.array([n]) for n in (both, 20, 20, 40)))
        assert result[0] == pytest.approx(expected, rel=1e-9)
