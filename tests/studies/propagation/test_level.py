"""Check the signed level of carry-over and rho's interval against brute force, in all experiments."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from src.studies.propagation import level
from src.studies.shared.exchange_units import build_exchange
from tests import reference
from tests.studies.propagation.world import PROTOCOL, SEED, World, clusters_of


@pytest.fixture(scope="module")
def world():
    return World()


@pytest.fixture(scope="module", params=reference.EXPERIMENTS)
def job(request, world):
    """Return an experiment, its result, and its naive scores by property."""
    exp = request.param
    return exp, world.run(exp), world.naive(exp, intrinsic_by="difference")


def weighted_mean(values, rows, group, remains):
    """Compute the level of a score over the targets that remain, from docs/methods.md, section 6.3."""
    values, rows = values[remains], [row for row, stays in zip(rows, remains, strict=True) if stays]
    if "group" in rows[0]:
        in_group = np.array([row["group"] == group for row in rows])
        return values[in_group].mean() - values[~in_group].mean()
    ratings = np.array([row["valence"] for row in rows])
    return ((ratings - ratings.mean()) / ratings.std() * values).mean()


def naive_statistics(units, group):
    """Return functions of the rows that remain: level, measured level, slope; and the units' clusters."""
    x, y = (np.array([unit[column] for unit in units.values()]) for column in (0, 1))
    rows = [unit[2] for unit in units.values()]
    statistics = {
        "level": lambda remains: weighted_mean(y, rows, group, remains),
        "measured": lambda remains: weighted_mean(x, rows, group, remains),
        "slope": lambda remains: stats.linregress(x[remains], y[remains]).slope,
    }
    return statistics, [*zip(*map(clusters_of, units), strict=True)]


def degrees(ways, groups):
    """Count the clusters of the way and group with the fewest, less 1."""
    return min(len({*np.array(names)[members]}) for names in ways for members in groups) - 1


def test_level_measured_and_slope_with_their_intervals(job):
    exp, result, scores = job
    for row in result.analyses.itertuples():
        units = scores[row.group if exp.endswith(("labels", "faces")) else None]
        statistics, ways = naive_statistics(units, row.group)
        everything = np.ones(len(units), dtype=bool)
        in_group = np.array([unit[2].get("group") == row.group for unit in units.values()])
        has_groups = exp.startswith(("faces", "labels"))
        df = degrees(ways, [in_group, ~in_group] if has_groups else [everything])
        assert row.df == df
        for name, statistic in statistics.items():
            value = statistic(everything)
            assert getattr(row, name) == pytest.approx(value, abs=1e-10)
            variance = reference.jackknife_variance(statistic, ways)
            interval = getattr(row, f"{name}_low"), getattr(row, f"{name}_high")
            assert interval == pytest.approx(reference.t_interval(value, variance, df), abs=1e-9)


def test_level_under_permutations(job, world):
    exp, result, _ = job
    exchange = build_exchange(world.tables[exp.split("_to_")[1]], SEED)
    naive = {}
    for number, permutation in enumerate(exchange.draw_permutations(2), start=1):
        moved = dict(zip(exchange.names, exchange.names[permutation], strict=True))
        naive[number] = world.naive(exp, intrinsic_by="difference", moved=moved)
    for row in result.analyses.itertuples():
        draws = result.level_draws[result.level_draws["stratum"] == row.stratum]["level"].to_numpy()
        assert len(draws) == 20
        assert draws[0] == pytest.approx(row.level, abs=1e-12)
        for number, scores in naive.items():
            units = scores[row.group if exp.endswith(("labels", "faces")) else None]
            statistics, _ = naive_statistics(units, row.group)
            expected = statistics["level"](np.ones(len(units), dtype=bool))
            assert draws[number] == pytest.approx(expected, abs=1e-10)
        distances = [abs(draw - np.mean(draws)) for draw in draws]
        assert row.level_p == sum(distance >= distances[0] - 1e-12 for distance in distances) / 20
        assert row.level_z == pytest.approx((draws[0] - np.mean(draws)) / np.std(draws))


def test_bounds_of_the_outcome_and_ties(job, world):
    exp, result, _scores = job
    corpus, valued = world.tables[exp.split("_to_")[1]].frame, not exp.endswith(("labels", "faces"))
    for row in result.analyses.itertuples():
        outcomes = corpus["valence"] if valued else (corpus["group"] == row.group).astype(float)
        by_template = outcomes.groupby(corpus["template"] if exp.endswith("words") else corpus["id"].notna())
        pools = [pool for _, pool in by_template]
        low = np.mean([np.sort(pool)[:11].mean() for pool in pools])
        high = np.mean([np.sort(pool)[-11:].mean() for pool in pools])
        assert (row.y_min, row.y_max) == pytest.approx((low, high))
        targets = result.targets[result.targets["stratum"] == row.stratum]
        y = targets["extrinsic"].to_numpy()
        near = (y - low <= 0.05 * (high - low)) | (high - y <= 0.05 * (high - low))
        assert row.at_bound == near.mean()
        assert row.ceiling == (near.mean() >= 0.2)
        assert row.ties == np.mean([(y == value).sum() > 1 for value in y])
        spreads = row.sd_measured, row.sd_retrieved
        assert spreads == pytest.approx((targets["intrinsic"].std(ddof=0), y.std()))


def test_the_interval_of_rho_is_a_jackknife_of_its_transformation(job):
    _, result, _ = job
    for row in result.analyses.itertuples():
        targets = result.targets[result.targets["stratum"] == row.stratum]
        x, y = targets["intrinsic"].to_numpy(), targets["extrinsic"].to_numpy()
        ways = [*zip(*map(clusters_of, targets["id"]), strict=True)]

        def transformed(remains, x=x, y=y):
            return math.atanh(np.clip(stats.spearmanr(x[remains], y[remains]).statistic, -0.99999, 0.99999))

        everything = np.ones(len(x), dtype=bool)
        variance, df = reference.jackknife_variance(transformed, ways), degrees(ways, [everything])
        ends = reference.t_interval(transformed(everything), variance, df)
        assert (row.ci_low, row.ci_high) == pytest.approx([*map(math.tanh, ends)], abs=1e-9)


def test_clusters_are_in_the_tables_and_on_the_run(job, world):
    exp, result, _ = job
    for table in (result.targets, result.level_units):
        names = [name for name in ("cluster", "race_lemma", "gender_lemma") if name in table]
        assert [*zip(*(table[name] for name in names), strict=True)] == [*map(clusters_of, table["id"])]
    counts = {"faces": 24, "scenes": 30, "words": 20, "labels": 10 + 10}
    assert (result.analyses["clusters"] == counts[exp.split("_to_")[1]]).all()
    placements = {
        "faces": math.comb(24, 6),
        "scenes": math.factorial(20) * math.factorial(10),
        "words": math.factorial(10) ** 2,
        "labels": (math.comb(8, 4) * 2) ** 2,
    }
    expected = math.log10(placements[exp.split("_to_")[1]])
    assert result.analyses["log10_placements"].tolist() == pytest.approx([expected] * len(result.analyses))
    assert (result.analyses["movable"] == 1).all()


def test_a_group_with_few_clusters_has_a_level_but_no_interval(world):
    small = World()
    frame = small.tables["faces"].frame
    is_few = (frame["group"] == "X Men").to_numpy()
    frame.loc[is_few, "cluster"] = [f"person {i % 4}" for i in range(is_few.sum())]
    rows = small.run("faces_to_words").analyses.set_index("stratum")
    assert rows["level"].tolist() == world.run("faces_to_words").analyses["level"].tolist()
    assert rows[["level_low", "measured_high", "ci_low"]].isna().any(axis=1).to_dict() == {
        "X Men": True, "X Women": False, "Y Men": False, "Y Women": False
    }  # fmt: skip
    assert rows.loc["X Men", ["level_p"]].notna().all()


def test_a_corpus_that_is_not_permuted_has_no_p_and_a_note():
    small = World()
    small.tables["scenes"].frame["cluster"] = [f"c{i // 9}" for i in range(40)]
    result = small.run("labels_to_scenes", replace(PROTOCOL, property_draws=4))
    names = ["level_p", "level_z", "p_placebo", "placebo_q95", "property_q95"]
    assert result.analyses[names].isna().all(axis=None)
    assert result.analyses[["level_low", "ci_low"]].notna().all(axis=None)
    assert result.level_draws.empty
    assert {*result.draws["kind"]} == {"attributes"}
    assert result.notes == ["no placebo, since fewer than 1,000 placements (scenes are exchanged by cluster)"]


def test_constant_outcomes_and_ratings_have_no_slope_and_no_level():
    scores, everything = np.column_stack([np.arange(6.0), np.ones(6)]), np.ones((1, 6))
    summary = level.compute_level_statistics(np.arange(6.0), everything[0] > 0, scores, everything)[0]
    assert summary.tolist() == pytest.approx([0, np.arange(6).std(), 0])
    flat = level.compute_level_statistics(np.ones(6), everything[0] > 0, scores[:, ::-1], everything)[0]
    assert np.isnan(flat).all()
