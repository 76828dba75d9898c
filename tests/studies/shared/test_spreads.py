"""Check spreads and ratios in worlds whose spread is known, and how estimates are pooled."""

import math
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from src.metrics.jackknife import Replicates, replicate
from src.studies.shared.spreads import classify_ratio, compute_ratio, estimate_spreads
from src.studies.shared.target_jackknife import (
    TargetEstimate,
    average_estimates,
    build_joint_subsamples,
    covariance,
)

PARENTS, MORPHS, RACES, GENDERS = 30, 200, 12, 15


def group_means(squared_spread, count):
    means = np.linspace(-1, 1, count)
    return means / means.std() * math.sqrt(squared_spread)


def morphs(rng, squared_spread, ratio):
    """Synthesise four groups of morphs: each parent contributes to all its morphs."""
    tables = []
    pairs = np.stack(np.triu_indices(PARENTS, 1))
    for group, mean in enumerate(group_means(squared_spread, 4)):
        a, b = pairs[:, rng.choice(pairs.shape[1], MORPHS, replace=False)]
        of_parent = 0.5 * rng.normal(size=(PARENTS, 2))
        shared, added = (of_parent[a] + of_parent[b]).T / math.sqrt(2)
        names = [[f"{group}-{parent:02d}" for parent in side] for side in (a, b)]
        ids = [f"{first}x{second}" for first, second in zip(*names, strict=True)]
        columns = {"stratum": f"g{group}", "id": ids, "parent_a": names[0], "parent_b": names[1]}
        tables.append(pd.DataFrame(columns | scores(rng, mean, ratio, shared, added)))
    return pd.concat(tables, ignore_index=True)


def labels(rng, squared_spread, ratio):
    """Synthesise phrases of two races by two genders: groups share words, which contribute to all phrases."""
    tables = []
    races, genders = 0.3 * rng.normal(size=(2, RACES, 2)), 0.3 * rng.normal(size=(2, GENDERS, 2))
    a, b = np.divmod(np.arange(RACES * GENDERS), GENDERS)
    for group, mean in enumerate(group_means(squared_spread, 4)):
        race, gender = divmod(group, 2)
        shared, added = (races[race][a] + genders[gender][b]).T
        words = {
            "race_lemma": [f"race{race}-{word}" for word in a],
            "gender_lemma": [f"gender{gender}-{word}" for word in b],
        }
        ids = [" ".join(pair) for pair in zip(*words.values(), strict=True)]
        columns = {"stratum": f"g{group}", "id": ids, **words}
        tables.append(pd.DataFrame(columns | scores(rng, mean, ratio, shared, added)))
    return pd.concat(tables, ignore_index=True)


def scores(rng, mean, ratio, shared, added):
    noise = 0.5 * rng.normal(size=(2, len(shared)))
    after = ratio * mean + 0.7 * shared + 0.5 * added + noise[1]
    return {"intrinsic_before": mean + shared + noise[0], "intrinsic_after": after}


@pytest.mark.parametrize(("world", "draws"), [(morphs, 100), (labels, 150)])
def test_squared_spreads_are_unbiased_and_intervals_of_the_ratio_cover(world, draws):
    rng = np.random.default_rng(1)
    # A ratio of 0.9 is at the margin: equivalence is shown in at most 5%.
    results = [estimate_spreads(world(rng, 0.6, 0.9), "intrinsic") for _ in range(draws)]
    for squared_spread, when in ((0.6, "before"), (0.9**2 * 0.6, "after")):
        squares = np.array([getattr(result, when) ** 2 for result in results])
        assert abs(squares.mean() - squared_spread) < 4 * squares.std() / math.sqrt(draws)
    given = [result.ratio for result in results if not result.reason]
    assert len(given) >= 0.7 * draws
    covered = np.mean([ratio.low <= 0.9 <= ratio.high for ratio in given])
    assert covered >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / len(given))
    assert np.mean([ratio.is_equivalent for ratio in given]) <= 0.05 + 3 * math.sqrt(0.0475 / len(given))


def test_equal_groups_have_no_ratio():
    rng = np.random.default_rng(2)
    results = [estimate_spreads(labels(rng, 0.0, 1.0), "intrinsic") for _ in range(60)]
    assert sum(math.isnan(result.ratio.value) for result in results) >= 58
    # Half of the squared spreads, which are 0 on average, are negative: the spread is then 0.
    assert 10 <= sum(result.before == 0 for result in results) <= 50


def test_nothing_changes_where_scores_are_the_same():
    targets = morphs(np.random.default_rng(3), 2.0, 1.0)
    targets["intrinsic_after"] = targets["intrinsic_before"]
    result = estimate_spreads(targets, "intrinsic")
    assert result.before == result.after
    assert (result.ratio.value, result.ratio.is_equivalent) == (1, True)
    assert (result.ratio.low, result.ratio.high) == pytest.approx((1, 1), abs=1e-6)
    halved = estimate_spreads(targets.assign(intrinsic_after=-0.5 * targets["intrinsic_before"]), "intrinsic")
    assert halved.after == pytest.approx(0.5 * result.before)
    assert (halved.ratio.value, halved.ratio.is_equivalent) == (pytest.approx(-0.5), False)


def reference_verdict(x, b, covariance, df):
    """Decide by t-tests of x = b, x <= 0.9 b and x >= 1.1 b, without Fieller's quadratic equation."""
    if b < 3 * math.sqrt(covariance[1, 1]):
        return "refused"

    def t(r):
        return (x - r * b) / math.sqrt(np.array([1, -r]) @ covariance @ np.array([1, -r]))

    if 2 * stats.t.sf(abs(t(1)), df) < 0.05:
        if x > b or 2 * stats.t.sf(abs(t(-1)), df) < 0.05:
            return "reduced" if -b < x < b else "increased"
        return "undecided"
    return "equivalent" if max(stats.t.sf(t(0.9), df), stats.t.cdf(t(1.1), df)) <= 0.05 else "undecided"


def test_verdicts_are_those_of_t_tests():
    verdicts = []
    for x, error, correlation, df in product(
        (-1.2, -0.5, 0.5, 0.85, 0.93, 0.97, 1, 1.02, 1.08, 1.3),
        (0.01, 0.03, 0.1, 0.3, 0.4),
        (-0.5, 0, 0.9),
        (4, 99),
    ):
        covariance = error**2 * np.array([[1, correlation], [correlation, 1]])
        ratio = compute_ratio(np.array([x, 1.0]), covariance, df)
        verdicts.append(classify_ratio(ratio))
        assert verdicts[-1] == reference_verdict(x, 1.0, covariance, df)
        # The verdict claims equality only where the test of equivalence does.
        assert ratio.is_equivalent or verdicts[-1] != "equivalent"
    assert set(verdicts) == {"reduced", "equivalent", "undecided", "increased", "refused"}


def test_a_clear_change_below_the_margin_is_a_change_and_equivalent():
    ratio = compute_ratio(np.array([0.95, 1.0]), 1e-4 * np.eye(2), 99)
    assert (classify_ratio(ratio), ratio.is_equivalent) == ("reduced", True)


def test_a_group_of_few_words_decides_the_degrees_of_freedom_or_has_no_spread():
    targets = labels(np.random.default_rng(4), 2.0, 1.0)
    few = targets["stratum"].ne("g0") | targets["race_lemma"].isin([f"race0-{word}" for word in range(4)])
    result = estimate_spreads(targets[few].reset_index(drop=True), "intrinsic")
    assert result.reason == "no spread: fewer than 5 clusters of a group's targets"
    assert math.isnan(result.before)
    assert result.df is None
    few = targets["stratum"].ne("g0") | targets["race_lemma"].isin([f"race0-{word}" for word in range(7)])
    assert build_joint_subsamples(targets).df == RACES - 1
    assert build_joint_subsamples(targets[few]).df == 6


def test_a_covariance_is_never_below_that_over_the_cells():
    rng = np.random.default_rng(6)
    cells, ways = rng.normal(size=(40, 2)), [rng.normal(size=(9, 2)) * [0.1, 3] for _ in range(2)]
    replicates = Replicates(((1, ways[0]), (1, ways[1]), (-1, cells)), cells, 8)
    result = covariance(replicates)
    for angle in np.linspace(0, math.pi, 50):
        axis = np.array([math.cos(angle), math.sin(angle)])
        variance = replicates.variance(lambda values, axis=axis: values @ axis[:, None])
        assert axis @ result @ axis >= variance[0] - 1e-9


def test_estimates_of_the_same_clusters_are_pooled_with_their_covariance():
    rng = np.random.default_rng(7)
    values = rng.normal(size=(30, 3))
    targets = pd.DataFrame({"stratum": "a", "cluster": [f"{number:02d}" for number in range(30)]})
    subsamples = build_joint_subsamples(targets)

    def estimate(column, clusters):
        def mean(weights):
            return (weights @ values[:, column] / weights.sum(axis=1))[:, None]

        return TargetEstimate(np.array([values[:, column].mean()]), replicate(subsamples, mean), clusters)

    mean, variance, df = average_estimates([estimate(0, "same"), estimate(1, "same"), estimate(2, "other")])
    expected = values[:, :2].mean(axis=1).var(ddof=1) / 30 * (2 / 3) ** 2 + values[:, 2].var(ddof=1) / 30 / 9
    assert mean == pytest.approx([values.mean()])
    assert variance == pytest.approx(np.array([[expected]]))
    assert df == 29
