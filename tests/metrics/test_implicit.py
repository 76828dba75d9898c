"""Check CLES, Z and totals against triple loops over floats, scipy, and repeated rows."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from src import metrics
from src.metrics import common_language
from tests import implicit as naive

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

# Few values: heavy ties.
few = st.integers(-3, 3).map(lambda value: value / 4)
sides = st.tuples(st.integers(2, 9), st.integers(2, 9), st.integers(1, 4)).flatmap(
    lambda sizes: st.tuples(
        arrays(float, (sizes[0], sizes[2]), elements=few), arrays(float, (sizes[1], sizes[2]), elements=few)
    )
)


def lists(*sides):
    return [side.tolist() for side in sides]


def drawn(a=20, b=13, x=5, seed=0, shift=0.2):
    rng = np.random.default_rng(seed)
    return rng.normal(shift, 1, size=(a, x)) / 9, rng.normal(size=(b, x)) / 7


@pytest.mark.parametrize("ties", ["half", "strict"])
@given(both=sides)
def test_cles_is_the_share_of_all_triples(both, ties):
    assert metrics.cles(*both, ties) == pytest.approx(naive.cles(*lists(*both), ties), abs=1e-12)


def test_z_and_its_tail_by_hand():
    to_a, to_b = drawn()
    z = naive.z(*lists(to_a, to_b))
    assert metrics.z_score(to_a, to_b) == metrics.z_score(to_b, to_a) == pytest.approx(z, abs=1e-12)
    assert metrics.upper_tail(z) == pytest.approx(naive.above(z), abs=1e-12)
    assert metrics.upper_tail(z) == pytest.approx(stats.norm.sf(z), abs=1e-12)
    # Far out it is small, not nothing.
    assert 0 < metrics.upper_tail(20) < 1e-80


def test_mcgraw_wong_is_the_normal_share():
    to_a, to_b = drawn(4000, 4000, 2)
    spread = math.hypot(to_a.std(ddof=1), to_b.std(ddof=1))
    expected = stats.norm.cdf((to_a.mean() - to_b.mean()) / spread)
    assert metrics.cles_mcgraw_wong(to_a, to_b) == pytest.approx(expected, abs=1e-12)
    assert metrics.cles(to_a, to_b) == pytest.approx(expected, abs=0.01)


def test_without_variance_a_statistic_is_undefined():
    # Means of tenths round: what is equal must count as equal.
    a, b = np.full((7, 3), 0.1), np.full((5, 3), 0.3)
    for statistic in (metrics.cohens_d, metrics.z_score, metrics.cles_mcgraw_wong):
        assert math.isnan(statistic(a, b))
    assert math.isnan(metrics.upper_tail(metrics.z_score(a, b)))
    assert math.isnan(metrics.cohens_d(drawn(1, 1)[0], drawn(1, 1)[1]))
    assert metrics.cles(a, b) == 0
    assert metrics.cles(a, a) == 0.5
    assert metrics.cles(a, a, "strict") == 0


@pytest.mark.parametrize("ties", ["half", "strict"])
@given(both=sides, seed=st.integers(0, 99), block=st.sampled_from([1, 12, 2**22]))
def test_weights_are_repetitions(both, ties, seed, block):
    to_a, to_b = both
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(0, 4, size=(5, len(side))).astype(np.int16) for side in both)
    a[0] = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(common_language, "BLOCK", block)
        result = metrics.resampled_cles(to_a, to_b, a, b, ties)
    for share, of_a, of_b in zip(result, a, b, strict=True):
        if not of_a.sum() or not of_b.sum():
            assert math.isnan(share)
        else:
            written_out = np.repeat(to_a, of_a, axis=0), np.repeat(to_b, of_b, axis=0)
            assert share == pytest.approx(naive.cles(*lists(*written_out), ties), abs=1e-12)


def test_totals_of_weighted_images():
    scores = np.array([[1.0, -1.0], [1.0, 1.0], [-1.0, -1.0]])
    result = metrics.iat_totals(scores, np.array([[1, 1, 1], [0, 2, 1], [2, 4, 0], [0, 0, 0]]), 3)
    # As of three images, whatever the weights sum to; whole numbers exactly.
    assert result[:3].tolist() == [[1, -1], [1, 1], [3, 1]]
    assert np.isnan(result[3]).all()
    half = metrics.iat_totals(scores, np.array([[True, False, True]]), 2)
    assert half.tolist() == [[0, -2]]
