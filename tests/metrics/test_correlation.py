"""Check correlations, permutation p values, intervals and corrections against scipy and loops."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from src.metrics import (
    auc,
    benjamini_hochberg,
    correlation,
    interval,
    permutation_p,
    spearman,
    spearman_columns,
    weighted_spearman,
)

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

scores = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=3, max_size=30)


@given(pairs=scores)
def test_spearman_is_pearson_of_midranks(pairs):
    x, y = np.array(pairs, dtype=float).T
    result = spearman(x, y)
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert np.isnan(result.rho)
        assert result.reason
    else:
        midranks = [stats.rankdata(values, method="average") for values in (x, y)]
        assert result.rho == pytest.approx(np.corrcoef(*midranks)[0, 1], abs=1e-12)
        assert result.p == pytest.approx(stats.spearmanr(x, y).pvalue, abs=1e-12)


def test_undefined_scores_are_left_out_and_counted():
    result = spearman([1, 2, 3, np.nan, 5, 6], [1, 2, 3, 4, np.nan, 0])
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
    result = spearman(x, y)
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
    result = spearman_columns(x, y)
    for column, rho in enumerate(result):
        complete = not np.isnan(y[:, column]).any()
        expected = spearman(x[:, column], y[:, column]).rho if complete else np.nan
        assert rho == pytest.approx(expected, abs=1e-12, nan_ok=True)


def test_a_single_column_is_correlated_with_each():
    rng = np.random.default_rng(3)
    x, y = rng.integers(0, 9, (20, 1)).astype(float), rng.standard_normal((20, 5))
    repeated = np.repeat(x, 5, axis=1)
    for result in (spearman_columns(x, y), spearman_columns(y, x)):
        np.testing.assert_array_equal(result, spearman_columns(repeated, y))


def test_two_rows_have_no_rho():
    assert np.isnan(spearman_columns(np.eye(2), np.eye(2))).all()


@given(positive=st.lists(st.integers(0, 5), max_size=15), negative=st.lists(st.integers(0, 5), max_size=15))
def test_auc_counts_pairs(positive, negative):
    pairs = [(p > n) + (p == n) / 2 for p in positive for n in negative]
    result = auc([*positive, np.nan], negative)
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
        patch.setattr(correlation, "BLOCK", block_size)
        result = weighted_spearman(x, y, weights)
    assert result == pytest.approx([repeated_rho(x, y, row) for row in weights], abs=1e-12, nan_ok=True)


def test_a_constant_side_has_no_rho_however_its_ranks_round():
    x, y = np.full(30_001, 0.1), np.random.default_rng(0).normal(size=30_001)
    weights = np.random.default_rng(1).poisson(1, size=(2, 30_001)).astype(np.int16)
    assert np.isnan(weighted_spearman(x, y, weights)).all()


def test_permutation_p_counts_ties_and_the_undefined_as_reached():
    assert permutation_p(np.array([np.nan, np.nan, 0.1]), 0.5) == 3 / 4
    assert permutation_p(np.array([0.5 - 1e-13, 0.4]), 0.5) == 2 / 3
    assert np.isnan(permutation_p(np.array([0.1]), np.nan))


def test_benjamini_hochberg_is_scipys_over_the_defined():
    p = np.random.default_rng(0).uniform(size=50)
    with_missing = pd.Series(p).where(np.arange(50) % 7 > 0)
    result = benjamini_hochberg(with_missing)
    assert result.isna().equals(with_missing.isna())
    assert result.dropna().to_numpy() == pytest.approx(stats.false_discovery_control(with_missing.dropna()))
    # Without any defined p, every q is undefined.
    assert benjamini_hochberg(pd.Series([np.nan, None], dtype=object)).isna().all()
    assert len(benjamini_hochberg(pd.Series([], dtype=float))) == 0


def test_the_interval_ignores_undefined_draws_unless_they_are_the_majority():
    draws = np.random.default_rng(0).permutation(np.arange(1001.0))
    assert interval(draws) == (25.0, 975.0)
    assert interval([*draws, *[np.nan] * 1001]) == (25.0, 975.0)
    assert np.isnan(interval([*draws, *[np.nan] * 1002])).all()
    assert np.isnan(interval([])).all()
