"""Check CLES, Z and IAT totals against loops over floats, scipy, and repeated rows."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from src import metrics
from src.metrics import implicit
from tests import implicit as naive

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

# Few distinct values, so that ties are frequent.
tied = st.integers(-3, 3).map(lambda value: value / 4)
cosine_pairs = st.tuples(st.integers(2, 9), st.integers(2, 9), st.integers(1, 4)).flatmap(
    lambda sizes: st.tuples(
        arrays(float, (sizes[0], sizes[2]), elements=tied), arrays(float, (sizes[1], sizes[2]), elements=tied)
    )
)


def to_lists(*arrays):
    return [array.tolist() for array in arrays]


def draw_cosines(a=20, b=13, x=5, seed=0, shift=0.2):
    rng = np.random.default_rng(seed)
    return rng.normal(shift, 1, size=(a, x)) / 9, rng.normal(size=(b, x)) / 7


@pytest.mark.parametrize("ties", ["half", "strict"])
@given(pair=cosine_pairs)
def test_cles_is_the_share_of_all_triples(pair, ties):
    assert metrics.cles(*pair, ties) == pytest.approx(naive.cles(*to_lists(*pair), ties), abs=1e-12)


def test_z_and_its_upper_tail_equal_those_of_the_loop_and_scipy():
    to_a, to_b = draw_cosines()
    z = naive.z(*to_lists(to_a, to_b))
    assert metrics.z_score(to_a, to_b) == metrics.z_score(to_b, to_a) == pytest.approx(z, abs=1e-12)
    assert metrics.upper_tail(z) == pytest.approx(naive.upper_tail(z), abs=1e-12)
    assert metrics.upper_tail(z) == pytest.approx(stats.norm.sf(z), abs=1e-12)
    # Far in the tail it is small, but above 0.
    assert 0 < metrics.upper_tail(20) < 1e-80


def test_mcgraw_wong_is_the_normal_share():
    to_a, to_b = draw_cosines(4000, 4000, 2)
    spread = math.hypot(to_a.std(ddof=1), to_b.std(ddof=1))
    expected = stats.norm.cdf((to_a.mean() - to_b.mean()) / spread)
    assert metrics.cles_mcgraw_wong(to_a, to_b) == pytest.approx(expected, abs=1e-12)
    assert metrics.cles(to_a, to_b) == pytest.approx(expected, abs=0.01)


def test_without_variance_a_statistic_is_undefined():
    # Means of 0.1 are rounded: equal values must still count as equal.
    a, b = np.full((7, 3), 0.1), np.full((5, 3), 0.3)
    for statistic in (metrics.cohens_d, metrics.z_score, metrics.cles_mcgraw_wong):
        assert math.isnan(statistic(a, b))
    assert math.isnan(metrics.upper_tail(metrics.z_score(a, b)))
    assert math.isnan(metrics.cohens_d(draw_cosines(1, 1)[0], draw_cosines(1, 1)[1]))
    assert metrics.cles(a, b) == 0
    assert metrics.cles(a, a) == 0.5
    assert metrics.cles(a, a, "strict") == 0


@pytest.mark.parametrize("ties", ["half", "strict"])
@given(pair=cosine_pairs, seed=st.integers(0, 99), block_size=st.sampled_from([1, 12, 2**22]))
def test_weights_are_repetitions(pair, ties, seed, block_size):
    to_a, to_b = pair
    rng = np.random.default_rng(seed)
    weights_a, weights_b = (rng.integers(0, 4, size=(5, len(side))).astype(np.int16) for side in pair)
    weights_a[0] = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(implicit, "BLOCK", block_size)
        result = metrics.resampled_cles(to_a, to_b, weights_a, weights_b, ties)
    for share, repeats_a, repeats_b in zip(result, weights_a, weights_b, strict=True):
        if not repeats_a.sum() or not repeats_b.sum():
            assert math.isnan(share)
        else:
            repeated = np.repeat(to_a, repeats_a, axis=0), np.repeat(to_b, repeats_b, axis=0)
            assert share == pytest.approx(naive.cles(*to_lists(*repeated), ties), abs=1e-12)


def test_totals_of_weighted_images():
    scores = np.array([[1.0, -1.0], [1.0, 1.0], [-1.0, -1.0]])
    result = metrics.iat_totals(scores, np.array([[1, 1, 1], [0, 2, 1], [2, 4, 0], [0, 0, 0]]), 3)
    # Scaled to three images, whatever the weights sum to; integers are exact.
    assert result[:3].tolist() == [[1, -1], [1, 1], [3, 1]]
    assert np.isnan(result[3]).all()
    unweighted = metrics.iat_totals(scores, np.array([[True, False, True]]), 2)
    assert unweighted.tolist() == [[0, -2]]
