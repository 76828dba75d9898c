"""Hold the cluster jackknife against brute force and worlds whose truth is known."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from src.metrics import jackknife


def means(values):
    def statistics(weights):
        return (weights @ values / weights.sum(axis=1))[:, None]

    return statistics


def brute_force(values, clusters):
    """Leave out one cluster after another."""
    names = sorted(set(clusters))
    without = [np.mean([v for v, c in zip(values, clusters, strict=True) if c != name]) for name in names]
    return (len(names) - 1) / len(names) * sum((value - np.mean(without)) ** 2 for value in without)


def variance(deletions, values):
    return jackknife.replicate(deletions, means(values)).variance()[0]


def test_single_units_give_the_variance_of_a_mean():
    values = np.random.default_rng(0).normal(size=40)
    deletions = jackknife.one_way(np.array([f"{number:02d}" for number in range(40)]))
    assert variance(deletions, values) == pytest.approx(values.var(ddof=1) / 40, rel=1e-10)
    assert deletions.df == 39


def test_single_and_crossed_ways_equal_brute_force():
    rng = np.random.default_rng(1)
    values = rng.normal(size=60)
    a, b = (rng.integers(0, size, 60).astype(str) for size in (7, 9))
    assert variance(jackknife.one_way(a), values) == pytest.approx(brute_force(values, a))
    cells = [f"{x} {y}" for x, y in zip(a, b, strict=True)]
    v_a, v_b, v_cells = (brute_force(values, names) for names in (a, b, cells))
    deletions = jackknife.crossed(a, b)
    assert variance(deletions, values) == pytest.approx(max(v_a + v_b - v_cells, v_cells))
    assert deletions.df == 6


def test_parents_leave_with_all_their_faces_and_an_original_is_no_pair():
    rng = np.random.default_rng(2)
    pairs = [*itertools.combinations("abcdefg", 2), *zip("abcdefg", "abcdefg", strict=True)]
    first, second = (np.array(names) for names in zip(*pairs, strict=True))
    values = rng.normal(size=len(pairs))
    without = [values[(first != name) & (second != name)].mean() for name in "abcdefg"]
    by_parent = 6 / 7 * sum((value - np.mean(without)) ** 2 for value in without)
    morphs = [place for place, pair in enumerate(pairs) if pair[0] != pair[1]]
    without = [np.delete(values, place).mean() for place in morphs]
    by_pair = (len(morphs) - 1) / len(morphs) * sum((value - np.mean(without)) ** 2 for value in without)
    floor = brute_force(values, [str(place) for place in range(len(pairs))])
    deletions = jackknife.parents(first, second)
    assert variance(deletions, values) == pytest.approx(max(by_parent - by_pair, floor))
    assert variance(jackknife.parents(second, first), values) == pytest.approx(variance(deletions, values))
    assert deletions.df == 6


def test_many_clusters_are_dealt_to_a_hundred_parts_by_name():
    names = np.array([f"{number:03d}" for number in range(250)])
    deletions = jackknife.one_way(names)
    ((_, remaining),) = deletions.ways
    assert remaining.shape == (100, 250)
    assert names[~remaining[3]].tolist() == ["003", "103", "203"]


def test_too_few_clusters_and_undefined_replicates_have_no_variance():
    few = jackknife.one_way(np.array(list("aabbccdd")))
    assert few.reason == "fewer than 5 clusters"
    assert math.isnan(variance(few, np.arange(8.0)))
    single = jackknife.one_way(np.array(list("abcde")))
    undefined = jackknife.replicate(single, lambda weights: np.where(weights[:, :1], np.nan, 1.0))
    assert np.isnan(undefined.variance()).all()


def test_shared_clusters_cancel_in_a_difference():
    rng = np.random.default_rng(3)
    values = rng.normal(size=(30, 1)) + [[0.0, 1.0]]
    deletions = jackknife.one_way(np.array([str(number) for number in range(30)]))
    replicates = jackknife.replicate(
        deletions, lambda weights: weights @ values / weights.sum(axis=1)[:, None]
    )
    assert replicates.variance(lambda means: means[:, :1] - means[:, 1:]) == pytest.approx([0], abs=1e-20)
    expected = np.cov(values.T, ddof=1) / 30
    assert replicates.covariance() == pytest.approx(expected)


def test_intervals_and_tests_are_student_s():
    values = np.random.default_rng(4).normal(0.4, 1, 20)
    deletions = jackknife.one_way(np.array([f"{number:02d}" for number in range(20)]))
    v = variance(deletions, values)
    expected = stats.ttest_1samp(values, 0)
    assert jackknife.t_test(values.mean(), v, deletions.df) == pytest.approx(expected.pvalue)
    low, high = expected.confidence_interval()
    assert jackknife.t_interval(values.mean(), v, deletions.df) == pytest.approx((low, high))
    assert jackknife.t_test(0.0, 0.0, 3) == 1
    assert math.isnan(jackknife.t_test(1.0, math.nan, 3))


def test_a_correlation_s_interval_stays_within_its_range():
    low, high = jackknife.rho_interval(1.0, 0.5, 9)
    assert -1 < low < high < 1
    assert all(math.isnan(end) for end in jackknife.rho_interval(math.nan, 0.5, 9))


@pytest.mark.parametrize("sign", [1, -1])
def test_fieller_s_interval_holds_the_ratios_that_are_not_rejected(sign):
    covariance, df = np.array([[0.04, 0.01], [0.01, 0.03]]), 15
    result = jackknife.ratio(sign * 0.8, sign * 1.1, covariance, df, 0.1)
    limit = stats.t.ppf(0.975, df)
    for r in (result.low, result.high):
        error = math.sqrt(0.04 + r * r * 0.03 - 2 * r * 0.01)
        assert abs(0.8 - r * 1.1) / error == pytest.approx(limit)
    assert result.low < result.value < result.high
    assert result.value == pytest.approx(0.8 / 1.1)
    assert result.is_equivalent is False
    assert jackknife.ratio(1.0, 1.0, covariance * 1e-4, df, 0.1).is_equivalent is True
    assert jackknife.ratio(0.8, 0.3, covariance, df, 0.1).is_equivalent is None
