"""Findings are the same from a running sweep and from the store; what is missing is said."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from mlflow import MlflowClient
from scipy.stats import rankdata

from src.jobs import encoder_job
from src.report import __main__ as entry
from src.report import load
from src.report.findings import TABLES
from src.storage import results
from src.studies.propagation.combined import WORTH, combine
from src.tracking import Tracker, sweeps
from tests.commands import command, killed
from tests.conftest import places, precomputed
from tests.paths import CHECKOUT
from tests.report.drawn import stand_in

SMALL = ["protocol.k=11", "protocol.extremes=6", "protocol.set_size=15"]
# A permutation or two says whether files and columns come through.
SMALL += [
    "protocol.placebo=9",
    "protocol.bootstrap=9",
    "protocol.attribute_draws=2",
    "protocol.property_draws=2",
]
FOUR = "exp=faces_to_words,words_to_faces,scenes_to_words,labels_to_faces"
TWO = "exp=faces_to_words,words_to_faces"
EXPERIMENTS = {path.stem for path in (CHECKOUT / "conf" / "exp").glob("*_to_*.yaml")}


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """A database without a run: to make one takes MLflow a while."""
    database = tmp_path_factory.mktemp("empty") / "mlflow.db"
    Tracker(f"sqlite:///{database}")
    return database


@pytest.fixture(autouse=True)
def _store(empty, tmp_path):
    (tmp_path / "mlruns").mkdir()
    shutil.copy(empty, tmp_path / "mlruns" / "mlflow.db")


@pytest.fixture
def page(monkeypatch):
    return stand_in(monkeypatch)


def sweep(folder, name, *overrides):
    arguments = ["-m", "model=precomputed", f"model.path={precomputed(folder / 'lab')}", *SMALL]
    return command(folder / name, *arguments, *places(folder), *overrides)


def report(folder, *arguments):
    return entry.main([f"tracking.uri=sqlite:///{folder}/mlruns/mlflow.db", *arguments])


@pytest.fixture
def tracker(tmp_path):
    return Tracker(f"sqlite:///{tmp_path}/mlruns/mlflow.db")


def test_the_store_gives_what_the_running_sweep_gave(page, tmp_path, tracker, capsys):
    """Two sweeps, the second takes over half of the first's jobs."""
    assert sweep(tmp_path, "first", TWO).code == 0
    swept = sweep(tmp_path, "second", FOUR, "report=true")
    assert swept.code == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[-1] == f"Report: {tmp_path}/second/report/index.html"
    (running,) = page.seen
    newest = sweeps(tracker)[0]
    kept = tmp_path / "kept"
    kept.mkdir()
    stored = load.stored(tracker, newest, kept)
    both = (found.of("propagation") for found in (stored, running))
    pd.testing.assert_frame_equal(*both, check_exact=True)
    pd.testing.assert_frame_equal(stored.jobs, running.jobs)
    assert stored.jobs["status"].value_counts().to_dict() == {"finished": 2, "taken_over": 2}
    assert stored.missing == running.missing == []
    assert (stored.sweep, stored.status, stored.dataset) == (newest.id, "FINISHED", "precomputed")
    assert list(stored.folders) == list(running.folders)
    for config, folder in stored.folders.items():
        assert folder.is_relative_to(kept)
        there = running.folders[config]
        assert sorted(path.name for path in folder.iterdir()) == sorted(path.name for path in there.iterdir())
        for path in folder.iterdir():
            assert path.read_bytes() == (there / path.name).read_bytes()
    pd.testing.assert_frame_equal(stored.models, running.models)
    assert stored.provenance == running.provenance
    assert {"git.commit", "command", "version.torch", "input.faces", "input.words.vectors"} <= set(
        stored.provenance
    )
    assert stored.provenance["command"].startswith("python -m src.run -m model=precomputed")
    # What the parent keeps are the same numbers.
    summary = tmp_path / "mlruns/artifacts/precomputed" / newest.id / "artifacts/summary"
    pd.testing.assert_frame_equal(results.read_csv(summary / "analyses.csv"), stored.of("propagation"))
    report = summary.parent / "report"
    assert (report / "index.html").read_text() == f"<h1>{newest.id}</h1>"
    assert json.loads((report / "report.json").read_text())["files"] == ["figures/one.svg", "index.html"]


def test_q_is_benjamini_and_hochberg_s():
    rng = np.random.default_rng(0)
    p = rng.uniform(0, 0.2, 30)
    p[[3, 7]] = np.nan
    frames = [
        pd.DataFrame({"exp": [f"e{i}"], "rho": [0.5], "p_placebo": [value]}) for i, value in enumerate(p)
    ]
    found = combine(frames)
    known = p[~np.isnan(p)]
    order = np.argsort(known)
    scaled = known[order] * len(known) / np.arange(1, len(known) + 1)
    expected = np.empty(len(known))
    expected[order] = np.minimum.accumulate(scaled[::-1])[::-1]
    assert found["q"][~np.isnan(p)].to_numpy() == pytest.approx(expected)
    assert found["q"][[3, 7]].isna().all()
    assert rankdata(found["q"].dropna()).max() > 5
    # The same job asked for twice is one.
    assert len(combine([*frames, frames[0]])) == 30


def test_results_of_before_are_read_with_empty_columns_and_tables(tmp_path):
    frame = pd.DataFrame({"exp": ["faces_to_words"], "model": ["m"], "rho": [0.5]})
    found = combine([frame])
    assert found[[*WORTH, "q"]].isna().all(axis=None)
    assert str(found["placebo_n"].dtype) == "Int64"
    columns = ["id", "group", "stratum", "intrinsic", "extrinsic"]
    pd.DataFrame([["a", None, "g", 0.0, 1.0]], columns=columns).to_parquet(tmp_path / "targets.parquet")
    from src.report.findings import Findings

    nothing = pd.DataFrame()
    findings = Findings(
        "d", "s", "FINISHED", "", {"propagation": frame}, {"c": tmp_path}, nothing, [], nothing, {}
    )
    assert findings.read("c", "targets")["valence"].isna().all()
    assert findings.read("c", "draws").empty
    assert tuple(findings.read("c", "retrieved")) == TABLES["retrieved"]


@pytest.mark.thorough
def test_a_run_whose_results_are_gone_or_changed_is_said(page, tmp_path, tracker):
    sweep(tmp_path, "first", FOUR)
    newest = sweeps(tracker)[0]
    jobs = tmp_path / "mlruns/artifacts/precomputed"
    runs = pd.read_csv(jobs / newest.id / "artifacts/summary/jobs.csv")["run"]
    shutil.rmtree(jobs / runs[0] / "artifacts/results")
    path = jobs / runs[1] / "artifacts/results/analyses.csv"
    path.write_text(path.read_text().replace("0.", "0.9"))
    tracker.client.delete_run(runs[2])
    assert report(tmp_path, f"output={tmp_path}/out") == 0
    (found,) = page.seen
    assert found.jobs["status"].tolist() == ["missing", "missing", "missing", "finished"]
    for run, reason in zip(runs[:3], found.jobs["reason"], strict=False):
        assert f"results of run {run} cannot be read" in reason
    assert found.of("propagation")["exp"].unique() == ["labels_to_faces"]
    assert len(found.folders) == 1


def test_a_partly_failed_sweep_has_a_report_and_its_exit_code(page, tmp_path, capsys):
    swept = sweep(tmp_path, "o", TWO, "protocol.k=11,50", "report=true")
    assert swept.code == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("Report: ")
    (found,) = page.seen
    assert found.status == "FAILED"
    assert found.jobs["status"].value_counts().to_dict() == {"finished": 3, "failed": 1}
    assert found.jobs["reason"].str.contains("protocol.k=50").sum() == 1
    assert found.missing == []


@pytest.mark.thorough
def test_what_was_asked_for_is_known_before_any_job(tmp_path, tracker):
    """range, several values, and params of the sweeper beside a glob; one job cannot be named."""
    swept = sweep(tmp_path, "o", TWO, "protocol.ddof=0,1", "+hydra.sweeper={params: {seed: 'range(0,2)'}}")
    assert swept.code == 0
    (newest,) = sweeps(tracker)
    place = tmp_path / "mlruns/artifacts/precomputed" / newest.id / "artifacts/summary"
    asked = json.loads((place / "asked.json").read_text())
    assert len(asked) == len(set(asked)) == 8
    assert pd.read_csv(place / "jobs.csv")["overrides"].tolist() == asked


def test_a_sweep_of_two_datasets_has_a_report_of_each(monkeypatch, tmp_path, capsys):
    from src.sweeps import job_status
    from src.sweeps.sweep import Sweep

    def drawn(part, parent, folder):
        return folder / "index.html"

    monkeypatch.setattr(job_status, "report", drawn)
    part = job_status.Part(None, "a parent", report=True, folders={"a job": tmp_path})
    assert Sweep(None, "", tmp_path, parts={"demo": part, "photos": part})._report()
    assert capsys.readouterr().out.splitlines() == [
        f"Report: {tmp_path}/report/{name}/index.html" for name in ("demo", "photos")
    ]


def test_a_fault_of_the_drawing_loses_no_table(page, tmp_path, tracker, capsys):
    page.fails = ZeroDivisionError("a fault")
    swept = sweep(tmp_path, "o", TWO, "report=true")
    assert swept.code == 1
    (newest,) = sweeps(tracker)
    assert newest.status == "FINISHED"
    assert newest.metrics["jobs"] == 2
    shown = capsys.readouterr().out
    assert "a fault" in shown
    assert f"To draw it: python -m src.report sweep={newest.id}" in shown
    assert sorted(path.name for path in (tmp_path / "o").iterdir()) == ["0", "1", "multirun.yaml"]


def test_ctrl_c_ends_with_a_report_of_what_is_finished(page, tmp_path, monkeypatch, capsys):
    perform, done = encoder_job.perform, []

    def interrupted(*given):
        if done:
            raise KeyboardInterrupt
        done.append(given)
        return perform(*given)

    monkeypatch.setattr(encoder_job, "perform", interrupted)
    assert sweep(tmp_path, "o", FOUR, "report=true").code == 130
    assert capsys.readouterr().out.splitlines()[-1].startswith("Report: ")
    (found,) = page.seen
    assert found.status == "KILLED"
    assert found.jobs["status"].tolist() == ["finished"]
    assert len(found.missing) == 3
    assert found.missing[0].split()[-1] == "exp=words_to_faces"


@pytest.mark.thorough
def test_a_killed_sweep_tells_what_it_lacks(page, tmp_path, tracker):
    """kill -9 in the middle of precomputed jobs, of which two were finished earlier."""
    sweep(tmp_path, "first", "exp=faces_to_labels,faces_to_words")
    arguments = ["-m", "model=precomputed", f"model.path={tmp_path}/lab", "exp=glob(*_to_*)", *SMALL]
    killed(3, *arguments, *places(tmp_path), f"hydra.sweep.dir={tmp_path}/o")
    assert report(tmp_path, "sweep=latest", f"output={tmp_path}/out") == 0
    (found,) = page.seen
    assert found.status == "KILLED"
    ended = found.jobs["status"].value_counts().to_dict()
    assert ended["taken_over"] == 2
    assert ended["finished"] == 3
    assert len(found.missing) == 8 - len(found.jobs)
    exps = [part for text in found.missing for part in text.split() if part.startswith("exp=")]
    assert {part.removeprefix("exp=") for part in exps} == EXPERIMENTS - set(found.jobs["exp"])
    assert len(found.folders) == len(found.jobs)
    # Without the list that is kept while a sweep runs, its own finished runs still tell.
    client = MlflowClient(f"sqlite:///{tmp_path}/mlruns/mlflow.db")
    place = tmp_path / "mlruns/artifacts/precomputed" / found.sweep / "artifacts/summary"
    (place / "jobs.csv").unlink()
    assert report(tmp_path, f"sweep={found.sweep[:8]}", f"output={tmp_path}/out") == 0
    own = page.seen[1]
    assert own.jobs["status"].tolist() == ["finished"] * ended["finished"]
    assert set(own.jobs["run"]) < set(found.jobs["run"])
    assert set(own.jobs["overrides"]) < set(found.jobs["overrides"])
    (place / "asked.json").unlink()
    assert report(tmp_path, f"output={tmp_path}/out") == 0
    assert page.seen[2].missing == []
    assert page.seen[2].provenance["asked"] == "unknown"
    assert client.get_run(found.sweep).info.status == "KILLED"
