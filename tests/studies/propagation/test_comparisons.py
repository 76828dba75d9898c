"""Check differences, specifications, model sizes and figures against references and on real jobs."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file, save_file
from scipy import stats

from src.report import page
from src.storage import results
from src.studies.propagation import differences, experiment, page_tables, paper_figures, scaling, sensitivity
from src.studies.propagation.combined import combine, main_analyses
from tests.conftest import precomputed
from tests.report import factory
from tests.studies.propagation.test_uncertainty import inputs

DRAWS = {"bootstrap": 200, "placebo": 99, "family": 19, "property": 20, "attributes": 5}


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    grid = {"models": ("toy_s", "toy_m", "toy_l"), "protocols": ("paper", "ddof_0")}
    return factory.draw(
        tmp_path_factory.mktemp("jobs"), **grid, groups=factory.GROUPS[:3], draws=DRAWS, size=30
    )


def _rhos(findings, config, stratum, kind):
    draws = findings.read(config, "draws")
    return draws[(draws["stratum"] == stratum) & (draws["kind"] == kind)].set_index("draw")["rho"]


def test_differences_of_models_use_paired_draws(findings):
    table = differences.models(findings)
    # Three pairs of models in each of 2 + 6 x 3 analyses, of one specification.
    assert len(table) == 3 * 20
    analyses = main_analyses(findings).set_index(["config", "stratum"])
    for row in table.to_dict("records"):
        keys = [(row[config], row["stratum"]) for config in ("config_first", "config_second")]
        first, second = (analyses.loc[key] for key in keys)
        bootstraps, placebos = (
            [_rhos(findings, *key, kind) for key in keys] for kind in ("bootstrap", "placebo")
        )
        assert [row["ci_low"], row["ci_high"]] == [*np.percentile(bootstraps[0] - bootstraps[1], [2.5, 97.5])]
        if np.isnan(first["rho"]) or np.isnan(second["rho"]):
            assert np.isnan([row["p_placebo"], row["q"]]).all()
            continue
        assert row["difference"] == first["rho"] - second["rho"]
        observed = abs(first["rho_placebo_units"] - second["rho_placebo_units"])
        assert row["p_placebo"] == (1 + (abs(placebos[0] - placebos[1]) >= observed - 1e-12).sum()) / 100
    tested = table.dropna(subset=["p_placebo"])
    assert tested["q"].to_list() == pytest.approx(stats.false_discovery_control(tested["p_placebo"]))


def test_an_undefined_placebo_counts_against_a_difference():
    placebo = np.array([0.1, -0.5, np.nan, 0.5 - 1e-13, 0.2])
    assert differences.p_of_difference(0.5, placebo) == 4 / 6
    assert differences.p_of_difference(-0.5, placebo) == 4 / 6
    assert np.isnan(differences.p_of_difference(np.nan, placebo))
    assert np.isnan(differences.p_of_difference(0.5, np.empty(0)))


def test_models_with_other_targets_or_sets_share_no_draws(tmp_path):
    findings = factory.draw(
        tmp_path, experiments={"faces_to_words": "1-a"}, protocols=("paper",), draws=DRAWS, size=30
    )
    configs = [*findings.folders]
    targets = findings.read(configs[1], "targets")
    # The order of targets does not matter.
    targets.iloc[::-1].to_parquet(findings.folders[configs[1]] / "targets.parquet")
    sets = findings.read(configs[2], "attributes").assign(id=["words-1", "words-3"])
    sets.astype({"id": "string"}).to_parquet(findings.folders[configs[2]] / "attributes.parquet")
    table = differences.models(findings).groupby(["first", "second"])[["ci_low", "p_placebo"]].count()
    assert (table.loc[("toy_s", "toy_m")] >= [6, 5]).all()
    assert (table.loc[[("toy_s", "toy_l"), ("toy_m", "toy_l")]] == 0).all(axis=None)
    changed = targets.assign(id=targets["id"].where(targets["stratum"] != "Black Men", "x" + targets["id"]))
    changed.to_parquet(findings.folders[configs[1]] / "targets.parquet")
    table = differences.models(findings).set_index(["first", "second", "stratum"])
    assert table.loc[("toy_s", "toy_m", "Black Men"), "reason"] == "other targets, or other A and B"
    assert table.loc[("toy_s", "toy_m", "White Men"), "reason"] == ""


def test_differences_of_groups_are_unpaired(tmp_path):
    options = {"experiments": {"faces_to_words": "1-a"}, "protocols": ("paper",)}
    findings = factory.draw(tmp_path, models=("toy_s",), **options)
    (config,) = findings.folders
    noise = np.random.default_rng(0).normal(scale=0.05, size=4000)
    draws = pd.DataFrame({"kind": "bootstrap", "draw": range(4000)})
    means = {"Asian Men": 0.5, "Black Men": 0.2}
    draws = [draws.assign(stratum=group, rho=noise + mean) for group, mean in means.items()]
    pd.concat(draws).to_parquet(findings.folders[config] / "draws.parquet")
    table = differences.groups(findings).set_index(["first", "second"]).loc[("Asian Men", "Black Men")]
    # Both groups have the same noise: paired, the interval would have no width; unpaired, variances add.
    half = 1.96 * 0.05 * np.sqrt(2)
    assert [table["ci_low"], table["ci_high"]] == pytest.approx([0.3 - half, 0.3 + half], abs=0.012)


def test_specifications_have_median_range_and_share_above_placebo(findings):
    draws = sensitivity.attribute_draws(findings)
    table = sensitivity.table(findings, draws).set_index(["exp", "reading"])
    rows = findings.of("propagation").query("exp == 'labels_to_faces'")
    row = table.loc[("labels_to_faces", "all")]
    assert (row["rhos"], row["median"]) == (18, np.median(rows["rho"]))
    assert (row["lowest"], row["highest"]) == (min(rows["rho"]), max(rows["rho"]))
    assert row["above"] == sum(a > b for a, b in zip(rows["rho"], rows["placebo_q95"], strict=True)) / 18
    # Three models, three groups, five draws, of the first specification only.
    assert table.loc[("labels_to_faces", sensitivity.DRAWS), "rhos"] == 45
    undefined = findings.of("propagation").loc[findings.of("propagation")["rho"].isna()].iloc[0]
    assert table.loc[(undefined["exp"], "paper"), "rhos"] == 8


def _only(findings, column, value):
    return findings.with_frame("propagation", findings.of("propagation").query(f"{column} == @value"))


def _with_sizes(findings, count):
    rng = np.random.default_rng(1)
    names = [f"m{number}" for number in range(count)]
    rows = main_analyses(findings).query("model == 'toy_s'")
    analyses = pd.concat([rows.assign(model=name) for name in names])
    analyses["rho"] = rng.uniform(size=len(analyses)).round(1)
    sizes = {"parameters_millions": rng.integers(1, 5, count).astype(float), "gflops_image": np.nan}
    models = pd.DataFrame({"model": names, **sizes, "zero_shot": [0.5, *[np.nan] * (count - 1)]})
    return replace(findings, frames={"propagation": analyses}, models=models)


def test_size_is_correlated_from_eight_models_on(findings):
    assert scaling.correlations(scaling.points(_with_sizes(findings, 7))).empty
    points = scaling.points(_with_sizes(findings, 9))
    # The number of parameters is known for all models, other sizes for one or none.
    assert scaling.known_quantities(points) == ["parameters_millions"]
    table = scaling.correlations(points).set_index("exp")
    assert len(table) == len(factory.PAPER)
    rows = points[points["exp"] == "faces_to_words"]
    x, y = rows["parameters_millions"].to_numpy(), rows["rho"].to_numpy()
    assert table.loc["faces_to_words", "rho"] == pytest.approx(stats.spearmanr(x, y).statistic)
    samples = np.random.default_rng(scaling.SEED).integers(9, size=(2000, 9))
    with np.errstate(all="ignore"):
        rhos = [stats.spearmanr(x[rows], y[rows]).statistic for rows in samples if len({*x[rows]}) > 1]
    interval = table.loc["faces_to_words", ["ci_low", "ci_high"]].to_list()
    assert interval == pytest.approx([*np.percentile(rhos, [2.5, 97.5])], abs=1e-9)


def test_figure_6_averages_before_it_standardises(findings):
    table = paper_figures.group_means(findings).set_index("group")
    jobs = main_analyses(findings).query("exp in ('faces_to_words', 'labels_to_scenes')")["config"].unique()
    by_job = [findings.read(config, "targets").groupby("stratum")["intrinsic"].mean() for config in jobs]
    means = np.array([np.mean([values[group] for values in by_job]) for group in factory.GROUPS[:3]])
    expected = (means - means.mean()) / np.sqrt(((means - means.mean()) ** 2).mean())
    assert table.loc[factory.GROUPS[:3], "z"].to_list() == pytest.approx([*expected])
    faces_to_words = _only(findings, "exp", "faces_to_words")
    drawing = paper_figures.group_means_figure(paper_figures.group_means(faces_to_words))
    assert "Only faces_to_words is available" in drawing.caption
    unrelated = _only(findings, "exp", "words_to_faces")
    assert paper_figures.group_means_figure(paper_figures.group_means(unrelated)) is None


def test_figure_7_splits_targets_at_half(findings, tmp_path):
    config = main_analyses(findings).query("exp == 'scenes_to_labels'")["config"].iloc[0]
    (tmp_path / config).mkdir()
    scores = {"intrinsic": [1.0, 0.0, -1.0, np.nan, 9.0], "valence": [0.5, 0.9, 0.4999, 0.1, np.nan]}
    targets = pd.DataFrame({"id": [*"abcde"], "stratum": "g", **scores})
    targets.to_parquet(tmp_path / config / "targets.parquet")
    job_findings = replace(_only(findings, "config", config), folders={config: tmp_path / config})
    table = paper_figures.valence_bands(job_findings).set_index("band")[["mean", "n"]].to_dict("index")
    assert table == {"≥ 0.5": {"mean": 0.5, "n": 2}, "< 0.5": {"mean": -1.0, "n": 1}}


def test_single_rhos_of_the_paper_are_joined_with_replicated_rhos(findings):
    renamed = main_analyses(findings).assign(
        dataset="paper",
        model=main_analyses(findings)["model"].replace({"toy_s": "clip_b32", "toy_m": "blip2"}),
        group=main_analyses(findings)["group"].replace({"Black Women": "White Women"}),
    )
    table = page_tables.singles(renamed)
    published = {(row.exp, row.model, row.group): row.published_rho for row in table.itertuples()}
    expected = {
        ("labels_to_scenes", "blip2", "Asian Men"): 0.51,
        ("labels_to_scenes", "blip2", "Black Men"): 0.53,
    }
    assert published == expected
    assert page_tables.singles(renamed.assign(dataset="demo")).empty


EXPERIMENTS = ("faces_to_words", "words_to_scenes", "scenes_to_labels", "words_to_faces")


@pytest.fixture(scope="module")
def lab_findings(tmp_path_factory):
    """Run experiments on precomputed vectors, and write and read the results as a sweep does."""
    vectors_folder = tmp_path_factory.mktemp("vectors")
    models = {name: precomputed(vectors_folder / name) for name in ("sharp", "blurred")}
    rng = np.random.default_rng(0)
    for path in models["blurred"].glob("*.safetensors"):
        vectors = load_file(path)["embedding"]
        vectors = vectors + 0.2 * rng.normal(size=vectors.shape).astype(np.float32)
        save_file({"embedding": vectors / np.linalg.norm(vectors, axis=1, keepdims=True)}, path)
    jobs_folder = tmp_path_factory.mktemp("jobs")
    frames, folders = [], {}
    for model, vectors in models.items():
        for exp in EXPERIMENTS:
            config = f"{len(folders):032x}"
            result = experiment.run(*inputs(vectors, exp))
            common = {"exp": exp, "paper": factory.PAPER[exp], "model": model, "dataset": "lab"}
            common |= {"debias": "none", "protocol": "paper", "seed": 0, "config": config}
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


def test_every_table_of_a_job_is_used(lab_findings, tmp_path):
    # Models with the same stimuli share their draws.
    result = differences.models(lab_findings)
    assert len(result) == len(main_analyses(lab_findings)) / 2
    assert (result["reason"] == "").all()
    assert result[["ci_low", "ci_high", "p_placebo", "q"]].notna().all(axis=None)
    groups = differences.groups(lab_findings)
    assert groups[["ci_low", "ci_high"]].notna().all(axis=None)
    assert set(groups["exp"]) == set(EXPERIMENTS) - {"words_to_scenes"}
    assert set(paper_figures.valence_bands(lab_findings)["exp"]) == {"scenes_to_labels", "words_to_faces"}
    assert paper_figures.group_means(lab_findings)["z"].notna().all()
    attribute_draws = sensitivity.attribute_draws(lab_findings)
    assert len(attribute_draws) == 5 * len(main_analyses(lab_findings))
    contributors = page_tables.contributors(lab_findings)
    assert set(contributors["config"]) == set(main_analyses(lab_findings)["config"])
    faces = contributors[contributors["exp"] == "words_to_faces"]
    assert faces["item"].str.fullmatch(r"face no\. \d+").all()
    text = page.write(lab_findings, tmp_path).read_text(encoding="utf-8")
    assert "What is missing" not in text
