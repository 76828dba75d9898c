"""The ranking of models is the paper's: sums of average ranks, lower first, and nobody falls out unsaid."""

import shutil

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.report import __main__ as entry
from src.studies.implicit import model_ranking
from src.studies.implicit.terminal import short
from src.tracking import Tracker
from tests.report.test_page import Read
from tests.studies.implicit import audited


def brute(values):
    """Average ranks, told by counting."""
    return [
        sum(other < one for other in values) + (sum(other == one for other in values) + 1) / 2
        for one in values
    ]


def table(rng, size):
    # Two digits: ties there are.
    return pd.DataFrame(
        {
            "model": [f"m{number}" for number in range(size)],
            "competence": rng.uniform(0, 0.3, size).round(2),
            "emotions": rng.uniform(0, 0.3, size).round(2),
            "iat": rng.integers(0, 60, size) / 3,
        }
    )


@pytest.fixture
def ninety():
    """The shape of the paper's table 2: 90 models of 56 pretraining sets."""
    rng = np.random.default_rng(0)
    sets = np.concatenate([np.arange(56), rng.choice(12, 34)])
    return table(rng, 90).assign(pretraining=[f"set{number}" for number in rng.permutation(sets)])


def test_the_rank_is_the_sum_of_average_ranks(ninety):
    found = model_ranking.ranking(ninety).set_index("model")
    ranks = {name: brute(ninety[name].tolist()) for name in model_ranking.MEASURES}
    sums = [sum(ranks[name][row] for name in model_ranking.MEASURES) for row in range(90)]
    for name in model_ranking.MEASURES:
        assert found.loc[ninety["model"], f"{name}_rank"].tolist() == ranks[name]
    assert found.loc[ninety["model"], "rank_sum"].tolist() == sums
    assert found["rank_sum"].is_monotonic_increasing
    assert found.loc[ninety["model"], "place"].tolist() == [
        1 + sum(other < one for other in sums) for one in sums
    ]
    assert len(set(ninety["competence"])) < 90


def test_sets_of_the_shape_of_the_paper_s_table_2(ninety):
    found = model_ranking.by_pretraining(ninety)
    assert len(found) == 56
    assert found["models"].sum() == 90
    assert found["models"].max() > 1
    assert not found["incomplete"].any()
    by_hand = {}
    for row in ninety.to_dict("records"):
        by_hand.setdefault(row["pretraining"], []).append(row)
    means = {
        name: {one: sum(row[one] for row in rows) / len(rows) for one in model_ranking.MEASURES}
        for name, rows in by_hand.items()
    }
    order = list(means)
    ranks = {one: brute([round(means[name][one], 12) for name in order]) for one in model_ranking.MEASURES}
    keyed = found.set_index("pretraining")
    for number, name in enumerate(order):
        row = keyed.loc[name]
        assert row["models"] == len(by_hand[name])
        assert row["rank_sum"] == sum(ranks[one][number] for one in model_ranking.MEASURES)
        for one in model_ranking.MEASURES:
            assert row[one] == pytest.approx(means[name][one], abs=1e-15)
            spread = [other[one] for other in by_hand[name]]
            sd = np.std(spread, ddof=1) if len(spread) > 1 else np.nan
            assert row[f"{one}_sd"] == pytest.approx(sd, nan_ok=True)
    assert found["rank_sum"].is_monotonic_increasing


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=12), st.randoms())
def test_ranks_do_not_depend_on_the_order_or_the_scale_of_rows(rows, random):
    models = pd.DataFrame(rows, columns=list(model_ranking.MEASURES), dtype=float).assign(
        model=range(len(rows))
    )
    found = model_ranking.ranking(models).set_index("model")["rank_sum"]
    other = list(range(len(rows)))
    random.shuffle(other)
    shuffled = models.iloc[other].reset_index(drop=True)
    shuffled["iat"] = shuffled["iat"] * 7 + 1
    pd.testing.assert_series_equal(
        model_ranking.ranking(shuffled).set_index("model")["rank_sum"].loc[found.index], found
    )
    assert found.sum() == 3 * len(rows) * (len(rows) + 1) / 2


def test_a_model_without_a_measure_is_listed_and_not_ranked(ninety):
    gone = ninety.copy()
    gone.loc[[3, 50], "iat"] = np.nan
    found = model_ranking.ranking(gone)
    assert len(found) == 90
    assert set(found["model"].tail(2)) == {"m3", "m50"}
    assert found[["rank_sum", "place", "competence_rank", "iat_rank"]].tail(2).isna().all(axis=None)
    expected = model_ranking.ranking(ninety.drop([3, 50]).reset_index(drop=True))
    pd.testing.assert_frame_equal(found.head(88), expected)
    sets = model_ranking.by_pretraining(gone)
    assert sets["models"].sum() == 88
    assert sets["incomplete"].sum() == 2
    alone = gone["pretraining"].value_counts()
    alone = [name for name in gone.loc[[3, 50], "pretraining"] if alone[name] == 1]
    assert sets.loc[sets["place"].isna(), "pretraining"].tolist() == alone


def test_the_mean_of_a_set_is_over_the_same_models_in_each_measure():
    rows = [("a", 0.1, 0.1, 3.0), ("a", 0.3, 0.5, 5.0), ("a", 0.9, 0.9, np.nan)]
    (row,) = model_ranking.by_pretraining(
        pd.DataFrame(rows, columns=["pretraining", *model_ranking.MEASURES])
    ).to_dict("records")
    assert (row["models"], row["incomplete"]) == (2, 1)
    assert [row[name] for name in model_ranking.MEASURES] == pytest.approx([0.2, 0.3, 4.0])


def test_nobody_can_be_ranked_or_nobody_is_there(ninety):
    assert model_ranking.ranking(ninety.assign(iat=np.nan))["place"].isna().all()
    assert model_ranking.ranking(ninety.head(0)).empty
    assert model_ranking.by_pretraining(ninety.head(0)).empty


@pytest.fixture
def audits(tmp_path):
    return audited.audited(tmp_path, models=("a", "b"), groups=["x", "y", "z"], debias=("none", "gone")).of(
        "implicit"
    )


def test_measures_are_means_over_pairs_of_what_was_not_debiased(audits):
    found = model_ranking.measures(audits).set_index("model")
    assert list(found.index) == ["a", "b"]
    for model, row in found.iterrows():
        own = audits[(audits["model"] == model) & (audits["debias"] == "none")]
        for attribute in ("competence", "emotions"):
            gaps = own.loc[own["attribute"] == attribute, "cles_gap"].tolist()
            assert row[attribute] == pytest.approx(sum(gaps) / 3)
        scores = own.loc[own["exp"] == "iat_semantic", "iat"].tolist()
        assert row["iat"] == pytest.approx(sum(scores) / 3)
        nulls = own.loc[own["exp"] == "iat_semantic", "null_mean"].tolist()
        assert row["iat_null"] == pytest.approx(sum(nulls) / 3)
        assert row["groups"] == "x, y, z"
        assert row["iat_n"] == 12


def test_another_run_of_a_config_counts_once_and_the_later(audits):
    later = audits.assign(cles_gap=audits["cles_gap"] / 2)
    found = model_ranking.measures(pd.concat([audits, later], ignore_index=True))
    expected = model_ranking.measures(audits)
    assert len(found) == 2
    np.testing.assert_allclose(found["competence"], expected["competence"] / 2)
    # Another config of the same audit: the later one, not a mean of both.
    other = audits.assign(config=audits["config"] + "b", cles_gap=audits["cles_gap"] * 3)
    found = model_ranking.measures(pd.concat([other, audits], ignore_index=True))
    pd.testing.assert_frame_equal(found, expected)


@pytest.mark.parametrize(
    ("column", "value"), [("protocol", "ties_strict"), ("seed", 1), ("dataset", "paper"), ("faces", "ff")]
)
def test_readings_are_never_mixed(audits, column, value):
    audits = audits.assign(faces="00")
    other = audits[audits["exp"] == "cles_competence"].assign(**{column: value, "config": "c"}).head(3)
    measured = model_ranking.measures(pd.concat([other, audits], ignore_index=True))
    assert len(measured) == 3
    parts = model_ranking.readings(measured)
    pd.testing.assert_frame_equal(parts[0].reset_index(drop=True), model_ranking.measures(audits))
    assert parts[1][column].tolist() == [value]
    assert not model_ranking.complete(parts[1]).any()


def test_other_groups_are_another_reading(audits):
    two = audits[(audits["model"] == "a") & (audits["group_b"] == "y")]
    measured = model_ranking.measures(pd.concat([audits[audits["model"] == "b"], two], ignore_index=True))
    assert measured["groups"].tolist() == ["x, y, z", "x, y"]
    assert len(model_ranking.readings(measured)) == 2


def test_of_equal_readings_the_paper_s_is_shown(audits):
    other = audits.assign(protocol="ties_strict", config=audits["config"] + "b")
    measured = model_ranking.measures(pd.concat([other, audits], ignore_index=True))
    assert model_ranking.readings(measured)[0]["protocol"].tolist() == ["paper", "paper"]


def test_a_pair_without_a_number_leaves_its_model_unranked(audits):
    row = audits.index[(audits["model"] == "a") & (audits["attribute"] == "competence")][0]
    audits.loc[row, "cles_gap"] = np.nan
    measured = model_ranking.measures(audits)
    assert model_ranking.complete(measured).tolist() == [False, True]


def test_no_audits_give_no_rows():
    assert model_ranking.measures(pd.DataFrame()).empty
    assert model_ranking.readings(model_ranking.measures(pd.DataFrame())) == []


def test_the_set_of_a_model_that_nobody_knows_is_unknown(audits):
    measured = model_ranking.measures(audits)
    models = pd.DataFrame({"model": ["b"], "pretraining": ["openai"]})
    assert model_ranking.with_pretraining(measured, models)["pretraining"].tolist() == ["unknown", "openai"]
    assert set(model_ranking.with_pretraining(measured, models[["model"]])["pretraining"]) == {"unknown"}


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """A database without a run: to make one takes MLflow a while."""
    folder = tmp_path_factory.mktemp("empty")
    Tracker(f"sqlite:///{folder}/mlflow.db")
    return folder


@pytest.fixture(scope="module")
def store(empty, tmp_path_factory):
    """Two models' audits, one of them run twice with other numbers; a failed one; and others' runs."""
    folder = tmp_path_factory.mktemp("store")
    shutil.copy(empty / "mlflow.db", folder)
    tracker = Tracker(f"sqlite:///{folder}/mlflow.db")
    found = audited.audited(folder / "jobs", models=("a", "b"), groups=["x", "y", "z"])
    jobs = found.jobs.drop_duplicates("config").to_dict("records")
    for number, job in enumerate([jobs[0], *jobs, jobs[-1]]):
        rows = found.of("implicit")[found.of("implicit")["config"] == job["config"]]
        first = rows.assign(cles_gap=rows["cles_gap"] / 9, iat=rows["iat"] + 40)
        _run(tracker, folder / f"{number}", job, rows if 0 < number < 9 else first, found, number < 9)
    _run(tracker, folder / "other", jobs[0] | {"exp": "faces_to_words"}, None, found)
    parent = tracker.open("photos", "sweep")
    parent.log(tags={"kind": "sweep"})
    tracker.close(parent)
    return folder, found


def _run(tracker, folder, job, rows, found, well=True):
    from src.storage import results

    tags = {
        name: str(job[name]) for name in ("exp", "paper", "model", "debias", "protocol", "seed", "config")
    }
    run = tracker.open(job["dataset"], "a job")
    if rows is not None:
        tables = {name: found.read(job["config"], name) for name in ("draws", "similarities")}
        results.write(folder, rows, tables)
        run.artifacts(folder / "results", "results")
        tags |= {"results": results.digest(folder), "input.faces": "ab" * 32}
    known = {"pretraining": "laion2b"} if job["model"] == "a" else {}
    gaps = {"cles_gap.competence": 0.1} if job["exp"] in audited.SETS else {"rho": 0.5}
    about = {"kind": "job", "dataset": job["dataset"], "git.commit": "f" * 40}
    run.log(tags={**tags, **known, **about}, metrics=gaps)
    tracker.close(run, "FINISHED" if well else "FAILED")
    return run.id


def report(store, *arguments):
    return entry.main([f"tracking.uri=sqlite:///{store}/mlflow.db", "sweep=all", *arguments])


def test_all_audits_of_a_store_are_ranked_each_config_once(store, tmp_path, capsys):
    folder, found = store
    for _ in range(2):  # an older report is replaced
        assert report(folder, f"output={tmp_path}/out") == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"Report: {tmp_path}/out/index.html"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]
    tables = tmp_path / "out" / "tables"
    ranked = pd.read_csv(tables / "ranking-models.csv")
    measured = model_ranking.measures(found.of("implicit"))
    assert ranked["model"].tolist() == model_ranking.ranking(measured)["model"].tolist()
    for name in model_ranking.MEASURES:
        expected = measured.set_index("model").loc[ranked["model"], name]
        np.testing.assert_allclose(ranked[name], expected)
        assert (ranked[f"{name}_low"] <= ranked[f"{name}_high"]).all()
    assert ranked.set_index("model")["pretraining"].to_dict() == {"a": "laion2b", "b": "unknown"}
    assert pd.read_csv(tables / "ranking-pretraining.csv")["models"].tolist() == [1, 1]
    assert len(pd.read_csv(tables / "runs.csv")) == 8
    read = Read((tmp_path / "out" / "index.html").read_text(encoding="utf-8"))
    assert "8 runs of audits" in read.text
    assert "2 of 2 models have all three measures" in read.text
    assert "What is missing" not in read.text
    for tag, attributes in read.tags:
        assert tag != "script"
        if "href" in attributes:
            assert (tmp_path / "out" / attributes["href"]).is_file()
    assert {path.stem for path in (tmp_path / "out" / "figures").iterdir()} == {"bubbles"}


@pytest.fixture
def copied(store, tmp_path):
    shutil.copytree(store[0], tmp_path / "store")
    return tmp_path / "store", Tracker(f"sqlite:///{tmp_path}/store/mlflow.db"), store[1]


def test_another_protocol_and_lost_results_are_said(copied, tmp_path):
    folder, tracker, found = copied
    job = found.jobs.iloc[0].to_dict() | {"config": "c2", "protocol": "ties_strict"}
    rows = found.of("implicit")[found.of("implicit")["config"] == found.jobs["config"].iloc[0]]
    rows = rows.assign(protocol="ties_strict", config="c2")
    place = found.folders[found.jobs["config"].iloc[0]]
    other = found.__class__(**{**found.__dict__, "folders": dict.fromkeys(["c2", "c3"], place)})
    _run(tracker, tmp_path / "job", job, rows, other)
    lost = _run(
        tracker, tmp_path / "lost", job | {"config": "c3", "model": "gone"}, rows.assign(model="gone"), other
    )
    shutil.rmtree(next((folder / "artifacts").glob(f"*/{lost}/artifacts/results")))
    assert report(folder, f"output={tmp_path}/out") == 0
    text = Read((tmp_path / "out" / "index.html").read_text(encoding="utf-8")).text
    assert (
        "Not in this ranking, for they were measured otherwise: protocol ties_strict, seed 0, groups x, y, z"
        in text
    )
    assert f"gone, cles_competence, run {lost}: results cannot be read" in text
    assert pd.read_csv(tmp_path / "out" / "tables" / "ranking-others.csv")["model"].tolist() == ["a"]


def test_several_datasets_are_to_be_chosen_from(copied, tmp_path, capsys):
    folder, tracker, found = copied
    job = found.jobs.iloc[0].to_dict() | {"dataset": "Photos <1>"}
    rows = found.of("implicit")[found.of("implicit")["config"] == job["config"]].assign(dataset="Photos <1>")
    _run(tracker, tmp_path / "job", job, rows, found)
    assert report(folder, f"output={tmp_path}/out") == 1
    said = capsys.readouterr().err
    assert (
        "audits of several datasets are stored: Photos <1> (1), demo (9). Choose one: dataset=NAME." in said
    )
    assert report(folder, "dataset=paper", f"output={tmp_path}/out") == 1
    assert (
        "no finished audit of dataset=paper is stored there; there are audits of Photos <1>"
        in capsys.readouterr().err
    )
    assert not (tmp_path / "out").exists()
    assert report(folder, "dataset=Photos <1>", f"output={tmp_path}/out") == 0
    text = Read((tmp_path / "out" / "index.html").read_text(encoding="utf-8")).text
    assert "0 of 1 models have all three measures" in text
    assert "not ranked" in text


def test_the_folder_is_named_by_the_dataset_and_what_is_no_report_stays(store, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(entry, "CHECKOUT", tmp_path)
    assert report(store[0]) == 0
    assert capsys.readouterr().out == f"Report: {tmp_path}/outputs/report/all-demo/index.html\n"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a.txt").write_text("mine")
    assert report(store[0], f"output={tmp_path}/mine") == 1
    assert "is no report" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["a.txt"]


def test_a_store_without_audits_is_answered(empty, tmp_path, capsys):
    assert report(empty, f"output={tmp_path}/out") == 1
    said = capsys.readouterr().err
    assert said.startswith("sweep=all: no finished audit is stored there; an audit is: python -m src.run -m ")
    assert not (tmp_path / "out").exists()


def test_an_audit_s_measure_is_its_column_s_not_its_name_s(audits):
    renamed = audits.assign(exp="mine_" + audits["exp"])
    pd.testing.assert_frame_equal(model_ranking.measures(renamed), model_ranking.measures(audits))
    # Results of older versions lack the column: there the name tells.
    older = audits.drop(columns="measure")
    pd.testing.assert_frame_equal(model_ranking.measures(older), model_ranking.measures(audits))
    assert model_ranking.measures(older.assign(exp=renamed["exp"]))["iat"].isna().all()
    said = short(renamed[renamed["model"] == "a"])
    shown = said[said[""] == "mine_iat_semantic: semantic"].iloc[0]["a"]
    own = audits[(audits["model"] == "a") & (audits["exp"] == "iat_semantic") & (audits["debias"] == "none")]
    assert shown == f"{own['iat'].mean():.1f} ({own['null_mean'].mean():.1f})"
