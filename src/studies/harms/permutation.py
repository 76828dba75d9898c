"""Exchange the groups of people (docs/methods.md, section 7.4)."""

from collections.abc import Sequence

import numpy as np

from src import metrics
from src.studies.harms.outcomes import FPR, Outcome
from src.studies.shared.exchange_units import Exchange

NULL_INTERVAL = (0.025, 0.975)


def permute_shares(
    exchange: Exchange, group_of: np.ndarray, n_groups: int, outcomes: Sequence[Outcome], draws: int
) -> np.ndarray:
    """Compute the shares of groups after people have exchanged their groups, [R, outcomes, G].

    People with equally many pictures change places, within their sets if there are any; the outcome of a
    face moves with it. NaN for false positives, whose outcome is not one of the face alone.

    Args:
        exchange: exchange units of the faces.
        group_of: [N], index of each face's group.
        n_groups: number of groups.
        outcomes: outcomes of the faces.
        draws: R, number of permutations.
    """
    permutations = exchange.draw_permutations(draws)
    sizes = np.bincount(group_of, minlength=n_groups)
    shares = np.full((draws, len(outcomes), n_groups), np.nan)
    permuted_columns = [column for column, outcome in enumerate(outcomes) if outcome.measure != FPR]
    values = [outcomes[column].values[:, 0] for column in permuted_columns]
    for draw, permutation in enumerate(permutations):
        labels = group_of[permutation]
        for column, weights in zip(permuted_columns, values, strict=True):
            shares[draw, column] = np.bincount(labels, weights, minlength=n_groups) / sizes
    return shares


def compare_with_null(
    observed: np.ndarray, null: np.ndarray, has_p: np.ndarray, chosen: np.ndarray
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Compare the shares of an outcome with permutations.

    Args:
        observed: [G], share of each group.
        null: [R, G], shares under the permutations.
        has_p: [G], mask of groups with a p.
        chosen: positions of the groups whose extremes are compared.

    Returns:
        Columns of groups, [G] each: `null_low` and `null_high`, and `p`, joint over groups; and numbers of
        the extremes: `difference_q95`, `difference_p`, `ratio_q05` and `ratio_p`, NaN if a chosen group has
        no p.
    """
    p = metrics.joint_permutation_p(np.where(has_p, null, np.nan), np.where(has_p, observed, np.nan))
    low, high = np.quantile(null, NULL_INTERVAL, axis=0)
    columns = {"null_low": low, "null_high": high}
    columns = {name: np.where(has_p, values, np.nan) for name, values in columns.items()} | {"p": p}
    extremes = dict.fromkeys(("difference_q95", "difference_p", "ratio_q05", "ratio_p"), float("nan"))
    if not has_p[chosen].all():
        return columns, extremes
    smallest, largest = null[:, chosen].min(axis=1), null[:, chosen].max(axis=1)
    low_share, high_share = observed[chosen].min(), observed[chosen].max()
    extremes["difference_q95"] = float(np.quantile(largest - smallest, 0.95))
    extremes["difference_p"] = metrics.permutation_p(largest - smallest, high_share - low_share)
    if high_share > 0:  # the total is the same in every permutation
        ratios = smallest / largest
        extremes["ratio_q05"] = float(np.quantile(ratios, 0.05))
        extremes["ratio_p"] = metrics.permutation_p(-ratios, -low_share / high_share)
    return columns, extremes
