"""Check measures of audits and of groups (docs/methods.md, 3 and 4) against loops over floats and scipy."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from src import metrics
from src.metrics import implicit
from tests import reference as naive

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


def draw_labels(seed, groups=3, count=40):
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(groups), rng.integers(groups, size=count - groups)])
    return rng, rng.permutation(labels)


def one_hot(labels, groups):
    return labels[..., None] == np.arange(groups)


def naive_measures(top, base):
    """Compute the measures of retrieved groups by loops; `top`: group numbers in the order of retrieval."""
    k, p = len(top), [float(np.mean(top == g)) for g in range(len(base))]
    total = discounts = 0.0
    for i in range(1, k + 1):
        shares = [np.mean(top[:i] == g) for g in range(len(base))]
        total += stats.entropy(shares, base) / math.log2(i + 1)
        discounts += 1 / math.log2(i + 1)
    return {
        "entropy": -sum(x * math.log(x) for x in p if x > 0) / math.log(len(p)),
        "kl": stats.entropy(p, base),
        "maxskew": max(math.log(max(x, 1 / k) / q) for x, q in zip(p, base, strict=True)),
        "ndkl": total / discounts,
    }


@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(1, 20))
def test_measures_of_retrieved_groups_are_the_loops(seed, groups, k):
    rng, labels = draw_labels(seed, groups)
    base = np.bincount(labels, minlength=groups) / len(labels)
    top = labels[rng.permutation(len(labels))[:k]]
    p = np.bincount(top, minlength=groups) / k
    result = {"entropy": metrics.normalised_entropy(p), "kl": metrics.kl(p, base)}
    result |= {"maxskew": metrics.max_skew(p, base, k), "ndkl": metrics.ndkl(one_hot(top, groups), base)}
    assert result == pytest.approx(naive_measures(top, base), abs=1e-12)


def test_even_and_single_group_retrieval_give_the_extreme_values():
    even, single = np.full(4, 0.25), np.array([0.0, 1.0, 0, 0])
    assert metrics.normalised_entropy(even) == 1
    assert metrics.normalised_entropy(single) == 0
    assert metrics.kl(even, even) == 0
    assert metrics.max_skew(even, even, 100) == 0
    # MaxSkew is finite although three groups are not retrieved; the retrieved group decides.
    assert metrics.max_skew(single, even, 100) == pytest.approx(math.log(4))


@given(st.integers(0, 10_000), st.integers(2, 5), st.integers(6, 60))
def test_group_association_is_its_definition(seed, groups, count):
    rng, labels = draw_labels(seed, groups, count)
    cosines = rng.normal(0.2, 0.03, (4, count)).round(12)
    result = metrics.group_association(cosines, one_hot(labels, groups))
    for w, row in enumerate(cosines):
        for g in range(groups):
            gap = row[labels == g].mean() - row[labels != g].mean()
            assert result[w, g] == pytest.approx(gap / row.std(ddof=1), abs=1e-9)


def test_captions_without_variance_have_no_association_and_no_score():
    cosines = np.full((1, 6), 0.3)
    assert np.isnan(metrics.group_association(cosines, one_hot(np.array([0, 1, 0, 1, 0, 1]), 2))).all()
    z = np.full((1, 12), np.nan)
    tests = metrics.welch_tests(z, z, np.array([[0] * 5 + [1] * 7]), [np.eye(2, dtype=bool)])[0]
    assert np.isnan(tests.score()).all()


@given(st.integers(0, 10_000))
def test_welch_tests_are_those_of_scipy_under_each_labelling(seed):
    rng, labels = draw_labels(seed, groups=6, count=50)
    labels[:12] = np.repeat(np.arange(6), 2)
    z = metrics.standardise(rng.normal(size=(2, 50)))
    cells = np.array([rng.permutation(labels) for _ in range(2)])
    by_race, by_cell = one_hot(np.array([0, 0, 1, 1, 2, 2]), 3), np.eye(6, dtype=bool)
    axes = [by_race, by_cell]
    for axis, tests in zip(axes, metrics.welch_tests(z, z**2, cells, axes), strict=True):
        scores, thresholds = tests.score(), tests.difference_at(np.float64(2.5))
        for w, r, g in np.ndindex(tests.difference.shape):
            is_member = axis[cells[r], g]
            inside, outside = z[w, is_member], z[w, ~is_member]
            expected = stats.ttest_ind(inside, outside, equal_var=False)
            assert tests.difference[w, r, g] == pytest.approx(inside.mean() - outside.mean())
            assert tests.difference[w, r, g] / tests.error[w, r, g] == pytest.approx(expected.statistic)
            assert tests.df[w, r, g] == pytest.approx(expected.df)
            # The two-sided p of t is that of the normal score.
            assert 2 * stats.norm.sf(scores[w, r, g]) == pytest.approx(expected.pvalue)
            t = thresholds[w, r, g] / tests.error[w, r, g]
            assert stats.t.sf(t, expected.df) == pytest.approx(stats.norm.sf(2.5))


def test_scores_of_large_t_and_of_groups_without_variance_are_ordered():
    # |t| of 37 and 38 with many degrees of freedom, where the tail is about 1e-300, and beyond float64.
    tests = metrics.WelchTests(np.array([[[37.0, 38, 100]]]), np.ones((1, 1, 3)), np.full((1, 1, 3), 1e7))
    scores = tests.score()[0, 0]
    assert 36.9 < scores[0] < scores[1] <= scores[2]
    # All cosines of a group are equal, and all others as well.
    z = metrics.standardise(np.array([[0.1] * 5 + [0.2] * 7])).astype(np.float32)
    labels = np.array([[0] * 5 + [1] * 7, [1] * 7 + [0] * 5])
    separated, mixed = metrics.welch_tests(z, z**2, labels, [np.eye(2, dtype=bool)])[0].score()[0]
    assert (separated > mixed).all()
    assert np.isfinite(separated).all()
