"""Check the ranking of models: sums of average ranks, lower first, with incomplete models listed."""

import shutil

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from src.report import __main__ as report_cli
from src.storage import results
from src.studies.implicit import model_ranking
from src.tracking import Tracker
from tests.report.conftest import ParsedPage
from tests.studies.implicit import audit_jobs


@pytest.fixture
def ninety_models():
    """Draw 90 models of 56 pretraining sets, as in the paper's table 2."""
    rng = np.random.default_rng(0)
    sets = rng.permutation(np.concatenate([np.arange(56), rng.choice(12, 34)]))
    result = pd.DataFrame(
        [(f"m{n}", f"set{number}") for n, number in enumerate(sets)], columns=["model", "pretraining"]
    )
    # Rounded to two digits, so that values are tied.
    gaps = {name: rng.uniform(0, 0.3, 90).round(2) for name in ("competence", "emotions")}
    return result.assign(**gaps, iat=rng.integers(0, 60, 90) / 3)


def test_the_rank_is_the_sum_of_average_ranks(ninety_models):
    result = model_ranking.rank_models(ninety_models).set_index("model")
    ranks = {name: stats.rankdata(ninety_models[name]).tolist() for name in model_ranking.MEASURES}
    sums = [sum(ranks[name][row] for name in model_ranking.MEASURES) for row in range(90)]
    for name in model_ranking.MEASURES:
        assert result.loc[ninety_models["model"], f"{name}_rank"].tolist() == ranks[name]
    assert result.loc[ninety_models["model"], "rank_sum"].tolist() == sums
    assert result["rank_sum"].is_monotonic_increasing
    assert result.loc[ninety_models["model"], "place"].tolist() == [
        1 + sum(other < item for other in sums) for item in sums
    ]
    assert len(set(ninety_models["competence"])) < 90


def test_pretraining_sets_are_ranked_by_means_of_their_models(ninety_models):
    result = model_ranking.rank_pretraining(ninety_models)
    assert len(result) == 56
    assert result["models"].sum() == 90
    assert result["models"].max() > 1
    assert not result["incomplete"].any()
    groups = ninety_models.groupby("pretraining")[[*model_ranking.MEASURES]]
    means, keyed = groups.mean(), result.set_index("pretraining").sort_index()
    ranks = stats.rankdata(means.round(12), axis=0)
    assert keyed["models"].tolist() == groups.size().tolist()
    assert keyed["rank_sum"].tolist() == ranks.sum(axis=1).tolist()
    for measure in model_ranking.MEASURES:
        np.testing.assert_allclose(keyed[measure], means[measure], rtol=1e-12)
        np.testing.assert_allclose(keyed[f"{measure}_sd"], groups.std()[measure])
    assert result["rank_sum"].is_monotonic_increasing


def test_models_without_a_measure_are_listed_and_not_ranked(ninety_models):
    incomplete = ninety_models.copy()
    incomplete.loc[[3, 50], "iat"] = np.nan
    result = model_ranking.rank_models(incomplete)
    assert len(result) == 90
    assert set(result["model"].tail(2)) == {"m3", "m50"}
    assert result[["rank_sum", "place", "competence_rank", "iat_rank"]].tail(2).isna().all(axis=None)
    expected = model_ranking.rank_models(ninety_models.drop([3, 50]).reset_index(drop=True))
    pd.testing.assert_frame_equal(result.head(88), expected)
    sets = model_ranking.rank_pretraining(incomplete)
    assert sets["models"].sum() == 88
    assert sets["incomplete"].sum() == 2
    counts = incomplete["pretraining"].value_counts()
    sets_without_models = [name for name in incomplete.loc[[3, 50], "pretraining"] if counts[name] == 1]
    assert sets.loc[sets["place"].isna(), "pretraining"].tolist() == sets_without_models
    assert model_ranking.rank_models(ninety_models.assign(iat=np.nan))["place"].isna().all()
    assert model_ranking.rank_models(ninety_models.head(0)).empty
    assert model_ranking.rank_pretraining(ninety_models.head(0)).empty
    assert model_ranking.split_by_specification(model_ranking.compute_measures(pd.DataFrame())) == []


@pytest.fixture
def audits(tmp_path):
    return audit_jobs.sweep(tmp_path, models=("a", "b"), groups=["x", "y", "z"], debias=("none", "gone")).of(
        "implicit"
    )


def test_measures_are_means_over_pairs_without_debiasing(audits):
    result = model_ranking.compute_measures(audits).set_index("model")
    assert list(result.index) == ["a", "b"]
    for model, row in result.iterrows():
        subset = audits[(audits["model"] == model) & (audits["debias"] == "none")]
        for attribute in ("competence", "emotions"):
            gaps = subset.loc[subset["attribute"] == attribute, "cles_gap"].tolist()
            assert row[attribute] == pytest.approx(sum(gaps) / 3)
        scores = subset.loc[subset["exp"] == "iat_semantic", "iat"].tolist()
        assert row["iat"] == pytest.approx(sum(scores) / 3)
        nulls = subset.loc[subset["exp"] == "iat_semantic", "null_mean"].tolist()
        assert row["iat_null"] == pytest.approx(sum(nulls) / 3)
        assert row["groups"] == "x, y, z"
        assert row["iat_n"] == 12


def test_the_latest_run_of_a_config_replaces_the_earlier(audits):
    later = audits.assign(cles_gap=audits["cles_gap"] / 2)
    result = model_ranking.compute_measures(pd.concat([audits, later], ignore_index=True))
    expected = model_ranking.compute_measures(audits)
    assert len(result) == 2
    np.testing.assert_allclose(result["competence"], expected["competence"] / 2)
    # Of several configs of the same audit, the latest is used, not their mean.
    other = audits.assign(config=audits["config"] + "b", cles_gap=audits["cles_gap"] * 3)
    result = model_ranking.compute_measures(pd.concat([other, audits], ignore_index=True))
    pd.testing.assert_frame_equal(result, expected)


@pytest.mark.parametrize(
    ("column", "value"), [("protocol", "ties_strict"), ("seed", 1), ("dataset", "paper"), ("faces", "ff")]
)
def test_specifications_are_never_mixed(audits, column, value):
    audits = audits.assign(faces="00")
    other = audits[audits["exp"] == "cles_competence"].assign(**{column: value, "config": "c"}).head(3)
    measure_rows = model_ranking.compute_measures(pd.concat([other, audits], ignore_index=True))
    assert len(measure_rows) == 3
    tables = model_ranking.split_by_specification(measure_rows)
    pd.testing.assert_frame_equal(tables[0].reset_index(drop=True), model_ranking.compute_measures(audits))
    assert tables[1][column].tolist() == [value]
    assert not model_ranking.has_measures(tables[1]).any()


def test_a_model_with_an_undefined_pair_is_incomplete(audits):
    row = audits.index[(audits["model"] == "a") & (audits["attribute"] == "competence")][0]
    audits.loc[row, "cles_gap"] = np.nan
    measure_rows = model_ranking.compute_measures(audits)
    assert model_ranking.has_measures(measure_rows).tolist() == [False, True]


@pytest.fixture(scope="module")
def empty_store(tmp_path_factory):
    """Make a database without runs, once per module: migrations are slow."""
    folder = tmp_path_factory.mktemp("empty")
    Tracker(f"sqlite:///{folder}/mlflow.db")
    return folder


@pytest.fixture(scope="module")
def store(empty_store, tmp_path_factory):
    """Store two models' audits (one of them twice, with different values), a failed run, and other runs."""
    folder = tmp_path_factory.mktemp("store")
    shutil.copy(empty_store / "mlflow.db", folder)
    tracker = Tracker(f"sqlite:///{folder}/mlflow.db")
    findings = audit_jobs.sweep(folder / "jobs", models=("a", "b"), groups=["x", "y", "z"])
    jobs = findings.jobs.drop_duplicates("config").to_dict("records")
    for i, job in enumerate([jobs[0], *jobs, jobs[-1]]):
        rows = findings.of("implicit")[findings.of("implicit")["config"] == job["config"]]
        altered = rows.assign(cles_gap=rows["cles_gap"] / 9, iat=rows["iat"] + 40)
        _store_run(tracker, folder / f"{i}", job, rows if 0 < i < 9 else altered, findings, i < 9)
    _store_run(tracker, folder / "other", jobs[0] | {"exp": "faces_to_words"}, None, findings)
    parent = tracker.start_run("photos", "sweep")
    parent.log(tags={"kind": "sweep"})
    parent.end()
    return folder, findings


def _store_run(tracker, folder, job, rows, findings, is_finished=True):
    tags = {
        name: str(job[name])
        for name in ("exp", "paper", "model", "debias", "perturb", "protocol", "seed", "config")
    }
    run = tracker.start_run(job["dataset"], "a job")
    if rows is not None:
        tables = {name: findings.read(job["config"], name) for name in ("draws", "similarities")}
        results.write(folder, rows, tables)
        run.log_artifacts(folder / "results", "results")
        tags |= {"results": results.compute_digest(folder), "input.faces": "ab" * 32}
    pretraining = {"pretraining": "laion2b"} if job["model"] == "a" else {}
    metrics = {"cles_gap.competence": 0.1} if job["exp"] in audit_jobs.SETS else {"rho": 0.5}
    fields = {"kind": "job", "dataset": job["dataset"], "git.commit": "f" * 40}
    run.log(tags={**tags, **pretraining, **fields}, metrics=metrics)
    run.end("FINISHED" if is_finished else "FAILED")
    return run.id


def run_report(store, *arguments):
    return report_cli.main([f"tracking.uri=sqlite:///{store}/mlflow.db", "sweep=all", *arguments])


def read_page(folder):
    return ParsedPage((folder / "out" / "index.html").read_text(encoding="utf-8"))


def test_all_audits_of_a_store_are_ranked_each_config_once(store, tmp_path, capsys):
    folder, findings = store
    for _ in range(2):  # an older report is replaced
        assert run_report(folder, f"output={tmp_path}/out") == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"Report: {tmp_path}/out/index.html"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]
    tables = tmp_path / "out" / "tables"
    ranked = pd.read_csv(tables / "ranking-models.csv")
    measure_rows = model_ranking.compute_measures(findings.of("implicit"))
    assert ranked["model"].tolist() == model_ranking.rank_models(measure_rows)["model"].tolist()
    for name in model_ranking.MEASURES:
        expected = measure_rows.set_index("model").loc[ranked["model"], name]
        np.testing.assert_allclose(ranked[name], expected)
        assert (ranked[f"{name}_low"] <= ranked[f"{name}_high"]).all()
    assert ranked.set_index("model")["pretraining"].to_dict() == {"a": "laion2b", "b": "unknown"}
    assert pd.read_csv(tables / "ranking-pretraining.csv")["models"].tolist() == [1, 1]
    assert len(pd.read_csv(tables / "runs.csv")) == 8
    report_page = read_page(tmp_path)
    assert "8 runs of audits" in report_page.text
    assert "2 of 2 models have all three measures" in report_page.text
    assert "What is missing" not in report_page.text
    assert all((tmp_path / "out" / link["href"]).is_file() for _, link in report_page.tags if "href" in link)
    assert {path.stem for path in (tmp_path / "out" / "figures").rglob("*.*")} == {"bubbles"}


@pytest.fixture
def store_copy(store, tmp_path):
    shutil.copytree(store[0], tmp_path / "store")
    return tmp_path / "store", Tracker(f"sqlite:///{tmp_path}/store/mlflow.db"), store[1]


def test_other_protocols_and_lost_results_are_reported(store_copy, tmp_path):
    folder, tracker, findings = store_copy
    job = findings.jobs.iloc[0].to_dict() | {"config": "c2", "protocol": "ties_strict"}
    rows = findings.of("implicit")[findings.of("implicit")["config"] == findings.jobs["config"].iloc[0]]
    rows = rows.assign(protocol="ties_strict", config="c2")
    results_dir = findings.folders[findings.jobs["config"].iloc[0]]
    other = findings.__class__(**{**findings.__dict__, "folders": dict.fromkeys(["c2", "c3"], results_dir)})
    _store_run(tracker, tmp_path / "job", job, rows, other)
    lost_job = job | {"config": "c3", "model": "gone"}
    lost_id = _store_run(tracker, tmp_path / "lost", lost_job, rows.assign(model="gone"), other)
    shutil.rmtree(next((folder / "artifacts").glob(f"*/{lost_id}/artifacts/results")))
    assert run_report(folder, f"output={tmp_path}/out") == 0
    text = read_page(tmp_path).text
    assert "the specification differs: protocol ties_strict, seed 0, groups x, y, z" in text
    assert f"gone, cles_competence, run {lost_id}: results cannot be read" in text
    assert pd.read_csv(tmp_path / "out" / "tables" / "ranking-others.csv")["model"].tolist() == ["a"]


def test_a_choice_between_several_datasets_is_required(store_copy, tmp_path, capsys):
    folder, tracker, findings = store_copy
    job = findings.jobs.iloc[0].to_dict() | {"dataset": "Photos <1>"}
    rows = findings.of("implicit").query("config == @job['config']").assign(dataset="Photos <1>")
    _store_run(tracker, tmp_path / "job", job, rows, findings)
    for choice, message in (
        ([], "audits of several datasets are stored: Photos <1> (1), demo (9). Set dataset=NAME."),
        (
            ["dataset=paper"],
            "no finished audit of dataset=paper is in the store; there are audits of Photos <1>",
        ),
    ):
        assert run_report(folder, *choice, f"output={tmp_path}/out") == 1
        assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert run_report(folder, "dataset=Photos <1>", f"output={tmp_path}/out") == 0
    assert "0 of 1 models have all three measures" in read_page(tmp_path).text


def test_poems_are_no_audits(store_copy, tmp_path):
    folder, tracker, _ = store_copy
    run = tracker.start_run("poem", "a job")
    tags = {"kind": "job", "study": "poems", "dataset": "poem", "exp": "poem"}
    run.log(tags=tags, metrics={"cles_gap.positive.removed": 0.1})
    run.end()
    assert run_report(folder, f"output={tmp_path}/out") == 0
    assert "8 runs of audits" in read_page(tmp_path).text


def test_a_store_without_audits_is_an_error(empty_store, tmp_path, capsys):
    assert run_report(empty_store, f"output={tmp_path}/out") == 1
    message = capsys.readouterr().err
    assert message.startswith("sweep=all: no finished audit is in the store; run one: python -m src.run -m ")
    assert not (tmp_path / "out").exists()
