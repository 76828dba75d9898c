"""Run a sweep of one toy x eight propagation experiments on the shrunk built-in world twice; check results.

In So-B-IT's experiments, words planted for groups rank above those planted for places, and retrieve their
groups.
"""

import re
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import mlflow
import numpy as np
import pandas as pd
import pytest
import yaml
from mlflow import MlflowClient
from scipy import stats
from scipy.stats import pearsonr

from src.embeddings import load_embeddings
from src.metrics import similarity
from src.stimuli import load
from src.storage.results import read
from src.studies.propagation.attributes import corpus_of
from src.tracking import LIMIT_TAG, run_tags
from tests import reference
from tests.commands import command
from tests.conftest import SHRUNK, store_overrides
from tests.launched import result_files, runs_below, summary_file
from tests.paths import CHECKOUT

COLUMNS = ["study", "exp", "paper", "model", "dataset", "debias", "perturb", "protocol", "seed", "config"]
COLUMNS += ["group", "stratum", "sd_measured", "sd_retrieved", "n", "n_excluded", "rho", "p", "reason"]
COLUMNS += ["rho_all", "p_all", "n_all", "level", "level_low", "level_high", "level_p", "level_z"]
COLUMNS += ["measured", "measured_low", "measured_high", "slope", "slope_low", "slope_high"]
COLUMNS += ["y_min", "y_max", "at_bound", "ceiling", "ties", "df"]
COLUMNS += ["ci_low", "ci_high", "sd_attributes", "validity", "placebo_mean", "placebo_q95", "p_placebo"]
COLUMNS += ["placebo_n", "rho_placebo_units", "property_q05", "property_q95", "rho_property_units"]
COLUMNS += ["property_r2", "property_r2_draws", "clusters", "movable", "log10_placements"]

PROTOCOL = "paper+k=60+placebo=20+bootstrap=20+attribute_draws=2+property_draws=2"

FILES = ("analyses.csv", "summary.csv", "jobs.csv", "asked.json", "heatmap.png")


@pytest.fixture(scope="module")
def client(stores):
    return MlflowClient(f"sqlite:///{stores}/mlruns/mlflow.db")


def test_a_second_sweep_embeds_nothing_and_gives_the_same_bytes(sweeps, stores):
    first, second = sweeps
    assert (first.code, second.code) == (0, 0)
    assert (first.trained, first.passes >= 4, second.trained, second.passes) == (1, True, 0, 0)
    assert result_files(second.output) == result_files(first.output)
    assert len(result_files(first.output)) == 8 * 8
    parents, jobs = runs_below(stores, "demo")
    children_by_parent = [
        [r for r in jobs if r.data.tags.get("mlflow.parentRunId") == p.info.run_id] for p in parents
    ]
    assert [len(children) for children in children_by_parent] == [8, 0]
    assert [parent.data.metrics["taken_over"] for parent in parents] == [0, 8]
    assert [parent.data.metrics["analyses"] for parent in parents] == [38, 38]
    old, new = (summary_file(stores, parent, "analyses.csv", "demo").read_bytes() for parent in parents)
    assert old == new
    table = pd.read_csv(summary_file(stores, parents[1], "jobs.csv", "demo"))
    assert table["status"].unique() == ["taken_over"]
    assert sorted(table["run"]) == sorted(run.info.run_id for run in children_by_parent[0])


def test_thirty_eight_rows_in_eight_experiments(sweeps):
    rows = sweeps[0].analyses()
    assert list(rows.columns) == COLUMNS
    assert len(rows) == 38
    assert rows.groupby("exp").size().to_dict() == {
        exp: 1 if paper.startswith("1*") else 6 for exp, paper in reference.EXPERIMENTS.items()
    }
    assert dict(zip(rows["exp"], rows["paper"], strict=True)) == reference.EXPERIMENTS
    unique_values = {name: rows[name].unique().tolist() for name in ("model", "dataset", "protocol")}
    assert unique_values["protocol"] == [PROTOCOL]
    assert (unique_values["model"], unique_values["dataset"]) == (["shrunk+steps=500"], ["demo"])
    assert rows["config"].nunique() == 8
    single = rows[rows["paper"].str.startswith("1*")]
    assert single["group"].isna().all()
    assert {*zip(single["stratum"], single["n"], strict=True)} == {("extremes", 50)}
    others = rows[~rows["paper"].str.startswith("1*")]
    assert (others["group"] == others["stratum"]).all()
    # Where targets and corpus carry the same property, rho over all targets is also reported.
    of_same_property = ["scenes_to_words", "words_to_scenes", "faces_to_labels", "labels_to_faces"]
    assert (rows["n_all"].notna() == rows["exp"].isin(of_same_property)).all()
    assert rows["rho"].isna().eq(rows["reason"].notna()).all()


def test_results_list_the_items_used(sweeps):
    words = pd.read_parquet(sweeps[0].results("faces_to_words") / "attributes.parquet")
    assert list(words.columns) == ["group", "template", "set", "id"]
    assert words.groupby(["template", "set"]).size().tolist() == [25] * 12
    faces = pd.read_parquet(sweeps[0].results("words_to_faces") / "attributes.parquet")
    for _, rows in faces.groupby("group"):
        a, b = (set(rows["id"][rows["set"] == name]) for name in "AB")
        assert not a & b
        # A is n of a group's 60 faces, B another n/6 of each of 6 groups: 48 is the largest multiple of 6
        # with n + n/6 <= 60.
        assert len(a) == len(b) == 48
    targets = pd.read_parquet(sweeps[0].results("scenes_to_labels") / "targets.parquet")
    names = ["id", "group", "stratum", "intrinsic", "extrinsic", "valence", "cluster"]
    assert list(targets.columns) == names
    assert targets.groupby("stratum")["id"].nunique().tolist() == [300] * 6
    totals = targets.groupby("id")["extrinsic"].sum()
    assert totals.to_numpy() == pytest.approx(np.ones(300))


def test_the_encoder_learnt_what_is_planted(stores, sweeps, job):
    """Correlate (Pearson) the planted valence with each group's mean difference; SC-EAT itself saturates."""
    cfg = job(*SHRUNK, *store_overrides(stores)).cfg
    table = partial(load, cfg)
    faces, words = (load_embeddings(cfg, role, table).vectors for role in ("faces", "words"))
    differences = np.zeros(len(faces))
    for pool in corpus_of(table("words"), cfg.protocol, cfg.seed).pools:
        similarities = similarity(faces, words[pool.rows])
        differences += (
            similarities[:, pool.a[0]].mean(dim=1) - similarities[:, pool.b[0]].mean(dim=1)
        ).numpy()
    means = pd.Series(differences).groupby(table("faces").frame["group"].to_numpy()).mean()
    planted = pd.Series(cfg.demo.planted)
    assert pearsonr(planted, means[planted.index]).statistic >= 0.9


def test_a_parent_carries_the_table_and_the_heatmap(client, sweeps, stores):
    parent = runs_below(stores, "demo")[0][0]
    names = {item.path for item in client.list_artifacts(parent.info.run_id, "summary")}
    assert names == {f"summary/{name}" for name in FILES}
    analyses, summary = (
        pd.read_csv(summary_file(stores, parent, name, "demo")) for name in ("analyses.csv", "summary.csv")
    )
    overall = summary[(summary["exp"] == "all") & (summary["model"] == "all")].iloc[0]
    rho = analyses["rho"]
    expected = [rho.mean(), rho.std(ddof=1), rho.count()]
    assert overall[["mean", "sd", "analyses"]].tolist() == pytest.approx(expected)


def test_a_job_s_run_can_be_traced(client, sweeps, stores):
    speeds = {"speed/images_per_second", "speed/sentences_per_second"}  # logged by the job that embedded
    (run,) = [
        run
        for run in runs_below(stores, "demo")[1]
        if run.data.tags.get("exp") == "faces_to_words" and speeds & {*run.data.metrics}
    ]
    tags, metrics = run_tags.to_facts(run.data.tags), run.data.metrics
    names = (
        "model",
        "dataset",
        "exp",
        "paper",
        "debias",
        "perturb",
        "protocol",
        "git.commit",
        "git.dirty",
        "config",
    )
    assert {*names} <= {*tags}
    assert len(tags["input.faces"]) == len(tags["input.words.vectors"]) == 64
    assert tags["used.words"].startswith("words: 300 used of 7520, 1800 sentences (303 entries")
    rows = sweeps[0].analyses()
    rows = rows[rows["exp"] == "faces_to_words"]
    assert metrics["rho"] == metrics["compare_rho/faces_to_words"] == pytest.approx(rows["rho"].mean())
    assert {"model/parameters_millions", "speed/analysis_seconds"} <= {*metrics}
    for group, rho in zip(rows["group"], rows["rho"], strict=True):
        assert metrics[f"rho/{group}"] == pytest.approx(rho)
        assert f"effect_size/{group}" in metrics
    assert run.data.params["protocol.k"] == "60"
    assert (run.data.params["exp"], run.data.params["model"]) == ("faces_to_words", "shrunk+steps=500")
    assert len(run.data.params) <= 50
    assert len([name for name in run.data.tags if not name.startswith("mlflow.")]) <= 23
    artifacts = {item.path for item in client.list_artifacts(run.info.run_id)}
    assert artifacts == {"config.yaml", "results", "scatter.png"}
    assert len(client.list_artifacts(run.info.run_id, "results")) == 8


def test_a_job_by_itself_has_no_parent(sweeps, stores, tmp_path, capsys):
    # `sweeps` has embedded scenes and words; `ddof` changes the scores only.
    swept = command(
        tmp_path / "one", "exp=scenes_to_words", *SHRUNK, *store_overrides(stores), "protocol.ddof=0"
    )
    assert (swept.code, swept.passes) == (0, 0)
    rows = pd.read_csv(tmp_path / "one" / "results" / "analyses.csv")
    assert rows["protocol"].str.startswith("paper+k=60+ddof=0+").all()
    assert "scenes_to_words" in capsys.readouterr().out
    assert "mlflow.parentRunId" not in runs_below(stores, "demo")[1][-1].data.tags


def test_runs_say_what_mlflow_s_pages_display(client, sweeps, stores, tmp_path):
    parents, jobs = runs_below(stores, "demo")
    for run in (*parents, *jobs[:8]):
        tags = run.data.tags
        assert tags["mlflow.source.name"].startswith("python -m src.run -m 'exp=glob(*_to_*)'")
        assert len(tags["mlflow.source.git.commit"]) == 40
        assert tags["mlflow.user"]
        assert len(tags["mlflow.note.content"]) <= LIMIT_TAG
    settings = PROTOCOL.removeprefix("paper+")
    assert [run.info.run_name for run in parents] == [f"shrunk+steps=500 × 8 experiments × {settings}"] * 2
    names = {f"shrunk+steps=500 · {exp} · {settings}" for exp in reference.EXPERIMENTS}
    assert {run.info.run_name for run in jobs[:8]} == names
    first, second = (parent.data.tags["mlflow.note.content"] for parent in parents)
    assert first.startswith("Jobs: 8 finished.\n\n- ")
    assert second == first.replace("finished", "reused", 1)
    assert "| faces_to_words &nbsp;|" in first
    job = next(run for run in jobs if run.data.tags["exp"] == "words_to_faces")
    assert "| words_to_faces &nbsp;|" in job.data.tags["mlflow.note.content"]
    path = client.download_artifacts(job.info.run_id, "config.yaml", str(tmp_path))
    assert yaml.safe_load(Path(path).read_text("utf-8"))["scenes"]["count"] == 300


BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def in_stores(stores, monkeypatch):
    """Run in the folder of the stores, and leave MLflow's global settings as they were."""
    monkeypatch.chdir(stores)
    uri = mlflow.get_tracking_uri()
    yield
    mlflow.set_tracking_uri(uri)
    plt.close("all")


def test_the_code_of_the_manual_gives_a_frame_and_a_plot(sweeps, stores, in_stores, capsys):
    blocks = BLOCK.findall((CHECKOUT / "docs" / "analysing.md").read_text("utf-8"))
    values: dict[str, object] = {}
    exec("\n".join(blocks), values)
    assert len(blocks) == 4
    expected = sweeps[0].analyses()
    rho = values["rho"]
    assert rho.shape == (8, 1)
    assert rho.iloc[:, 0].to_dict() == pytest.approx(expected.groupby("exp")["rho"].mean().to_dict())
    columns = ["exp", "group", "rho", "level"]
    ordered = [frame[columns].sort_values(["exp", "group"]) for frame in (values["analyses"], expected)]
    pd.testing.assert_frame_equal(*(frame.reset_index(drop=True) for frame in ordered), check_dtype=False)
    assert len(values["targets"]) == 360
    (axes,) = values["figure"].axes
    assert len(axes.containers) == 1
    assert (stores / "levels.png").stat().st_size > 5000
    assert "shrunk" in capsys.readouterr().out


FEW = ["protocol.vocabulary=200", "protocol.permutations=199", "protocol.bootstrap=100", "protocol.top_k=20"]


@pytest.fixture(scope="module")
def sobit_output(stores, sweeps, tmp_path_factory):
    """Run all three experiments on the suite's toy, with a report; `sweeps` has trained it."""
    output = tmp_path_factory.mktemp("sobit")
    overrides = [*store_overrides(stores), f"tracking.uri=sqlite:///{output}/mlflow.db", "report=true"]
    done = command(output, "-m", "exp=glob(sobit_*)", *SHRUNK, *overrides, *FEW)
    assert (done.code, done.trained) == (0, 0)
    return output


def test_words_of_groups_rank_above_those_of_places_and_retrieve_their_groups(sobit_output, job):
    frames = [read(path.parent.parent) for path in sobit_output.glob("*/results/analyses.csv")]
    rows = {str(frame["exp"].iloc[0]).removeprefix("sobit_"): frame for frame in frames}
    associations = rows["association"]
    probes = job(*SHRUNK).cfg.demo.probes
    group_of = {caption: name for name, captions in probes.items() for caption in captions}
    largest = (
        associations.assign(size=associations["association"].abs()).groupby(["axis", "caption"])["size"].max()
    )
    for axis in ("race", "gender", "both"):
        sizes = largest.loc[axis]
        groups = sizes.index.map(group_of)
        of_groups = sizes[groups.isin({*associations.loc[associations["axis"] == axis, "group"]})]
        # Names of places are in small letters.
        of_places = sizes[groups.str.islower()]
        assert len(of_places) == 24
        share = stats.mannwhitneyu(of_groups, of_places).statistic / len(of_groups) / len(of_places)
        assert share >= 0.95, axis
    of_planted = associations[associations["group"] == associations["caption"].map(group_of)]
    assert (of_planted["association_low"] > 0).all()
    assert (of_planted["q"] <= 0.05).all()
    retrieved = rows["retrieval"]
    of_planted = retrieved[retrieved["group"] == retrieved["caption"].map(group_of)]
    assert (len(of_planted), (of_planted["ratio"] > 1).mean() >= 0.95) == (24, True)
    sums = retrieved.groupby(["caption", "axis"])[["share_topk", "base_share"]].sum()
    assert sums.to_numpy() == pytest.approx(1)
    page = (sobit_output / "report" / "index.html").read_text()
    assert "probes, not claims" in page
    assert "clockmaker" in page
    assert (sobit_output / "report" / "tables" / "sobit-words.csv").is_file()
