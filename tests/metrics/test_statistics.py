"""Check correlations, choice rates, permutation p values, jackknives, against scipy and brute force."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from src import metrics
from src.metrics import correlation, jackknife
from tests import reference

pytestmark = pytest.mark.filterwarnings("error")

scores = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=3, max_size=30)


@given(pairs=scores)
def test_spearman_is_pearson_of_midranks(pairs):
    x, y = np.array(pairs, dtype=float).T
    result = metrics.spearman(x, y)
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert np.isnan(result.rho)
        assert result.reason
    else:
        midranks = [stats.rankdata(values, method="average") for values in (x, y)]
        assert result.rho == pytest.approx(np.corrcoef(*midranks)[0, 1], abs=1e-12)
        assert result.p == pytest.approx(stats.spearmanr(x, y).pvalue, abs=1e-12)


@given(pairs=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=3, max_size=6))
def test_p_over_all_permutations_is_that_of_the_loop(pairs):
    x, y = np.array(pairs, dtype=float).T
    rho, p = metrics.permuted_spearman(x, y, 0)
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert np.isnan([rho, p]).all()
        return
    assert rho == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)
    rhos = [stats.spearmanr(x, order).statistic for order in itertools.permutations(y)]
    assert p == np.mean(np.abs(rhos) >= abs(rho) - 1e-9)


@pytest.mark.thorough
def test_p_over_random_permutations_is_near_that_over_all():
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 6, (2, 8)).astype(float)
    rho, p = metrics.permuted_spearman(x, y, 1)
    exact = stats.permutation_test(
        (y,),
        lambda order: abs(stats.spearmanr(x, order).statistic),
        permutation_type="pairings",
        n_resamples=np.inf,
        alternative="greater",
    ).pvalue
    assert p == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 10_000))
    assert metrics.permuted_spearman(x, y, 1) == (rho, p)
    # The observed order is one of them.
    assert metrics.permuted_spearman(range(20), range(20), 0) == (1.0, 1 / 10_001)


def test_undefined_scores_are_left_out_and_counted():
    result = metrics.spearman([1, 2, 3, np.nan, 5, 6], [1, 2, 3, 4, np.nan, 0])
    assert (result.n, result.n_excluded) == (4, 2)
    assert result.rho == pytest.approx(stats.spearmanr([1, 2, 3, 6], [1, 2, 3, 0]).statistic)


@pytest.mark.parametrize(
    ("x", "y", "reason"),
    [
        ([1, 2], [1, 2], "2 units: at least 3 are needed"),
        ([1, 1, 1], [1, 2, 3], "every unit has the same intrinsic score"),
        ([1, 2, 3], [1, 1, 1], "every unit has the same outcome"),
    ],
)
def test_an_undefined_rho_has_a_reason(x, y, reason):
    result = metrics.spearman(x, y)
    assert np.isnan(result.rho)
    assert result.reason == reason


@given(
    columns=st.lists(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=12, max_size=12),
        min_size=1,
        max_size=4,
    ),
    missing=st.integers(0, 12),
)
def test_rho_of_columns_is_spearman_of_each(columns, missing):
    x, y = np.array(columns, dtype=float).transpose(2, 1, 0)
    y[missing:, 0] = np.nan
    x, y = np.column_stack([x, np.full(12, 0.1)]), np.column_stack([y, np.arange(12)])
    result = metrics.spearman_columns(x, y)
    for column, rho in enumerate(result):
        complete = not np.isnan(y[:, column]).any()
        expected = metrics.spearman(x[:, column], y[:, column]).rho if complete else np.nan
        assert rho == pytest.approx(expected, abs=1e-12, nan_ok=True)


def test_a_single_column_is_correlated_with_each_and_two_rows_have_no_rho():
    rng = np.random.default_rng(3)
    x, y = rng.integers(0, 9, (20, 1)).astype(float), rng.standard_normal((20, 5))
    repeated = np.repeat(x, 5, axis=1)
    for result in (metrics.spearman_columns(x, y), metrics.spearman_columns(y, x)):
        np.testing.assert_array_equal(result, metrics.spearman_columns(repeated, y))
    assert np.isnan(metrics.spearman_columns(np.eye(2), np.eye(2))).all()


@given(positive=st.lists(st.integers(0, 5), max_size=15), negative=st.lists(st.integers(0, 5), max_size=15))
def test_auc_counts_pairs(positive, negative):
    pairs = [(p > n) + (p == n) / 2 for p in positive for n in negative]
    result = metrics.auc([*positive, np.nan], negative)
    assert result == pytest.approx(np.mean(pairs) if pairs else np.nan, abs=1e-12, nan_ok=True)


# Few values, so that ties, constant scores and undefined scores are frequent.
score = st.one_of(st.integers(0, 3).map(float), st.floats(-2, 2, width=16), st.just(float("nan")))
units = st.lists(
    st.tuples(score, score, st.lists(st.integers(0, 3), min_size=3, max_size=3)), min_size=1, max_size=25
)


def repeated_rho(x, y, weights):
    """Compute rho by scipy, each unit repeated as often as its weight; NaN where undefined."""
    defined = ~(np.isnan(x) | np.isnan(y))
    rows = np.repeat(np.flatnonzero(defined), weights[defined])
    if len(rows) < 3 or np.ptp(x[rows]) == 0 or np.ptp(y[rows]) == 0:
        return np.nan
    return stats.spearmanr(x[rows], y[rows]).statistic


@given(units=units, block_size=st.sampled_from([1, 40, 2**18]))
def test_weights_are_repetitions(units, block_size):
    x, y = np.array([unit[0] for unit in units]), np.array([unit[1] for unit in units])
    weights = np.array([unit[2] for unit in units]).T
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(correlation, "BLOCK_VALUES", block_size)
        result = metrics.weighted_spearman(x, y, weights)
    assert result == pytest.approx([repeated_rho(x, y, row) for row in weights], abs=1e-12, nan_ok=True)


def test_a_constant_side_has_no_rho_however_its_ranks_round():
    x, y = np.full(30_001, 0.1), np.random.default_rng(0).normal(size=30_001)
    weights = np.random.default_rng(1).poisson(1, size=(2, 30_001)).astype(np.int16)
    assert np.isnan(metrics.weighted_spearman(x, y, weights)).all()


def test_permutation_p_counts_ties_and_the_undefined_as_reached():
    assert metrics.permutation_p(np.array([np.nan, np.nan, 0.1]), 0.5) == 3 / 4
    assert metrics.permutation_p(np.array([0.5 - 1e-13, 0.4]), 0.5) == 2 / 3
    assert np.isnan(metrics.permutation_p(np.array([0.1]), np.nan))


def test_benjamini_hochberg_is_scipys_over_the_defined():
    p = np.random.default_rng(0).uniform(size=50)
    with_missing = pd.Series(p).where(np.arange(50) % 7 > 0)
    result = metrics.benjamini_hochberg(with_missing)
    assert result.isna().equals(with_missing.isna())
    assert result.dropna().to_numpy() == pytest.approx(stats.false_discovery_control(with_missing.dropna()))
    # Without any defined p, every q is undefined.
    assert metrics.benjamini_hochberg(pd.Series([np.nan, None], dtype=object)).isna().all()
    assert len(metrics.benjamini_hochberg(pd.Series([], dtype=float))) == 0


def test_the_interval_ignores_undefined_draws_unless_they_are_the_majority():
    draws = np.random.default_rng(0).permutation(np.arange(1001.0))
    assert metrics.interval(draws) == (25.0, 975.0)
    assert metrics.interval([*draws, *[np.nan] * 1001]) == (25.0, 975.0)
    assert np.isnan(metrics.interval([*draws, *[np.nan] * 1002])).all()
    assert np.isnan(metrics.interval([])).all()


def brute_force(values, *ways):
    return reference.jackknife_variance(lambda remains: values[remains].mean(), ways)


def variance(subsamples, values):
    means = jackknife.replicate(
        subsamples, lambda weights: weights @ values[:, None] / weights.sum(1)[:, None]
    )
    return means.variance()[0]


def test_single_and_crossed_ways_equal_brute_force():
    values = np.random.default_rng(0).normal(size=40)
    subsamples = jackknife.leave_out_clusters(np.array([f"{number:02d}" for number in range(40)]))
    assert variance(subsamples, values) == pytest.approx(values.var(ddof=1) / 40, rel=1e-10)
    assert subsamples.df == 39
    rng = np.random.default_rng(1)
    values = rng.normal(size=60)
    a, b = (rng.integers(0, size, 60).astype(str) for size in (7, 9))
    assert variance(jackknife.leave_out_clusters(a), values) == pytest.approx(brute_force(values, a))
    subsamples = jackknife.leave_out_crossed(a, b)
    assert variance(subsamples, values) == pytest.approx(brute_force(values, a, b))
    assert subsamples.df == 6


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
    subsamples = jackknife.leave_out_parents(first, second)
    assert variance(subsamples, values) == pytest.approx(max(by_parent - by_pair, floor))
    assert variance(jackknife.leave_out_parents(second, first), values) == pytest.approx(
        variance(subsamples, values)
    )
    assert subsamples.df == 6


def test_many_clusters_are_dealt_to_a_hundred_parts_and_too_few_have_no_variance():
    names = np.array([f"{number:03d}" for number in range(250)])
    subsamples = jackknife.leave_out_clusters(names)
    ((_, remaining),) = subsamples.ways
    assert remaining.shape == (100, 250)
    assert names[~remaining[3]].tolist() == ["003", "103", "203"]
    few = jackknife.leave_out_clusters(np.array(list("aabbccdd")))
    assert few.reason == "fewer than 5 clusters"
    assert math.isnan(variance(few, np.arange(8.0)))
    single = jackknife.leave_out_clusters(np.array(list("abcde")))
    undefined = jackknife.replicate(single, lambda weights: np.where(weights[:, :1], np.nan, 1.0))
    assert np.isnan(undefined.variance()).all()


def test_shared_clusters_cancel_in_a_difference():
    rng = np.random.default_rng(3)
    values = rng.normal(size=(30, 1)) + [[0.0, 1.0]]
    subsamples = jackknife.leave_out_clusters(np.array([str(number) for number in range(30)]))
    replicates = jackknife.replicate(subsamples, lambda weights: weights @ values / weights.sum(1)[:, None])
    assert replicates.variance(lambda means: means[:, :1] - means[:, 1:]) == pytest.approx([0], abs=1e-20)
    expected = np.cov(values.T, ddof=1) / 30
    assert replicates.covariance() == pytest.approx(expected)


def test_intervals_and_tests_are_student_s_and_those_of_a_correlation_stay_in_range():
    values = np.random.default_rng(4).normal(0.4, 1, 20)
    subsamples = jackknife.leave_out_clusters(np.array([f"{number:02d}" for number in range(20)]))
    v = variance(subsamples, values)
    expected = stats.ttest_1samp(values, 0)
    assert jackknife.t_test(values.mean(), v, subsamples.df) == pytest.approx(expected.pvalue)
    low, high = expected.confidence_interval()
    assert jackknife.compute_t_interval(values.mean(), v, subsamples.df) == pytest.approx((low, high))
    assert jackknife.t_test(0.0, 0.0, 3) == 1
    assert math.isnan(jackknife.t_test(1.0, math.nan, 3))
    low, high = jackknife.compute_rho_interval(1.0, 0.5, 9)
    assert -1 < low < high < 1
    assert all(math.isnan(end) for end in jackknife.compute_rho_interval(math.nan, 0.5, 9))


@pytest.mark.parametrize("sign", [1, -1])
def test_fieller_s_interval_holds_the_ratios_that_are_not_rejected(sign):
    covariance, df = np.array([[0.04, 0.01], [0.01, 0.03]]), 15
    result = jackknife.compare_by_ratio(sign * 0.8, sign * 1.1, covariance, df, 0.1)
    limit = stats.t.ppf(0.975, df)
    for r in (result.low, result.high):
        error = math.sqrt(0.04 + r * r * 0.03 - 2 * r * 0.01)
        assert abs(0.8 - r * 1.1) / error == pytest.approx(limit)
    assert result.low < result.value < result.high
    assert result.value == pytest.approx(0.8 / 1.1)
    assert result.is_equivalent is False
    assert jackknife.compare_by_ratio(1.0, 1.0, covariance * 1e-4, df, 0.1).is_equivalent is True
    assert jackknife.compare_by_ratio(0.8, 0.3, covariance, df, 0.1).is_equivalent is None


# Polarity, answer (None: matches no option), cluster.
answer = st.tuples(st.sampled_from([1, -1]), st.sampled_from([1, -1, 0, None]), st.integers(0, 4))
answers = st.lists(answer, min_size=1, max_size=40)
varied = answers.filter(
    lambda rows: len({x for x, _, _ in rows}) == 2 and len({y or 0 for _, y, _ in rows}) > 1 and len(rows) > 2
)


def to_arrays(rows):
    x = np.array([x for x, _, _ in rows])
    y = np.array([y or 0 for _, y, _ in rows])
    matched = np.array([y is not None for _, y, _ in rows])
    return x, y, matched, np.array([cluster for _, _, cluster in rows])


def count_table(rows):
    x, y, matched, _ = to_arrays(rows)
    return metrics.choice_tables(x, y, matched, np.zeros(len(x), dtype=int))[0]


def naive_rate(rows, polarity, answer):
    matched = [y for x, y, _ in rows if x == polarity and y is not None]
    return 100 * sum(y == answer for y in matched) / len(matched) if matched else np.nan


@given(rows=answers)
def test_rates_are_shares_of_the_matched_answers_of_a_polarity(rows):
    table = count_table(rows)
    expected = [[naive_rate(rows, x, y) for y in (1, -1, 0)] for x in (1, -1)]
    assert metrics.choice_rates(table) == pytest.approx(np.array(expected), nan_ok=True)
    assert metrics.rate_gaps(table) == pytest.approx(np.subtract(*expected), nan_ok=True)


@given(rows=varied)
def test_tau_c_is_scipys_with_the_unmatched_at_0(rows):
    x, y, _, _ = to_arrays(rows)
    assert metrics.stuart_tau_c(count_table(rows)) == pytest.approx(
        stats.kendalltau(x, y, variant="c").statistic, abs=1e-12
    )


@given(rows=varied)
def test_tau_b_and_its_asymptotic_p_are_scipys(rows):
    x, y, _, _ = to_arrays(rows)
    tau_b, p = metrics.kendall_tau_b(x, y)
    assert tau_b == pytest.approx(stats.kendalltau(x, y, variant="b").statistic, abs=1e-12)
    reference = stats.kendalltau(x, y, variant="c", method="asymptotic")
    assert p == pytest.approx(reference.pvalue, rel=1e-9)


@given(rows=answers)
def test_always_the_same_answer_is_no_association(rows):
    assume(len({x for x, _, _ in rows}) == 2)
    constant = count_table([(x, 0, cluster) for x, _, cluster in rows])
    assert metrics.stuart_tau_c(constant) == 0
    assert metrics.choice_rates(constant).tolist() == [[0, 0, 100], [0, 0, 100]]
    assert np.isnan(metrics.kendall_tau_b(to_arrays(rows)[0], np.zeros(len(rows)))).all()


@pytest.mark.parametrize("y", [(), (1,), (1, -1), (1, 0, -1, 1)])
def test_a_single_polarity_has_rates_but_no_gaps(y):
    x, y = np.ones(len(y), dtype=int), np.array(y, dtype=int)
    table = metrics.choice_tables(x, y, np.ones(len(y), dtype=bool), np.zeros(len(y), dtype=int)).sum(axis=0)
    assert np.isnan(metrics.choice_rates(table)[1]).all()
    assert np.isnan(metrics.choice_rates(table)[0]).all() == (len(y) == 0)
    assert np.isnan(metrics.rate_gaps(table)).all()
    assert np.isnan(metrics.stuart_tau_c(table))
    assert np.isnan(metrics.kendall_tau_b(x, y)).all()


def test_two_answers_have_no_asymptotic_p():
    assert metrics.kendall_tau_b(np.array([1, -1]), np.array([1, 0])) == pytest.approx((1, 1))


@given(rows=answers, positions=st.lists(st.integers(0, 10**6), min_size=5, max_size=5))
def test_weights_repeat_clusters(rows, positions):
    x, y, matched, cluster = to_arrays(rows)
    tables = metrics.choice_tables(x, y, matched, cluster)
    sample = np.array(positions) % len(tables)
    weights = np.bincount(sample, minlength=len(tables))[None]
    repeated = np.concatenate([np.flatnonzero(cluster == number) for number in sample])
    (table,) = metrics.resampled_tables(tables, weights)
    repeated_rows = [(rows[i][0], rows[i][1], 0) for i in repeated]
    for polarity in (1, -1):
        for column, answer in enumerate((1, -1, 0)):
            result = metrics.choice_rates(table)[0 if polarity == 1 else 1, column]
            assert result == pytest.approx(naive_rate(repeated_rows, polarity, answer), nan_ok=True)
    if len(set(x[repeated])) == 2 and len(set(y[repeated])) > 1:
        expected = stats.kendalltau(x[repeated], y[repeated], variant="c").statistic
        assert metrics.stuart_tau_c(table) == pytest.approx(expected, abs=1e-12)
