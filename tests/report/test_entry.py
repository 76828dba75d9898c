"""Check python -m src.report: choice of sweeps, output folder, and findings of stored and running sweeps.

The fixture `page` replaces the writer of pages by one that records the findings.
"""

import json
import shutil

import pandas as pd
import pytest

from src.jobs import encoder_job
from src.report import __main__ as entry
from src.report import load, publish
from src.report.findings import LATER_COLUMNS
from src.storage import results
from src.studies.propagation.combined import UNCERTAINTY, combine
from src.tracking import StoredRun, Tracker, find_sweeps
from tests.commands import SMALL, command, killed
from tests.conftest import precomputed, store_overrides
from tests.paths import CHECKOUT
from tests.report import factory
from tests.tracking.concurrent_sweeps import contents


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Return the folder of 17 sweeps of two datasets and their ids, oldest first; only the last has a job.

    Ids are hexadecimal: at least two of the 17 start with the same digit.
    """
    folder = tmp_path_factory.mktemp("store")
    tracker = Tracker(f"sqlite:///{folder}/mlflow.db")
    ids = []
    for number in range(17):
        parent = tracker.start_run("photos" if number % 2 else "demo", "sweep")
        parent.log(tags={"kind": "sweep"}, metrics={"jobs": number})
        if number == 16:
            row = {
                **dict.fromkeys(results.TEXT_COLUMNS, "x"),
                "study": "propagation",
                "rho": 0.5,
                "reason": "",
            }
            results.write(folder / "job", pd.DataFrame([row]), {})
            run = tracker.start_run("demo", "a job", parent)
            run.log(tags={"kind": "job", "config": "x", "results": results.compute_digest(folder / "job")})
            run.log_artifacts(folder / "job" / "results", "results")
            run.end()
        parent.end()
        ids.append(parent.id)
    return folder, ids


def report(folder, *arguments):
    return entry.main([f"tracking.uri=sqlite:///{folder}/mlflow.db", *arguments])


def test_a_sweep_is_chosen_by_id_by_dataset_or_as_the_latest(store, page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    newest = store[1][-1]
    for arguments in ([], ["dataset=demo"], [f"sweep={newest[:12]}"], [f"sweep={newest[:12]},{newest}"]):
        assert report(store[0], *arguments, "output=here/out") == 0
        assert capsys.readouterr().out == f"Report: {tmp_path}/here/out/index.html\n"
    assert [findings.sweep for findings in page.findings] == [newest] * 4


def test_an_unknown_or_ambiguous_id_is_refused_with_a_list_of_sweeps(store, page, tmp_path, capsys):
    assert report(store[0], "sweep=nonsense", f"output={tmp_path}/out") == 1
    printed = capsys.readouterr().err
    assert "sweep=nonsense: no sweep has this id" in printed
    lines = [line.split() for line in printed.splitlines() if line.startswith("  ")]
    assert [line[0] for line in lines[:10]] == store[1][:6:-1]
    assert [lines[0][1], *lines[0][3:]] == ["demo", "16", "jobs", "FINISHED"]
    assert lines[10] == ["and", "7", "older", "sweeps"]
    assert report(store[0], "sweep=nonsense", "dataset=photos", f"output={tmp_path}/out") == 1
    printed = capsys.readouterr().err
    assert [sweep for sweep in store[1] if sweep in printed] == store[1][1::2]
    digits = [sweep[0] for sweep in store[1]]
    repeated = next(digit for digit in digits if digits.count(digit) > 1)
    assert report(store[0], f"sweep={repeated}", f"output={tmp_path}/out") == 1
    assert f"{digits.count(repeated)} sweeps have ids that start with this" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sweeep=latest"], "Did you mean sweep=?"),
        (["latest"], "Use one of sweep=, dataset=, tracking.uri=, output= (see --help)."),
        (["sweep="], "sweep=: empty"),
        (["sweep=a", "sweep=b"], "sweep=b: given twice"),
        (["dataset=paper"], "no sweep of dataset=paper is stored. Datasets with sweeps: demo, photos."),
        (["sweep={0}"], "no job has results"),
        (["sweep={2},{1}"], "expected sweeps of one dataset, got sweeps of demo and photos"),
        (["sweep={2},{0}"], "sweep {0} (demo, "),
    ],
)
def test_invalid_arguments_are_refused(store, page, tmp_path, capsys, arguments, message):
    ids = store[1][0], store[1][1], store[1][-1]
    assert report(store[0], f"output={tmp_path}/out", *(text.format(*ids) for text in arguments)) == 1
    printed = capsys.readouterr().err
    assert message.format(*ids) in printed
    assert len(printed.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_report_is_replaced_completely(page, tmp_path):
    for sweep in ("first", "second"):
        index = publish.publish(factory.build(sweep=sweep), tmp_path / "out")
        assert index.read_text() == f"<h1>{sweep}</h1>"
    page.error = ZeroDivisionError("a fault")
    with pytest.raises(ZeroDivisionError):
        publish.publish(factory.build(sweep="third"), tmp_path / "out")
    assert (tmp_path / "out" / "index.html").read_text() == "<h1>second</h1>"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("foreign", ["a folder", "a file", "a page", "a file added"])
def test_a_folder_that_is_no_report_is_never_replaced(store, page, tmp_path, capsys, foreign):
    out = tmp_path / "out"
    user_file = out / "mine.txt"
    if foreign == "a file added":
        publish.publish(factory.build(), out)
    elif foreign == "a file":
        user_file = out
    user_file.parent.mkdir(exist_ok=True)
    user_file.write_text("mine")
    if foreign == "a page":
        (out / "index.html").write_text("mine too")
    assert report(store[0], f"output={out}") == 1
    printed = capsys.readouterr().err
    assert "Choose another folder: output=DIR." in printed
    assert ("mine.txt" in printed) == (foreign == "a file added")
    assert user_file.read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_folder_that_cannot_be_read_is_refused(store, page, tmp_path, capsys):
    assert report(store[0], f"output={tmp_path}/{'x' * 300}") == 1
    printed = capsys.readouterr().err
    assert printed.endswith(
        "x cannot be read (File name too long). Nothing was written. Choose another folder: output=DIR.\n"
    )


# Findings of a running sweep equal those of the store; missing results are reported.

FOUR_EXPERIMENTS = "exp=faces_to_words,words_to_faces,scenes_to_words,labels_to_faces"
TWO_EXPERIMENTS = "exp=faces_to_words,words_to_faces"
EXPERIMENTS = {path.stem for path in (CHECKOUT / "conf" / "exp").glob("*_to_*.yaml")}


def run_sweep(folder, name, *overrides):
    arguments = ["-m", "model=precomputed", f"model.path={precomputed(folder / 'lab')}", *SMALL]
    return command(folder / name, *arguments, *store_overrides(folder), *overrides)


@pytest.fixture
def tracker(tmp_path):
    return Tracker(f"sqlite:///{tmp_path}/mlruns/mlflow.db")


def test_stored_findings_equal_those_of_the_running_sweep(page, tmp_path, tracker, capsys):
    """Run two sweeps; half of the jobs of the second are reused from the first."""
    assert run_sweep(tmp_path, "first", TWO_EXPERIMENTS).code == 0
    swept = run_sweep(tmp_path, "second", FOUR_EXPERIMENTS, "report=true")
    assert swept.code == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"Report: {tmp_path}/second/report/index.html"
    (running,) = page.findings
    newest = find_sweeps(tracker)[0]
    (saved := tmp_path / "saved").mkdir()
    stored = load.load_stored(tracker, newest, saved)
    analyses = (result.of("propagation") for result in (stored, running))
    pd.testing.assert_frame_equal(*analyses, check_exact=True)
    pd.testing.assert_frame_equal(stored.jobs, running.jobs)
    assert stored.jobs["status"].value_counts().to_dict() == {"finished": 2, "taken_over": 2}
    assert stored.missing == running.missing == []
    assert (stored.sweep, stored.status, stored.dataset) == (newest.id, "FINISHED", "precomputed")
    assert list(stored.folders) == list(running.folders)
    for config, folder in stored.folders.items():
        assert folder.is_relative_to(saved)
        assert contents(folder) == contents(running.folders[config])
    pd.testing.assert_frame_equal(stored.models, running.models)
    assert stored.provenance == running.provenance
    assert {"git.commit", "version.torch", "input.faces", "input.words.vectors"} <= set(stored.provenance)
    assert stored.provenance["command"].startswith("python -m src.run -m model=precomputed")
    summary = tmp_path / "mlruns/artifacts/precomputed" / newest.id / "artifacts/summary"
    pd.testing.assert_frame_equal(results.read_csv(summary / "analyses.csv"), stored.of("propagation"))
    report = summary.parent / "report"
    assert (report / "index.html").read_text() == f"<h1>{newest.id}</h1>"
    assert json.loads((report / "report.json").read_text())["files"] == ["figures/one.svg", "index.html"]


def test_results_of_older_versions_are_read_with_empty_columns_and_tables(tmp_path):
    frame = pd.DataFrame({"exp": ["faces_to_words"], "model": ["m"], "rho": [0.5]})
    result = combine([frame, frame])
    assert len(result) == 1
    assert result[[*UNCERTAINTY, "q"]].isna().all(axis=None)
    assert str(result["placebo_n"].dtype) == "Int64"
    pd.DataFrame({"id": ["a"], "intrinsic": [0.0]}).to_parquet(tmp_path / "targets.parquet")
    findings = factory.build(propagation=frame, folders={"c": tmp_path})
    assert findings.read("c", "targets")["valence"].isna().all()
    assert findings.read("c", "draws").empty
    assert tuple(findings.read("c", "retrieved")) == LATER_COLUMNS["retrieved"]


@pytest.mark.thorough
def test_a_run_with_missing_or_changed_results_is_reported(page, tmp_path, tracker):
    run_sweep(tmp_path, "first", FOUR_EXPERIMENTS)
    newest = find_sweeps(tracker)[0]
    jobs = tmp_path / "mlruns/artifacts/precomputed"
    runs = pd.read_csv(jobs / newest.id / "artifacts/summary/jobs.csv")["run"]
    shutil.rmtree(jobs / runs[0] / "artifacts/results")
    path = jobs / runs[1] / "artifacts/results/analyses.csv"
    path.write_text(path.read_text().replace("0.", "0.9"))
    tracker.client.delete_run(runs[2])
    assert report(tmp_path / "mlruns", f"output={tmp_path}/out") == 0
    (result,) = page.findings
    assert result.jobs["status"].tolist() == ["missing", "missing", "missing", "finished"]
    for run, reason in zip(runs[:3], result.jobs["reason"], strict=False):
        assert f"results of run {run} cannot be read" in reason
    assert result.of("propagation")["exp"].unique() == ["labels_to_faces"]
    assert len(result.folders) == 1


def test_an_error_while_drawing_loses_no_results(page, tmp_path, tracker, capsys):
    page.error = ZeroDivisionError("a fault")
    swept = run_sweep(tmp_path, "o", TWO_EXPERIMENTS, "report=true")
    assert swept.code == 1
    (newest,) = find_sweeps(tracker)
    assert newest.status == "FINISHED"
    assert newest.metrics["jobs"] == 2
    displayed = capsys.readouterr().out
    assert "a fault" in displayed
    assert f"To draw it: python -m src.report sweep={newest.id}" in displayed
    assert sorted(path.name for path in (tmp_path / "o").iterdir()) == ["0", "1", "multirun.yaml"]


def test_ctrl_c_ends_with_a_report_of_the_finished_jobs(page, tmp_path, monkeypatch, capsys):
    perform, calls = encoder_job.perform, []

    def interrupt_second(*arguments):
        if calls:
            raise KeyboardInterrupt
        calls.append(arguments)
        return perform(*arguments)

    monkeypatch.setattr(encoder_job, "perform", interrupt_second)
    assert run_sweep(tmp_path, "o", FOUR_EXPERIMENTS, "report=true").code == 130
    assert capsys.readouterr().out.splitlines()[-1].startswith("Report: ")
    (result,) = page.findings
    assert result.status == "KILLED"
    assert result.jobs["status"].tolist() == ["finished"]
    assert len(result.missing) == 3
    assert result.missing[0].split()[-1] == "exp=words_to_faces"


@pytest.mark.thorough
def test_the_report_of_a_killed_sweep_lists_missing_jobs(page, tmp_path, tracker):
    """Reuse two of eight jobs and compute three; the process then kills itself (SIGKILL) in the next."""
    run_sweep(tmp_path, "first", "exp=faces_to_labels,faces_to_words")
    arguments = ["-m", "model=precomputed", f"model.path={tmp_path}/lab", *SMALL]
    killed(3, *arguments, "exp=glob(*_to_*)", *store_overrides(tmp_path), f"hydra.sweep.dir={tmp_path}/o")
    assert report(tmp_path / "mlruns", "sweep=latest", f"output={tmp_path}/out") == 0
    (result,) = page.findings
    assert result.status == "KILLED"
    ended = result.jobs["status"].value_counts().to_dict()
    assert ended["taken_over"] == 2
    assert ended["finished"] == 3
    assert len(result.missing) == 8 - len(result.jobs)
    exps = [value for text in result.missing for value in text.split() if value.startswith("exp=")]
    assert {value.removeprefix("exp=") for value in exps} == EXPERIMENTS - set(result.jobs["exp"])
    assert len(result.folders) == len(result.jobs)
    # Without jobs.csv, the finished runs of the sweep itself are listed.
    summary = tmp_path / "mlruns/artifacts/precomputed" / result.sweep / "artifacts/summary"
    (summary / "jobs.csv").unlink()
    assert report(tmp_path / "mlruns", f"sweep={result.sweep[:8]}", f"output={tmp_path}/out") == 0
    second = page.findings[1]
    assert second.jobs["status"].tolist() == ["finished"] * ended["finished"]
    assert set(second.jobs["overrides"]) < set(result.jobs["overrides"])
    (summary / "asked.json").unlink()
    assert report(tmp_path / "mlruns", f"output={tmp_path}/out") == 0
    assert (page.findings[2].missing, page.findings[2].provenance["requested jobs"]) == ([], "unknown")


@pytest.mark.parametrize("order", [1, -1])
def test_a_model_has_the_status_of_its_default_instruction(order):
    # `model.prompt=` removes the model's default instruction; it is in the name of the protocol.
    tags = [
        {"model": "m", "protocol": "paper", "verified": "verified"},
        {"model": "m", "protocol": "paper+prompt=", "verified": "not verified"},
    ]
    runs = {str(i): StoredRun(str(i), "demo", "FINISHED", "", tag, {}) for i, tag in enumerate(tags[::order])}
    assert load.collect_model_facts(runs, ["m"])["verified"].tolist() == ["verified"]


def test_without_a_recorded_family_the_seeds_of_a_model_are_a_family():
    """Read three models, of which only the last has a run that recorded its family."""
    tags = {"model": "clip_b32", "family": "ViT-B-32, openai", "pretraining": "openai", "filter": "metadata"}
    run = StoredRun("r", "demo", "FINISHED", "", tags, {"model.zero_shot": 0.6, "model.pairs_seen": 1.28e10})
    models = load.collect_model_facts({"r": run}, ["toy_m+seed=1", "toy_m+seed=2", "clip_b32"])
    assert models["family"].tolist() == ["toy_m", "toy_m", "ViT-B-32, openai"]
    assert models["pretraining"].tolist() == ["unknown", "unknown", "openai"]
    assert models["filter"].tolist() == ["unknown", "unknown", "metadata"]
    assert models["pairs_seen"].fillna(0).tolist() == [0, 0, 1.28e10]
