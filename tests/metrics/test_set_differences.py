"""Check comparisons within sets, and metrics of retrieval, against naive loops."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from src import metrics

SETS = np.array([2, 0, 1, 0, 2, 0, 1, 2, 2])
GROUPS = np.array([0, 1, 2, 0, 1, 1, 0, 2, 2])


@pytest.fixture
def values():
    return np.random.default_rng(0).integers(0, 4, (5, len(SETS))).astype(float)  # with ties


def test_ranks_and_firsts_equal_a_loop_over_pairs(values):
    ranks, firsts = metrics.set_ranks(values, SETS), metrics.first_shares(values, SETS)
    for row, item in itertools.product(range(len(values)), range(len(SETS))):
        others = [j for j in np.flatnonzero(SETS[item] == SETS) if j != item]
        beaten = [
            1.0 * (values[row, j] > values[row, item]) + 0.5 * (values[row, j] == values[row, item])
            for j in others
        ]
        assert ranks[row, item] == pytest.approx(np.mean(beaten))
        tied = [j for j in [item, *others] if values[row, j] == values[row, [item, *others]].max()]
        assert firsts[row, item] == pytest.approx((item in tied) / len(tied))


@pytest.mark.parametrize("against_others", [False, True])
def test_set_means_equal_a_loop_and_survive_permutations(values, against_others):
    def naive(groups, row):
        means = np.full((3, 3), np.nan)
        for t, g in itertools.product(range(3), range(3)):
            inside = [values[row, i] for i in range(len(SETS)) if SETS[i] == t and groups[i] == g]
            rest = [values[row, i] for i in range(len(SETS)) if SETS[i] == t and groups[i] != g]
            if inside and (rest or not against_others):
                means[t, g] = np.mean(inside) - (np.mean(rest) if against_others else 0)
        return means

    rng, permuted = np.random.default_rng(1), [GROUPS]
    for _ in range(4):
        groups = GROUPS.copy()
        for t in range(3):
            groups[t == SETS] = rng.permutation(groups[t == SETS])
        permuted.append(groups)
    result = metrics.permuted_set_means(values, np.array(permuted), SETS, 3, against_others=against_others)
    for number, groups in enumerate(permuted):
        means = metrics.set_means(values, groups, SETS, 3, against_others=against_others)
        for row in range(len(values)):
            assert means[row] == pytest.approx(naive(groups, row), nan_ok=True)
            assert result[number, row] == pytest.approx(np.nanmean(naive(groups, row), axis=0))


def test_a_group_without_items_has_no_mean(values):
    assert np.isnan(metrics.permuted_set_means(values, GROUPS[None], SETS, 4)[0, :, 3]).all()
    assert np.isnan(metrics.set_means(values, GROUPS, SETS, 4)[:, :, 3]).all()


def test_centred_values_have_mean_zero_in_each_set(values):
    centred = metrics.centre(values, SETS)
    for t in range(3):
        assert centred[:, t == SETS].mean(axis=1) == pytest.approx(np.zeros(len(values)))
        assert np.diff(centred[:, t == SETS]) == pytest.approx(np.diff(values[:, t == SETS]))


def test_bias_and_skew_equal_their_definitions():
    men, women = np.array([3.0, 0, 0, 5]), np.array([1.0, 2, 0, 5])
    assert metrics.bias_at_k(men, women).tolist() == [0.5, -1.0, 0.0, 0.0]
    assert metrics.bias_at_k(women, men) == pytest.approx(-metrics.bias_at_k(men, women))
    shares, base = np.array([[0.6, 0.4, 0.0]]), np.array([0.5, 0.25, 0.25])
    expected = [[math.log(1.2), math.log(1.6), math.log(0.1 / 0.25)]]
    assert metrics.skew(shares, base, 10) == pytest.approx(np.array(expected))
    assert metrics.max_skew(shares, base, 10) == pytest.approx([math.log(1.6)])


def test_the_joint_p_of_a_single_group_is_the_two_sided_permutation_p():
    rng = np.random.default_rng(0)
    null, observed = rng.normal(size=(199, 1)), np.array([1.7])
    everything = np.append(null[:, 0], observed)
    expected = np.mean(np.abs(everything - everything.mean()) >= abs(observed[0] - everything.mean()) - 1e-12)
    assert metrics.joint_permutation_p(null, observed) == pytest.approx([expected])


def test_the_joint_p_is_the_share_of_largest_scores():
    rng = np.random.default_rng(0)
    null, observed = rng.normal(size=(99, 4, 3)) * [1, 5, 1], rng.normal(size=(4, 3)) * [3, 5, 0]
    null[..., 2] = observed[..., 2] = 0.25  # never changes
    p = metrics.joint_permutation_p(null, observed)
    for row in range(4):
        draws = np.concatenate([observed[row][None], null[:, row]])[:, :2]
        z = np.abs(stats.zscore(draws))
        assert p[row, :2] == pytest.approx([(z.max(axis=1) >= z[0, g] - 1e-9).mean() for g in (0, 1)])
    assert np.isnan(p[:, 2]).all()
