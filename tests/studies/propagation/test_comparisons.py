"""Check differences, specifications, model sizes and figures against references and on real jobs."""

import functools
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from src.metrics import variance_components
from src.metrics.jackknife import replicate
from src.report import format, page
from src.storage import results
from src.studies.propagation import (
    components,
    differences,
    joint,
    minimum_detectable,
    multiverse,
    page_tables,
    paper_figures,
    scaling,
    section,
    tables,
)
from src.studies.propagation.combined import combine, select_main_analyses
from src.studies.propagation.estimates import Estimate, JobEstimates, compare, compare_all
from src.studies.shared.cluster_jackknife import build_subsamples
from tests import reference
from tests.report import factory
from tests.studies.propagation.world import PROTOCOL, World

DRAWS = {"level": 99, "placebo": 99, "property": 20, "attributes": 5}


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    grid = {"models": ("toy_s", "toy_m", "toy_l"), "protocols": ("paper", "ddof_0")}
    return factory.draw(
        tmp_path_factory.mktemp("jobs"), **grid, groups=factory.GROUPS[:3], draws=DRAWS, size=30
    )


def rho_of(targets):
    return stats.spearmanr(targets["intrinsic"], targets["extrinsic"]).statistic


def atanh_rho_of(targets):
    return np.arctanh(np.clip(rho_of(targets), -0.99999, 0.99999))


def level_of(levels, group):
    in_group = levels["group"] == group
    if in_group.any():
        return levels["retrieved"][in_group].mean() - levels["retrieved"][~in_group].mean()
    z = (levels["valence"] - levels["valence"].mean()) / levels["valence"].std(ddof=0)
    return (z * levels["retrieved"]).mean()


def tables_of(findings, row, config="config"):
    """Return targets of an analysis, and the table of its levels."""
    targets, levels = (findings.read(row[config], name) for name in ("targets", "levels"))
    levels = levels[levels["property"].isna() | (levels["property"] == row["stratum"])]
    return targets[targets["stratum"] == row["stratum"]], levels


def ways_of(table):
    names = [name for name in ("cluster", "race_lemma", "gender_lemma") if name in table]
    return [table[name].tolist() for name in names]


def expect(first, second, statistics, transformed=None, df=None):
    """Compute difference, interval and p by brute force; clusters of both tables leave both at once."""
    df = df or min(len({*way}) for table in (first, second) for way in ways_of(table)) - 1
    size = len(first)

    def variance(functions):
        def without(remains):
            return functions[0](first[remains[:size]]) - functions[1](second[remains[size:]])

        if first["id"].tolist() == second["id"].tolist():
            return reference.jackknife_variance(lambda stay: without(np.tile(stay, 2)), ways_of(first))
        ways = [a + b for a, b in zip(ways_of(first), ways_of(second), strict=True)]
        if len(ways) == 1 and not {*ways_of(first)[0]} & {*ways_of(second)[0]}:
            sides = zip(functions, (first, second), strict=True)
            return sum(
                reference.jackknife_variance(lambda stay, f=f, side=side: f(side[stay]), ways_of(side))
                for f, side in sides
            )
        return reference.jackknife_variance(without, ways)

    delta = statistics[0](first) - statistics[1](second)
    tested = transformed or statistics
    error = np.sqrt(variance(tested))
    p = 2 * stats.t.sf(abs(tested[0](first) - tested[1](second)) / error, df)
    return [delta, *reference.t_interval(delta, variance(statistics), df), p]


RHO_COLUMNS = ["difference", "ci_low", "ci_high", "delta_p"]
LEVEL_COLUMNS = ["level_delta", "level_delta_low", "level_delta_high", "level_delta_p"]


def test_differences_of_models_leave_clusters_out_of_both(findings):
    table = differences.compare_models(findings, JobEstimates(findings))
    # Three pairs of models in each of 2 + 6 x 3 analyses, of one specification.
    assert len(table) == 3 * 20
    analyses = select_main_analyses(findings).set_index(["config", "stratum"])
    configs = ("config_first", "config_second")
    for row in table.iloc[::4].to_dict("records"):
        pairs = [tables_of(findings, row, config) for config in configs]
        group = analyses.loc[(row["config_first"], row["stratum"]), "group"]
        has_groups = row["exp"].startswith(("faces", "labels"))
        df = len({*pairs[0][0]["cluster"]}) - 1 if has_groups else None
        levels = [functools.partial(level_of, group=group)] * 2
        assert [row[name] for name in LEVEL_COLUMNS] == pytest.approx(
            expect(pairs[0][1], pairs[1][1], levels, df=df), abs=1e-9
        )
        rhos = [analyses.loc[(row[config], row["stratum"]), "rho"] for config in configs]
        if np.isnan(rhos).any():
            assert np.isnan([row["delta_p"], row["q"]]).all()
            continue
        expected = expect(pairs[0][0], pairs[1][0], [rho_of] * 2, [atanh_rho_of] * 2)
        assert [row[name] for name in RHO_COLUMNS] == pytest.approx(expected, abs=1e-9)
    for p, q in (("delta_p", "q"), ("level_delta_p", "level_delta_q")):
        tested = table.dropna(subset=[p])
        assert tested[q].to_list() == pytest.approx(stats.false_discovery_control(tested[p]))


def test_models_with_other_targets_or_sets_are_not_compared(tmp_path):
    findings = factory.draw(
        tmp_path, experiments={"faces_to_words": "1-a"}, protocols=("paper",), draws=DRAWS, size=30
    )
    configs = [*findings.folders]
    targets = findings.read(configs[1], "targets")
    # The order of targets does not matter.
    targets.iloc[::-1].to_parquet(findings.folders[configs[1]] / "targets.parquet")
    sets = findings.read(configs[2], "attributes").assign(id=["words-1", "words-3"])
    sets.astype({"id": "string"}).to_parquet(findings.folders[configs[2]] / "attributes.parquet")
    table = differences.compare_models(findings, JobEstimates(findings))
    counts = table.groupby(["first", "second"])[["ci_low", "delta_p", "level_delta_p"]].count()
    assert (counts.loc[("toy_s", "toy_m")] >= [5, 5, 6]).all()
    assert (counts.loc[[("toy_s", "toy_l"), ("toy_m", "toy_l")]] == 0).all(axis=None)
    targets.to_parquet(findings.folders[configs[1]] / "targets.parquet")
    pd.testing.assert_frame_equal(
        differences.compare_models(findings, JobEstimates(findings)), table, check_exact=False, rtol=1e-9
    )
    changed = targets.assign(id=targets["id"].where(targets["stratum"] != "Black Men", "x" + targets["id"]))
    changed.to_parquet(findings.folders[configs[1]] / "targets.parquet")
    table = differences.compare_models(findings, JobEstimates(findings)).set_index(
        ["first", "second", "stratum"]
    )
    assert table.loc[("toy_s", "toy_m", "Black Men"), "reason"] == "different targets, or different A and B"
    assert table.loc[("toy_s", "toy_m", "White Men"), "reason"] == ""


@pytest.mark.parametrize("exp", ["faces_to_words", "labels_to_scenes", "labels_to_faces", "scenes_to_labels"])
def test_differences_of_groups_leave_shared_clusters_out_of_both(lab_findings, exp):
    jobs = select_main_analyses(lab_findings).query("model == 'sharp' and exp == @exp").set_index("stratum")
    everything = differences.compare_groups(lab_findings, JobEstimates(lab_findings))
    rows = everything[everything["config"] == jobs["config"].iloc[0]]
    assert len(rows) == 6
    for row in rows.iloc[::2].to_dict("records"):
        sides = [
            tables_of(lab_findings, {"config": row["config"], "stratum": row[side]})
            for side in ("first", "second")
        ]
        levels = [functools.partial(level_of, group=row[side]) for side in ("first", "second")]
        df = None if exp.startswith("scenes") else jobs.loc[[row["first"], row["second"]], "df"].min()
        expected = expect(sides[0][1], sides[1][1], levels, df=df)
        assert [row[name] for name in LEVEL_COLUMNS] == pytest.approx(expected, abs=1e-9)
        analyses = [jobs.loc[row[side]] for side in ("first", "second")]
        spreads = [analysis["sd_measured"] for analysis in analyses]
        if any(analysis["ceiling"] for analysis in analyses):
            assert row["reason"] == "at the ceiling: read the level"
        elif max(spreads) >= 1.5 * min(spreads):
            assert row["reason"] == "range: the SDs of the intrinsic score differ too much"
        else:
            assert row["reason"] == ""
            expected = expect(sides[0][0], sides[1][0], [rho_of] * 2, [atanh_rho_of] * 2)
            assert [row[name] for name in RHO_COLUMNS] == pytest.approx(expected, abs=1e-9)
            continue
        assert np.isnan([row[name] for name in RHO_COLUMNS[1:]]).all()


def test_rho_is_not_compared_at_the_ceiling_or_over_other_ranges():
    row = {"ceiling": False, "sd_measured": 0.2}
    assert differences.explain_incomparable(row, {**row, "sd_measured": 0.299}) == ""
    assert differences.explain_incomparable(row, {**row, "sd_measured": 0.31}).startswith("range")
    assert differences.explain_incomparable(row, {**row, "ceiling": True}).startswith("at the ceiling")


def test_a_group_with_few_clusters_is_not_compared():
    rng = np.random.default_rng(0)
    estimates = []
    for name, count in (("a", 4), ("b", 30)):
        units = pd.DataFrame(
            {"cluster": [f"{i}" for i in range(count)], "id": [f"{name}{i}" for i in range(count)]}
        )
        values = rng.normal(size=count)

        def mean(weights, values=values):
            return (weights @ values / weights.sum(axis=1))[:, None]

        estimates.append(Estimate(values.mean(), mean, units, replicate(build_subsamples(units), mean)))
    # Both share clusters 0 to 3.
    result = compare(*estimates, is_correlation=False)
    assert np.isnan([result.low, result.high, result.p]).all()


def test_each_pair_of_groups_has_the_clusters_of_these_two():
    sizes = {"a": (36, 30), "b": (12, 6), "c": (12, 4)}  # units and clusters of each group
    rows = [
        (group, f"{group}{unit}", f"{group}{unit % clusters}")
        for group, (count, clusters) in sizes.items()
        for unit in range(count)
    ]
    units = pd.DataFrame(rows, columns=["group", "id", "cluster"])
    values = np.random.default_rng(0).normal(size=len(units))
    units = units.assign(retrieved=values)

    def estimate(group):
        inside = (units["group"] == group).to_numpy()

        def level(weights):
            means = [
                weights[:, side] @ values[side] / weights[:, side].sum(axis=1) for side in (inside, ~inside)
            ]
            return np.subtract(*means)[:, None]

        replicates = replicate(build_subsamples(units, (inside, ~inside)), level)
        return Estimate(level_of(units, group), level, units, replicates)

    estimates = dict(enumerate(map(estimate, sizes)))
    table = compare_all(estimates, [(0, 1), (0, 2), (1, 2)], is_correlation=False)
    levels = [functools.partial(level_of, group=group) for group in "ab"]
    first = table[0, 1]
    # The second group has 6 clusters.
    assert [first.delta, first.low, first.high, first.p] == pytest.approx(expect(units, units, levels, df=5))
    assert np.isnan([table[pair].p for pair in ((0, 2), (1, 2))]).all()
    forth, back = (compare(estimates[a], estimates[b], is_correlation=False) for a, b in ((0, 1), (1, 0)))
    assert forth.p == back.p


# Many analyses.


def joint_p(draws, statistic):
    return (statistic(draws, axis=0) >= statistic(draws, axis=0)[0] - 1e-12).mean()


def test_joint_tests_compare_each_permutation_over_analyses(findings):
    sets, adjusted = joint.joint_tests(findings)
    analyses = select_main_analyses(findings).reset_index(drop=True)
    levels, rhos = [], []
    for row in analyses.to_dict("records"):
        of_level, of_rho = (findings.read(row["config"], name) for name in ("level_draws", "draws"))
        levels.append(of_level[of_level["stratum"] == row["stratum"]].sort_values("draw")["level"])
        of_rho = of_rho[(of_rho["stratum"] == row["stratum"]) & (of_rho["kind"] == "placebo")]
        rhos.append([row["rho_placebo_units"], *of_rho.sort_values("draw")["rho"]])
    levels, rhos = (np.array([*map(np.array, draws)], dtype=float) for draws in (levels, rhos))
    levels, rhos = ((d - d.mean(axis=1)[:, None]) / d.std(axis=1)[:, None] for d in (levels, rhos))
    levels = np.abs(levels)
    has_rho = analyses["rho"].notna()
    members = {"all analyses": analyses["rho"].map(lambda _: True)}
    members |= {f"exp {exp}": analyses["exp"] == exp for exp in analyses["exp"].unique()}
    members |= {f"model {model}": analyses["model"] == model for model in analyses["model"].unique()}
    assert sets["set"].tolist() == [*members]
    for row in sets.to_dict("records"):
        chosen, with_rho = members[row["set"]].to_numpy(), (members[row["set"]] & has_rho).to_numpy()
        assert (row["n"], row["rho_n"]) == (chosen.sum(), with_rho.sum())
        expected = [joint_p(levels[chosen], statistic) for statistic in (np.median, np.max)]
        assert [row["p_median"], row["p_max"]] == expected
        expected = [joint_p(rhos[with_rho], statistic) for statistic in (np.median, np.max)]
        assert [row["rho_p_median"], row["rho_p_max"]] == expected
    expected = [(levels.max(axis=0) >= z[0] - 1e-12).mean() for z in levels]
    assert adjusted["level_p_max"].tolist() == expected


def test_a_single_analysis_has_no_joint_test(findings):
    rows = select_main_analyses(findings).iloc[:1]
    sets, adjusted = joint.joint_tests(findings.with_frame("propagation", rows))
    assert sets[["n", "rho_n"]].to_numpy().tolist() == [[1, 1]]
    assert sets[["p_median", "p_max", "rho_p_median", "rho_p_max"]].isna().all(axis=None)
    assert adjusted["level_p_max"].isna().all()


def test_q_is_of_a_single_specification(findings):
    analyses = findings.of("propagation").drop(columns=["q", "level_q"])
    combined, alone = (
        combine([analyses]),
        combine([select_main_analyses(findings).drop(columns=["q", "level_q"])]),
    )
    for q, p in (("q", "p_placebo"), ("level_q", "level_p")):
        assert combined.loc[combined["protocol"] == "paper", q].tolist() == pytest.approx(
            alone[q], nan_ok=True
        )
        defined = alone.dropna(subset=[p])
        assert defined[q].tolist() == pytest.approx(stats.false_discovery_control(defined[p]))


def test_specifications_have_median_range_and_share_above_placebo(findings):
    draws = multiverse.read_attribute_draws(findings)
    table = multiverse.summarise_specifications(findings, draws).set_index(["exp", "reading"])
    rows = findings.of("propagation").query("exp == 'labels_to_faces'")
    row = table.loc[("labels_to_faces", "all")]
    assert (row["rhos"], row["median"]) == (18, np.median(rows["rho"]))
    assert (row["lowest"], row["highest"]) == (min(rows["rho"]), max(rows["rho"]))
    assert row["above"] == sum(a > b for a, b in zip(rows["rho"], rows["placebo_q95"], strict=True)) / 18
    # Three models, three groups, five draws, of the first specification only.
    assert table.loc[("labels_to_faces", multiverse.FROM_HALVES), "rhos"] == 45
    undefined = findings.of("propagation").loc[findings.of("propagation")["rho"].isna()].iloc[0]
    assert table.loc[(undefined["exp"], "paper"), "rhos"] == 8


def _only(findings, column, value):
    return findings.with_frame("propagation", findings.of("propagation").query(f"{column} == @value"))


def _with_sizes(findings, count):
    rng = np.random.default_rng(1)
    names = [f"m{number}" for number in range(count)]
    rows = select_main_analyses(findings).query("model == 'toy_s'")
    analyses = pd.concat([rows.assign(model=name) for name in names])
    analyses["rho"] = rng.uniform(size=len(analyses)).round(1)
    sizes = {"parameters_millions": rng.integers(1, 5, count).astype(float), "gflops_image": np.nan}
    models = pd.DataFrame({"model": names, **sizes, "zero_shot": [0.5, *[np.nan] * (count - 1)]})
    return replace(findings, frames={"propagation": analyses}, models=models)


def test_size_is_drawn_for_quantities_that_are_known(findings):
    points = scaling.join_quantities(_with_sizes(findings, 6))
    # The number of parameters is known for all models, other sizes for one or none.
    assert scaling.list_known_quantities(points) == ["parameters_millions"]
    figure = scaling.plot_quantity(scaling.join_quantities(_with_sizes(findings, 5)), "parameters_millions")
    assert figure.caption.endswith("5 families: points only; a correlation needs 6 families.")


def test_components_are_those_of_the_analyses_with_groups(findings):
    """Split levels within sets of one unit, and rho over all analyses with groups."""
    split = components.estimate_components(_with_sizes(findings, 5))
    analyses = select_main_analyses(_with_sizes(findings, 5))
    analyses = analyses[analyses["group"].notna()]
    names = {"groups → valence": (1, 4), "groups → groups": (2, 5), "valence → groups": (3, 6)}
    experiments = ["faces_to_words", "faces_to_labels", "scenes_to_labels"]
    experiments += ["labels_to_scenes", "labels_to_faces", "words_to_faces"]
    sets = {name: [experiments[n - 1] for n in numbers] for name, numbers in names.items()}
    expected = [(name, quantity) for name in sets for quantity in ("level", "rho")]
    expected.append((components.ALL_WITH_GROUPS, "rho"))
    assert [*dict.fromkeys(zip(split["set"], split["quantity"], strict=True))] == expected
    for (name, quantity), rows in split.groupby(["set", "quantity"]):
        chosen = analyses[analyses["exp"].isin(sets.get(name, experiments))].dropna(subset=[quantity])
        factors = {factor: chosen[factor].to_numpy() for factor in ("exp", "model", "group")}
        reference_components = variance_components(chosen[quantity], factors)
        assert dict(zip(rows["component"], rows["variance"], strict=True)) == pytest.approx(
            reference_components.variances
        )
        assert rows["share"].sum() == pytest.approx(1)
        assert (rows["n"] == len(chosen)).all()
        first = rows.iloc[0]
        assert first[["models", "groups"]].tolist() == [5, 3]
        if quantity == "level" and name in components.ZERO_SUM_SETS:
            assert np.isnan([first["g_fixed"], first["g_random"]]).all()
            assert first["reason"] == components.ZERO_SUM_REASON
        else:
            assert first["g_fixed"] == reference_components.generalisability("model", ("exp", "group"))
            assert first["g_random"] == reference_components.generalisability("model")


def test_components_know_checkpoints_and_draws(findings):
    """Nest models in their family, and cross them with the seed of A and B."""
    sized = _with_sizes(findings, 8)
    models = sized.models.assign(family=[f"f{number // 2}" for number in range(8)])
    rows = select_main_analyses(sized)
    other = rows.assign(seed=1, rho=np.random.default_rng(2).uniform(size=len(rows)))
    varied = replace(sized, models=models, frames={"propagation": pd.concat([rows, other])})
    split = components.estimate_components(varied)
    names = split.loc[split["set"] == components.ALL_WITH_GROUPS, "component"].tolist()
    assert names == [
        *("exp", "model", "group", "training", "draw", "exp:model", "exp:group", "exp:training", "exp:draw"),
        *("model:group", "model:draw", "group:training", "group:draw", "training:draw", "rest"),
    ]
    assert len(components.list_further_factors(split)) == 2
    (sentence,) = components.state_conclusion(split)
    assert sentence.startswith("The level varies most with ")
    text = components.plot_shares(split).alt_text
    assert "groups → valence: exp of level" in text
    assert "training:draw of ρ" in text


def test_a_conclusion_on_rho_alone_begins_with_its_letter():
    split = pd.DataFrame({"set": ["s"], "quantity": ["rho"], "component": ["exp"], "share": [1.0]})
    (sentence,) = components.state_conclusion(split)
    assert sentence.startswith("ρ varies most with experiment (100% of the variance")


@pytest.mark.parametrize(
    ("count", "query", "reason"),
    [
        (3, "seed == 0", "3 families of models: at least 4 are needed"),
        (4, "exp == 'faces_to_words'", "1 experiments: at least 2 are needed"),
        (4, "group == 'Asian Men'", "1 groups: at least 2 are needed"),
    ],
)
def test_components_of_few_levels_are_refused(findings, count, query, reason):
    sized = _with_sizes(findings, count)
    split = components.estimate_components(
        sized.with_frame("propagation", sized.of("propagation").query(query))
    )
    assert {*split["reason"]} == {reason}
    assert split[["component", "variance", "g_fixed"]].isna().all(axis=None)
    assert components.plot_shares(split) is None
    assert [*components.state_conclusion(split)] == []


def test_figure_6_averages_before_it_standardises(findings):
    table = paper_figures.compute_group_means(findings).set_index("group")
    jobs = (
        select_main_analyses(findings)
        .query("exp in ('faces_to_words', 'labels_to_scenes')")["config"]
        .unique()
    )
    by_job = [findings.read(config, "targets").groupby("stratum")["intrinsic"].mean() for config in jobs]
    means = np.array([np.mean([values[group] for values in by_job]) for group in factory.GROUPS[:3]])
    expected = (means - means.mean()) / np.sqrt(((means - means.mean()) ** 2).mean())
    assert table.loc[factory.GROUPS[:3], "z"].to_list() == pytest.approx([*expected])
    faces_to_words = _only(findings, "exp", "faces_to_words")
    drawing = paper_figures.plot_group_means(paper_figures.compute_group_means(faces_to_words))
    assert "Only faces_to_words is available" in drawing.caption
    unrelated = _only(findings, "exp", "words_to_faces")
    assert paper_figures.plot_group_means(paper_figures.compute_group_means(unrelated)) is None


def test_figure_7_splits_targets_at_half(findings, tmp_path):
    config = select_main_analyses(findings).query("exp == 'scenes_to_labels'")["config"].iloc[0]
    (tmp_path / config).mkdir()
    scores = {"intrinsic": [1.0, 0.0, -1.0, np.nan, 9.0], "valence": [0.5, 0.9, 0.4999, 0.1, np.nan]}
    targets = pd.DataFrame({"id": [*"abcde"], "stratum": "g", **scores})
    targets.to_parquet(tmp_path / config / "targets.parquet")
    job_findings = replace(_only(findings, "config", config), folders={config: tmp_path / config})
    table = paper_figures.compute_bands(job_findings).set_index("band")[["mean", "n"]].to_dict("index")
    assert table == {"≥ 0.5": {"mean": 0.5, "n": 2}, "< 0.5": {"mean": -1.0, "n": 1}}


def test_figure_7_is_standardised_over_groups_within_a_band_next_to_its_means():
    means = {"a": (0.3, -0.1), "b": (0.1, 0.1), "c": (0.2, 0.3)}
    rows = [
        {
            "exp": "scenes_to_labels",
            "model": model,
            "group": group,
            "band": band,
            "mean": mean + shift,
            "n": 7,
        }
        for model, shift in (("m", -0.5), ("n", 0.5))
        for group, of_group in means.items()
        for band, mean in zip((paper_figures.UPPER, paper_figures.LOWER), of_group, strict=True)
    ]
    bands = pd.DataFrame(rows)
    table = paper_figures.average_bands(bands).set_index(["group", "band"])
    # By hand: means over models .3, .1, .2 and -.1, .1, .3; their population SDs are .0816 and .1633.
    assert [table.loc[(group, "≥ 0.5"), "z"] for group in "abc"] == pytest.approx(
        [1.2247, -1.2247, 0], abs=1e-4
    )
    assert [table.loc[(group, "< 0.5"), "z"] for group in "abc"] == pytest.approx(
        [-1.2247, 0, 1.2247], abs=1e-4
    )
    assert table.loc[("b", "< 0.5"), "mean"] == pytest.approx(0.1)
    normalised = paper_figures.plot_normalised_bands(bands, "scenes_to_labels")
    assert "a: valence ≥ 0.5 1.22, valence < 0.5 −1.22" in normalised.alt_text
    raw = paper_figures.plot_bands(bands, "scenes_to_labels")
    assert "a: valence ≥ 0.5 0.30, valence < 0.5 −0.10" in raw.alt_text
    assert {normalised.name, raw.name} == {
        "figure-7-scenes_to_labels-normalised",
        "figure-7-scenes_to_labels",
    }
    alike = paper_figures.plot_normalised_bands(bands[bands["group"] == "a"], "scenes_to_labels")
    assert alike is None


def test_baselines_are_pooled_over_the_analyses_of_both_directions():
    rhos = {
        ("1*-a", "m"): [0.8],
        ("1*-a", "n"): [0.9],
        ("1*-b", "m"): [0.7],
        ("2*-a", "m"): [0.9, 0.5, np.nan],
    }
    rhos |= {("2*-b", "m"): [0.1], ("1-a", "m"): [0.3], ("1-b", "m"): [0.2]}
    rows = [
        {"paper": paper, "model": model, "rho": rho, "dataset": "paper"}
        for (paper, model), values in rhos.items()
        for rho in values
    ]
    table = page_tables.pool_baselines(pd.DataFrame(rows)).set_index("baseline")
    assert [*table.index] == ["1*", "2*"]
    assert table.loc["1*", ["mean", "sd", "analyses", "lowest", "highest"]].tolist() == pytest.approx(
        [0.8, 0.1, 3, 0.7, 0.9]
    )
    # Each analysis counts once: (.9 + .5 + .1) / 3, not the mean of the directions' means.
    assert table.loc["2*", ["mean", "sd", "analyses"]].tolist() == pytest.approx([0.5, 0.4, 3])
    published = ["published_mean", "published_sd", "published_analyses", "published_singles"]
    assert table.loc["1*", published].tolist() == [0.86, 0.04, 6, "0.80 and 0.88"]
    assert table.loc["2*", published].tolist() == [0.85, 0.12, 36, ""]
    one_way = pd.DataFrame(rows).query("paper != '1*-b'")
    assert [*page_tables.pool_baselines(one_way)["baseline"]] == ["2*"]
    demo = page_tables.pool_baselines(pd.DataFrame(rows).assign(dataset="demo"))
    assert not {*published} & {*demo}


def test_the_page_shows_pooled_baselines_next_to_those_of_the_paper(tmp_path):
    rows = [("1*-a", 0.8), ("1*-b", 0.7), ("2*-a", 0.9), ("2*-b", 0.5)]
    analyses = pd.DataFrame(rows, columns=["paper", "rho"]).assign(dataset="paper")
    pooled = format.to_records(page_tables.pool_baselines(analyses))
    context = {
        "main_table": pd.DataFrame({"experiment": ["all"]}),
        "main_caption": "",
        "published_rhos": [],
        "pooled_baselines": pooled,
    }
    templates = [Path(section.__file__).with_name("templates")]
    path = page.render("main.html", context | {"has_published_means": True}, tmp_path, templates)
    cells = [" ".join(cell.split()) for cell in re.findall(r"<td[^>]*>(.*?)</td>", path.read_text())]
    ours = [["0.75", "0.07", "0.70", "0.80", "2"], ["0.70", "0.28", "0.50", "0.90", "2"]]
    assert cells == ["0.86 ± 0.04", "6", "0.80 and 0.88", *ours[0], "0.85 ± 0.12", "36", "–", *ours[1]]


def test_pooled_numbers_of_the_paper_agree_with_those_of_its_directions():
    """Compute the pooled mean and SD from those of both directions, of 3 models x 1 or 6 groups each."""
    single = pd.read_csv(tables.PUBLISHED_MEANS_PATH).set_index("exp")
    experiments = {"1*": ("scenes_to_words", "words_to_scenes"), "2*": ("faces_to_labels", "labels_to_faces")}
    for row in pd.read_csv(page_tables.PUBLISHED_POOLED_PATH).to_dict("records"):
        means, sds = single.loc[[*experiments[row["baseline"]]]].to_numpy().T
        n = row["published_analyses"] / 2
        squares = (n - 1) * (sds**2).sum() + n * ((means - means.mean()) ** 2).sum()
        assert means.mean() == pytest.approx(row["published_mean"], abs=0.0101)
        assert np.sqrt(squares / (2 * n - 1)) == pytest.approx(row["published_sd"], abs=0.0101)


def test_single_rhos_of_the_paper_are_joined_with_replicated_rhos(findings):
    renamed = select_main_analyses(findings).assign(
        dataset="paper",
        model=select_main_analyses(findings)["model"].replace({"toy_s": "clip_b32", "toy_m": "blip2"}),
        group=select_main_analyses(findings)["group"].replace({"Black Women": "White Women"}),
    )
    table = page_tables.join_published_rhos(renamed)
    published = {(row.exp, row.model, row.group): row.published_rho for row in table.itertuples()}
    expected = {
        ("labels_to_scenes", "blip2", "Asian Men"): 0.51,
        ("labels_to_scenes", "blip2", "Black Men"): 0.53,
    }
    assert published == expected
    assert page_tables.join_published_rhos(renamed.assign(dataset="demo")).empty


EXPERIMENTS = ("faces_to_words", "words_to_scenes", "scenes_to_labels", "words_to_faces")
EXPERIMENTS += ("labels_to_scenes", "labels_to_faces")


@pytest.fixture(scope="module")
def worlds():
    """Build a small world as two models see it, `sharp` and `blurred`."""
    result = {"sharp": World(), "blurred": World()}
    rng = np.random.default_rng(0)
    for role, vectors in result["blurred"].vectors.items():
        blurred = vectors + 0.2 * torch.from_numpy(rng.normal(size=vectors.shape))
        result["blurred"].vectors[role] = blurred / blurred.norm(dim=1, keepdim=True)
    return result


@pytest.fixture(scope="module")
def lab_findings(worlds, tmp_path_factory):
    return run_experiments(worlds, tmp_path_factory.mktemp("jobs"))


def run_experiments(worlds, jobs_folder, experiments=EXPERIMENTS, protocol=PROTOCOL, name="paper"):
    """Run experiments on worlds, by model; write and read the results as a sweep does.

    `name`: name of the protocol.
    """
    frames, folders = [], {}
    for model, world in worlds.items():
        for exp in experiments:
            config = f"{len(folders):032x}"
            result = world.run(exp, protocol)
            common = {"exp": exp, "paper": factory.PAPER[exp], "model": model, "dataset": "lab"}
            common |= {"debias": "none", "perturb": "none", "protocol": name, "seed": 0, "config": config}
            keys = pd.DataFrame([common] * len(result.analyses))
            analyses = keys.join(result.analyses)
            results.write(jobs_folder / config, analyses, result.tables)
            frames.append(results.read(jobs_folder / config))
            folders[config] = jobs_folder / config / results.FOLDER
    analyses = combine(frames)
    jobs = analyses.drop_duplicates("config")[["model", "exp", "protocol", "seed", "config"]]
    jobs = jobs.assign(status="finished", run="r", reason="", overrides="")
    facts = pd.DataFrame(columns=["model", "parameters_millions", "gflops_image", "zero_shot"])
    return factory.build(
        propagation=analyses, folders=folders, jobs=jobs, models=facts, missing=[], status="FINISHED"
    )


def mean_rho_of(targets):
    return np.mean([rho_of(rows) for _, rows in targets.groupby("template")])


def test_a_mean_of_rho_over_templates_is_compared_as_such(worlds, tmp_path):
    """Use the protocol of a user's own YAML, whose name says nothing of its units."""
    protocol = replace(PROTOCOL, unit="template", placebo=0, attribute_draws=0)
    findings = run_experiments(worlds, tmp_path, ["words_to_scenes"], protocol, "mine")
    (row,) = differences.compare_models(findings, JobEstimates(findings)).to_dict("records")
    sides = [tables_of(findings, row, side)[0] for side in ("config_first", "config_second")]
    assert findings.of("propagation")["rho"].tolist() == pytest.approx([mean_rho_of(side) for side in sides])
    expected = expect(*sides, [mean_rho_of] * 2)
    assert [row[name] for name in RHO_COLUMNS[:3]] == pytest.approx(expected[:3], abs=1e-9)


@pytest.mark.thorough
def test_every_table_of_a_job_is_used(lab_findings, tmp_path):
    result, groups = (
        differences.compare_models(lab_findings, JobEstimates(lab_findings)),
        differences.compare_groups(lab_findings, JobEstimates(lab_findings)),
    )
    assert len(result) == len(select_main_analyses(lab_findings)) / 2
    for table in (result, groups):
        compared = table[table["reason"] == ""]
        assert len(compared) > 5
        assert compared[["ci_low", "ci_high", "delta_p", "q"]].notna().all(axis=None)
        assert table[["level_delta_low", "level_delta_high", "level_delta_q"]].notna().all(axis=None)
    sets, _ = joint.joint_tests(lab_findings)
    assert sets.loc[0, "n"] == len(select_main_analyses(lab_findings))
    assert set(groups["exp"]) == set(EXPERIMENTS) - {"words_to_scenes"}
    assert set(paper_figures.compute_bands(lab_findings)["exp"]) == {"scenes_to_labels", "words_to_faces"}
    assert paper_figures.compute_group_means(lab_findings)["z"].notna().all()
    attribute_draws = multiverse.read_attribute_draws(lab_findings)
    assert len(attribute_draws) == 6 * len(select_main_analyses(lab_findings))
    contributors = page_tables.list_contributors(lab_findings)
    assert set(contributors["config"]) == set(select_main_analyses(lab_findings)["config"])
    faces = contributors[contributors["exp"] == "words_to_faces"]
    assert faces["item"].str.fullmatch(r"face no\. \d+").all()
    text = page.write(lab_findings, tmp_path).read_text(encoding="utf-8")
    assert "What is missing" not in text


def test_minimum_detectable_effects_are_those_of_the_intervals(lab_findings):
    """Compute standard errors from intervals of level and difference, and the SD of permuted levels."""
    effects = minimum_detectable.compute_effects(lab_findings)
    analyses = select_main_analyses(lab_findings)
    assert len(effects) == len(analyses)
    pairs = differences.compare_models(lab_findings, JobEstimates(lab_findings)).drop_duplicates(
        ["exp", "stratum"]
    )
    pairs = pairs.set_index(["exp", "stratum"])
    for number, row in enumerate(analyses.to_dict("records")):
        factor = (stats.t.ppf(0.975, row["df"]) + stats.t.ppf(0.8, row["df"])) / stats.t.ppf(0.975, row["df"])
        effect, pair = effects.iloc[number], pairs.loc[(row["exp"], row["stratum"])]
        assert effect["level"] == pytest.approx(factor * (row["level_high"] - row["level_low"]) / 2)
        expected = factor * (pair["level_delta_high"] - pair["level_delta_low"]) / 2
        assert effect["difference"] == pytest.approx(expected)
        draws = lab_findings.read(row["config"], "level_draws")
        levels = draws.loc[draws["stratum"] == row["stratum"], "level"]
        assert effect["level_placebo"] == pytest.approx(2.8 * np.std(levels))
    planned = minimum_detectable.build_plan_rows(lab_findings).set_index("experiment")
    assert planned.loc["faces_to_words", "from runs of"] == "sharp, blurred"
    level = effects.loc[effects["exp"] == "faces_to_words", "level"]
    assert planned.loc["faces_to_words", "level"] == f"{level.min():.3f} to {level.max():.3f}"


@pytest.mark.parametrize("exp", ["faces_to_words", "words_to_faces"])
def test_levels_of_a_job_sum_to_0(lab_findings, exp):
    rows = select_main_analyses(lab_findings).query("exp == @exp")
    assert rows.groupby("model")["level"].sum().to_list() == pytest.approx([0, 0], abs=1e-12)
