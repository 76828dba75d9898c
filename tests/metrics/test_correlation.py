"""Spearman's rho against scipy and by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from src.metrics import auc, spearman, spearman_columns

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

scores = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=3, max_size=30)


@given(pairs=scores)
def test_spearman_is_pearson_of_midranks(pairs):
    x, y = np.array(pairs, dtype=float).T
    found = spearman(x, y)
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert np.isnan(found.rho)
        assert found.reason
    else:
        midranks = [stats.rankdata(values, method="average") for values in (x, y)]
        assert found.rho == pytest.approx(np.corrcoef(*midranks)[0, 1], abs=1e-12)
        assert found.p == pytest.approx(stats.spearmanr(x, y).pvalue, abs=1e-12)


def test_undefined_scores_are_left_out_and_counted():
    found = spearman([1, 2, 3, np.nan, 5, 6], [1, 2, 3, 4, np.nan, 0])
    assert (found.n, found.n_excluded) == (4, 2)
    assert found.rho == pytest.approx(stats.spearmanr([1, 2, 3, 6], [1, 2, 3, 0]).statistic)


@pytest.mark.parametrize(
    ("x", "y", "reason"),
    [
        ([1, 2], [1, 2], "2 units: at least 3 are needed"),
        ([1, 1, 1], [1, 2, 3], "every unit has the same intrinsic score"),
        ([1, 2, 3], [1, 1, 1], "every unit has the same outcome"),
    ],
)
def test_where_there_is_no_rho_the_reason_is_given(x, y, reason):
    found = spearman(x, y)
    assert np.isnan(found.rho)
    assert found.reason == reason


@given(
    columns=st.lists(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=12, max_size=12),
        min_size=1,
        max_size=4,
    ),
    missing=st.integers(0, 12),
)
def test_many_columns_are_each_their_own_rho(columns, missing):
    x, y = np.array(columns, dtype=float).transpose(2, 1, 0)
    y[missing:, 0] = np.nan
    x, y = np.column_stack([x, np.full(12, 0.1)]), np.column_stack([y, np.arange(12)])
    found = spearman_columns(x, y)
    for column, rho in enumerate(found):
        whole = not np.isnan(y[:, column]).any()
        expected = spearman(x[:, column], y[:, column]).rho if whole else np.nan
        assert rho == pytest.approx(expected, abs=1e-12, nan_ok=True)


def test_a_single_column_is_held_against_each():
    rng = np.random.default_rng(3)
    x, y = rng.integers(0, 9, (20, 1)).astype(float), rng.standard_normal((20, 5))
    every = np.repeat(x, 5, axis=1)
    for found in (spearman_columns(x, y), spearman_columns(y, x)):
        np.testing.assert_array_equal(found, spearman_columns(every, y))


def test_two_rows_have_no_rho():
    assert np.isnan(spearman_columns(np.eye(2), np.eye(2))).all()


@given(positive=st.lists(st.integers(0, 5), max_size=15), negative=st.lists(st.integers(0, 5), max_size=15))
def test_auc_counts_pairs(positive, negative):
    pairs = [(p > n) + (p == n) / 2 for p in positive for n in negative]
    found = auc([*positive, np.nan], negative)
    assert found == pytest.approx(np.mean(pairs) if pairs else np.nan, abs=1e-12, nan_ok=True)
