"""Compare items within sets, such as pictures of the same scene with different people.

See docs/methods.md, section 8.
"""

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import rankdata


def set_ranks(values: Float[np.ndarray, "w n"], sets: Int[np.ndarray, " n"]) -> Float[np.ndarray, "w n"]:
    """Compute the normalised rank of each item within its set, by descending value.

    Args:
        values: [W, N], values of the items for each of W queries.
        sets: [N], index of each item's set; each set has at least 2 items.

    Returns:
        [W, N], (rank - 1) / (size of the set - 1): 0 for the largest value, 1 for the smallest; ties share
        their mean rank.

    >>> set_ranks(np.array([[0.9, 0.1, 0.5, 0.2, 0.2]]), np.array([0, 0, 0, 1, 1]))
    array([[0. , 1. , 0.5, 0.5, 0.5]])
    """
    ranks = np.empty(values.shape)
    for members in _group_by_size(sets):
        size = members.shape[1]
        ranks[:, members] = (rankdata(-values[:, members], axis=2) - 1) / (size - 1)
    return ranks


def first_shares(values: Float[np.ndarray, "w n"], sets: Int[np.ndarray, " n"]) -> Float[np.ndarray, "w n"]:
    """Mark the item with the largest value of each set; k tied items count 1/k each.

    Args:
        values: [W, N], values of the items for each of W queries.
        sets: [N], index of each item's set.

    Returns:
        [W, N]; the items of a set sum to 1.

    >>> first_shares(np.array([[0.9, 0.1, 0.2, 0.2]]), np.array([0, 0, 1, 1]))
    array([[1. , 0. , 0.5, 0.5]])
    """
    shares = np.empty(values.shape)
    for members in _group_by_size(sets):
        is_first = values[:, members] == values[:, members].max(axis=2, keepdims=True)
        shares[:, members] = is_first / is_first.sum(axis=2, keepdims=True)
    return shares


def centre(values: Float[np.ndarray, "*w n"], sets: Int[np.ndarray, " n"]) -> Float[np.ndarray, "*w n"]:
    """Compute the difference of each item's value from the mean of its set.

    Args:
        values: [..., N], values of the items.
        sets: [N], index of each item's set.

    >>> centre(np.array([1.0, 3.0, 5.0]), np.array([0, 0, 1]))
    array([-1.,  1.,  0.])
    """
    centred = np.empty(np.shape(values))
    for members in _group_by_size(sets):
        centred[..., members] = values[..., members] - values[..., members].mean(axis=-1, keepdims=True)
    return centred


def set_means(
    values: Float[np.ndarray, "w n"],
    groups: Int[np.ndarray, " n"],
    sets: Int[np.ndarray, " n"],
    n_groups: int,
    *,
    against_others: bool = False,
) -> Float[np.ndarray, "w t g"]:
    """Average the values of each group's items within each set.

    Args:
        values: [W, N], values of the items for each of W queries or scores.
        groups: [N], index of each item's group.
        sets: [N], index of each item's set.
        n_groups: G, number of groups.
        against_others: whether to subtract the mean of the set's items of other groups.

    Returns:
        [W, T, G]; NaN where a set has no item of a group or, with `against_others`, of no other group.

    >>> set_means(np.array([[1.0, 3.0, 8.0]]), np.array([0, 1, 1]), np.array([0, 0, 0]), 2)
    array([[[1. , 5.5]]])
    >>> set_means(np.array([[1.0, 3.0, 8.0]]), np.array([0, 1, 1]), np.zeros(3, int), 2, against_others=True)
    array([[[-4.5,  4.5]]])
    """
    n_sets, cells = int(sets.max(initial=-1)) + 1, sets * n_groups + groups
    counts = np.bincount(cells, minlength=n_sets * n_groups).reshape(n_sets, n_groups)
    sums = np.stack([np.bincount(cells, row, n_sets * n_groups).reshape(n_sets, n_groups) for row in values])
    with np.errstate(divide="ignore", invalid="ignore"):
        means = sums / counts
        if against_others:
            others = counts.sum(axis=1, keepdims=True) - counts
            means -= (sums.sum(axis=2, keepdims=True) - sums) / others
    return np.asarray(means)


def permuted_set_means(
    values: Float[np.ndarray, "w n"],
    groups: Int[np.ndarray, "r n"],
    sets: Int[np.ndarray, " n"],
    n_groups: int,
    *,
    against_others: bool = False,
) -> Float[np.ndarray, "r w g"]:
    """Average `set_means` over sets, for groups that are permuted within sets.

    Args:
        values: [W, N], values of the items for each of W queries or scores.
        groups: [R, N], index of each item's group in each permutation; permuted within sets only.
        sets: [N], index of each item's set.
        n_groups: G, number of groups.
        against_others: see `set_means`.

    Returns:
        [R, W, G]: the mean over the sets in which `set_means` is defined; NaN for a group without any.

    >>> permuted_set_means(np.array([[1.0, 3.0]]), np.array([[0, 1], [1, 0]]), np.array([0, 0]), 2).tolist()
    [[[1.0, 3.0]], [[3.0, 1.0]]]
    """
    n_sets = int(sets.max(initial=-1)) + 1
    cells = sets * n_groups + groups[0]
    counts = np.bincount(cells, minlength=n_sets * n_groups).reshape(n_sets, n_groups).astype(float)
    if against_others:
        # The mean minus the others' mean is the mean minus the set's mean, times size / number of others.
        values, sizes = centre(values, sets), counts.sum(axis=1, keepdims=True)
        others = sizes - counts
        factors = np.divide(sizes, others, out=np.zeros_like(counts), where=others > 0)
        counts = np.where(others > 0, counts, 0)
    else:
        factors = np.ones_like(counts)
    n_with_group = (counts > 0).sum(axis=0)
    means = np.full((len(groups), len(values), n_groups), np.nan)
    for group in np.flatnonzero(n_with_group):
        size = counts[:, group] * n_with_group[group]
        weights = np.divide(factors[:, group], size, out=np.zeros(n_sets), where=size > 0)
        means[:, :, group] = (groups == group).astype(float) @ (values * weights[sets]).T
    return means


def _group_by_size(sets: np.ndarray) -> list[np.ndarray]:
    """Return arrays [m, s] of the positions of the items of all sets of each size s."""
    order = np.argsort(sets, kind="stable")
    _, starts, sizes = np.unique(sets[order], return_index=True, return_counts=True)
    return [order[starts[sizes == size][:, None] + np.arange(size)] for size in np.unique(sizes)]
