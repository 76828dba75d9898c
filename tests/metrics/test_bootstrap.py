"""Weighted rho against scipy's of the repeated sample, and the interval by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from src.metrics import bootstrap, interval, weighted_spearman

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

# Few values: heavy ties, constant sides, and scores that are not defined.
score = st.one_of(st.integers(0, 3).map(float), st.floats(-2, 2, width=16), st.just(float("nan")))
units = st.lists(
    st.tuples(score, score, st.lists(st.integers(0, 3), min_size=3, max_size=3)), min_size=1, max_size=25
)


def repeated(x, y, weights):
    """Rho of the sample written out, by scipy; NaN where there is none."""
    defined = ~(np.isnan(x) | np.isnan(y))
    rows = np.repeat(np.flatnonzero(defined), weights[defined])
    if len(rows) < 3 or np.ptp(x[rows]) == 0 or np.ptp(y[rows]) == 0:
        return np.nan
    return stats.spearmanr(x[rows], y[rows]).statistic


@given(units=units, block=st.sampled_from([1, 40, 2**18]))
def test_weights_are_repetitions(units, block):
    x, y = np.array([unit[0] for unit in units]), np.array([unit[1] for unit in units])
    weights = np.array([unit[2] for unit in units]).T
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bootstrap, "BLOCK", block)
        found = weighted_spearman(x, y, weights)
    assert found == pytest.approx([repeated(x, y, row) for row in weights], abs=1e-12, nan_ok=True)


def test_a_constant_side_has_no_rho_however_its_ranks_round():
    x, y = np.full(30_001, 0.1), np.random.default_rng(0).normal(size=30_001)
    weights = np.random.default_rng(1).poisson(1, size=(2, 30_001)).astype(np.int16)
    assert np.isnan(weighted_spearman(x, y, weights)).all()


def test_the_interval_leaves_out_what_is_undefined_unless_that_is_most():
    draws = np.random.default_rng(0).permutation(np.arange(1001.0))
    assert interval(draws) == (25.0, 975.0)
    assert interval([*draws, *[np.nan] * 1001]) == (25.0, 975.0)
    assert np.isnan(interval([*draws, *[np.nan] * 1002])).all()
    assert np.isnan(interval([])).all()
