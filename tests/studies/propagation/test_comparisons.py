"""Differences, readings, size, and the paper's figures 6 and 7, against plain references."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from src.report import latex
from src.studies.propagation import (
    contributors,
    differences,
    latex_table,
    paper_figures,
    paper_values,
    scaling,
    sensitivity,
    tables,
)
from src.studies.propagation.combined import shown
from tests.report import made

DRAWS = {"bootstrap": 200, "placebo": 99, "family": 19, "property": 20, "attributes": 5}


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    return made.made(
        tmp_path_factory.mktemp("jobs"),
        models=("toy_s", "toy_m", "toy_l"),
        groups=made.GROUPS[:3],
        readings=("paper", "ddof_0"),
        draws=DRAWS,
        size=30,
    )


def _drawn(findings, config, stratum, kind):
    draws = findings.read(config, "draws")
    return draws[(draws["stratum"] == stratum) & (draws["kind"] == kind)].set_index("draw")["rho"]


def test_models_differ_by_what_their_paired_draws_say(findings):
    found = differences.models(findings)
    # Three pairs of models in each of 2 + 6 x 3 analyses, of one reading.
    assert len(found) == 3 * 20
    analyses = shown(findings).set_index(["config", "stratum"])
    for row in found.to_dict("records"):
        keys = [(row[config], row["stratum"]) for config in ("config_first", "config_second")]
        first, second = (analyses.loc[key] for key in keys)
        boots = [_drawn(findings, *key, "bootstrap") for key in keys]
        assert [row["ci_low"], row["ci_high"]] == [*np.percentile(boots[0] - boots[1], [2.5, 97.5])]
        if np.isnan(first["rho"]) or np.isnan(second["rho"]):
            assert np.isnan(row["p_placebo"])
            assert np.isnan(row["q"])
            continue
        assert row["difference"] == first["rho"] - second["rho"]
        placebos = [_drawn(findings, *key, "placebo") for key in keys]
        observed = abs(first["rho_placebo_units"] - second["rho_placebo_units"])
        reached = sum(abs(a - b) >= observed - 1e-12 for a, b in zip(*placebos, strict=True))
        assert row["p_placebo"] == (1 + reached) / 100
    known = found.dropna(subset=["p_placebo"])
    # Benjamini and Hochberg by hand: the least p · m / rank of all that rank as high or higher.
    p = known["p_placebo"].to_numpy()
    ranks = stats.rankdata(p, method="max")
    assert known["q"].to_list() == pytest.approx([min((p * len(p) / ranks)[p >= own]) for own in p])


def test_an_undefined_placebo_counts_against_a_difference():
    under = np.array([0.1, -0.5, np.nan, 0.5 - 1e-13, 0.2])
    assert differences.p_of_difference(0.5, under) == 4 / 6
    assert differences.p_of_difference(-0.5, under) == 4 / 6
    assert np.isnan(differences.p_of_difference(np.nan, under))
    assert np.isnan(differences.p_of_difference(0.5, np.empty(0)))


def test_models_that_saw_other_targets_or_sets_share_no_draws(tmp_path):
    own = made.made(
        tmp_path, experiments={"faces_to_words": "1-a"}, readings=("paper",), draws=DRAWS, size=30
    )
    configs = [*own.folders]
    targets = own.read(configs[1], "targets")
    # In another order they are the same.
    targets.iloc[::-1].to_parquet(own.folders[configs[1]] / "targets.parquet")
    sets = own.read(configs[2], "attributes").assign(id=["words-1", "words-3"])
    sets.astype({"id": "string"}).to_parquet(own.folders[configs[2]] / "attributes.parquet")
    found = differences.models(own).groupby(["first", "second"])[["ci_low", "p_placebo"]].count()
    assert (found.loc[("toy_s", "toy_m")] >= [6, 5]).all()
    assert (found.loc[[("toy_s", "toy_l"), ("toy_m", "toy_l")]] == 0).all(axis=None)
    changed = targets.assign(id=targets["id"].where(targets["stratum"] != "Black Men", "x" + targets["id"]))
    changed.to_parquet(own.folders[configs[1]] / "targets.parquet")
    found = differences.models(own).set_index(["first", "second", "stratum"])
    assert found.loc[("toy_s", "toy_m", "Black Men"), "reason"] == "other targets, or other A and B"
    assert found.loc[("toy_s", "toy_m", "White Men"), "reason"] == ""


def test_groups_are_held_against_each_other_without_pairing(tmp_path):
    own = made.made(tmp_path, models=("toy_s",), experiments={"faces_to_words": "1-a"}, readings=("paper",))
    (config,) = own.folders
    rng = np.random.default_rng(0)
    same = rng.normal(scale=0.05, size=4000)
    draws = [
        pd.DataFrame({"stratum": group, "kind": "bootstrap", "draw": range(4000), "rho": same + mean})
        for group, mean in (("Asian Men", 0.5), ("Black Men", 0.2))
    ]
    pd.concat(draws).to_parquet(own.folders[config] / "draws.parquet")
    found = differences.groups(own).set_index(["first", "second"]).loc[("Asian Men", "Black Men")]
    # Draws of one origin: paired, the interval would have no width; unpaired, the variances add.
    half = 1.96 * 0.05 * np.sqrt(2)
    assert [found["ci_low"], found["ci_high"]] == pytest.approx([0.3 - half, 0.3 + half], abs=0.012)


def test_readings_are_told_by_median_range_and_share_above_their_placebo(findings):
    drawn = sensitivity.attribute_draws(findings)
    found = sensitivity.table(findings, drawn).set_index(["exp", "reading"])
    own = findings.of("propagation")[findings.of("propagation")["exp"] == "labels_to_faces"]
    row = found.loc[("labels_to_faces", "all")]
    assert (row["rhos"], row["median"]) == (18, np.median(own["rho"]))
    assert (row["lowest"], row["highest"]) == (min(own["rho"]), max(own["rho"]))
    assert row["above"] == sum(a > b for a, b in zip(own["rho"], own["placebo_q95"], strict=True)) / 18
    # Three models, three groups, five draws, of the first reading only.
    assert found.loc[("labels_to_faces", sensitivity.DRAWS), "rhos"] == 45
    undefined = findings.of("propagation").loc[findings.of("propagation")["rho"].isna()].iloc[0]
    assert found.loc[(undefined["exp"], "paper"), "rhos"] == 8


def _only(findings, column, value):
    return findings.with_frame("propagation", findings.of("propagation").query(f"{column} == @value"))


def _sizes(findings, count):
    rng = np.random.default_rng(1)
    names = [f"m{number}" for number in range(count)]
    analyses = pd.concat(
        [shown(findings)[shown(findings)["model"] == "toy_s"].assign(model=name) for name in names]
    )
    analyses["rho"] = rng.uniform(size=len(analyses)).round(1)
    sizes = {"parameters_millions": rng.integers(1, 5, count).astype(float), "gflops_image": np.nan}
    models = pd.DataFrame({"model": names, **sizes, "zero_shot": [0.5, *[np.nan] * (count - 1)]})
    return replace(findings, frames={"propagation": analyses}, models=models)


def test_size_is_correlated_from_eight_models_on(findings):
    assert scaling.correlations(scaling.points(_sizes(findings, 7))).empty
    points = scaling.points(_sizes(findings, 9))
    # Known of two models at least.
    assert scaling.known(points) == ["parameters_millions"]
    found = scaling.correlations(points).set_index("exp")
    assert len(found) == len(made.PAPER)
    own = points[points["exp"] == "faces_to_words"]
    x, y = own["parameters_millions"].to_numpy(), own["rho"].to_numpy()
    assert found.loc["faces_to_words", "rho"] == pytest.approx(stats.spearmanr(x, y).statistic)
    chosen = np.random.default_rng(scaling.SEED).integers(9, size=(2000, 9))
    with np.errstate(all="ignore"):
        drawn = [stats.spearmanr(x[rows], y[rows]).statistic for rows in chosen if len({*x[rows]}) > 1]
    ends = found.loc["faces_to_words", ["ci_low", "ci_high"]].to_list()
    assert ends == pytest.approx([*np.percentile(drawn, [2.5, 97.5])], abs=1e-9)


def test_figure_6_averages_before_it_standardises(findings):
    found = paper_figures.group_means(findings).set_index("group")
    sums = {group: [] for group in made.GROUPS[:3]}
    for exp in ("faces_to_words", "labels_to_scenes"):
        for config in shown(findings).loc[shown(findings)["exp"] == exp, "config"].unique():
            targets = findings.read(config, "targets")
            for group, values in sums.items():
                values.append(targets.loc[targets["stratum"] == group, "intrinsic"].mean())
    means = np.array([np.mean(values) for values in sums.values()])
    wanted = (means - means.mean()) / np.sqrt(((means - means.mean()) ** 2).mean())
    assert found.loc[made.GROUPS[:3], "z"].to_list() == pytest.approx([*wanted])
    alone = _only(findings, "exp", "faces_to_words")
    drawing = paper_figures.group_means_figure(paper_figures.group_means(alone))
    assert "Only faces_to_words is there" in drawing.caption
    none = _only(findings, "exp", "words_to_faces")
    assert paper_figures.group_means_figure(paper_figures.group_means(none)) is None


def test_figure_7_parts_targets_at_one_half(findings, tmp_path):
    config = shown(findings).loc[shown(findings)["exp"] == "scenes_to_labels", "config"].iloc[0]
    (tmp_path / config).mkdir()
    pd.DataFrame(
        {
            "id": [*"abcde"],
            "stratum": "g",
            "intrinsic": [1.0, 0.0, -1.0, np.nan, 9.0],
            "valence": [0.5, 0.9, 0.4999, 0.1, np.nan],
        }
    ).to_parquet(tmp_path / config / "targets.parquet")
    own = replace(_only(findings, "config", config), folders={config: tmp_path / config})
    found = paper_figures.valence_bands(own).set_index("band")[["mean", "n"]].to_dict("index")
    assert found == {"≥ 0.5": {"mean": 0.5, "n": 2}, "< 0.5": {"mean": -1.0, "n": 1}}


def test_contributors_are_the_largest_each_way(findings):
    found = contributors.contributors(findings)
    config = shown(findings)["config"].iloc[0]
    told = findings.read(config, "retrieved")
    own = found[found["config"] == config]
    order = told.sort_values("contribution", ascending=False)
    assert own["item"].to_list() == [*order["item"][:5], *order["item"][-5:]]
    assert (own["contribution"].to_numpy()[:5] > 0).all()
    assert (own["contribution"].to_numpy()[5:] < 0).all()


def test_a_mean_on_the_edge_of_theirs_is_inside():
    rows = {"mean": [0.74, 0.88, 0.7399, np.nan, 0.8], "published_mean": [0.81, 0.81, 0.81, 0.81, np.nan]}
    found = paper_values.beside(pd.DataFrame({**rows, "published_sd": 0.07}))
    assert [*found] == ["inside", "inside", "outside", "", ""]
    assert [*paper_values.beside(pd.DataFrame({"mean": [0.8]}))] == [""]


def test_single_rho_s_of_the_paper_stand_beside_ours_where_all_match(findings):
    renamed = shown(findings).assign(
        dataset="paper",
        model=shown(findings)["model"].replace({"toy_s": "clip_b32", "toy_m": "blip2"}),
        group=shown(findings)["group"].replace({"Black Women": "White Women"}),
    )
    found = paper_values.singles(renamed)
    said = {(row.exp, row.model, row.group): row.published_rho for row in found.itertuples()}
    assert said == {
        ("labels_to_scenes", "blip2", "Asian Men"): 0.51,
        ("labels_to_scenes", "blip2", "Black Men"): 0.53,
    }
    assert paper_values.singles(renamed.assign(dataset="demo")).empty


def test_latex_prints_every_letter_as_it_is(findings):
    assert latex.escaped(r"50% & $x_1$ #{~^\}|<a>") == (
        r"50\% \& \$x\_1\$ \#\{\textasciitilde{}\textasciicircum{}\textbackslash{}\}"
        r"\textbar{}\textless{}a\textgreater{}"
    )
    found = tables.summary(shown(findings).assign(dataset="paper"))
    lines = latex_table.main_table(found).splitlines()
    rows = [line for line in lines if line.endswith(r"\\")]
    # Experiments and their sum, and the heads, each with as many cells.
    assert len(rows) == 1 + 8 + 1
    assert {line.count(" & ") for line in rows} == {6}
    cell = found.set_index(["exp", "model"]).loc[("faces_to_labels", "toy_m")]
    (row,) = [line for line in rows if line.startswith(r"faces\_to\_labels & 2*-a")]
    assert rf"${cell['mean']:.2f} \pm {cell['sd']:.2f}$" in row
    assert row.endswith(r"$0.94 \pm 0.04$ \\")
