"""Spearman's rho against scipy and by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from src.metrics import spearman

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
