"""Jobs that other processes make: what goes together, what they are given, how each way of failing ends."""

import os
import signal
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import pytest

from src.jobs import encoder_job
from src.storage import results
from src.sweeps import job_batch, job_status
from src.sweeps.job_status import SweepJob
from src.sweeps.result_collector import ResultCollector
from src.tracking import Tracker
from tests.conftest import places
from tests.launched import SMALL, Labs, kept, left, store

JOBLIB = ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"]


@dataclass
class Job:
    label: str
    output: Path = Path()
    dataset: str = "lab"
    columns: dict[str, str] = field(default_factory=dict)

    @property
    def config_hash(self) -> str:
        return self.label


def sent(*overrides):
    return [SweepJob(number, text.split(), text, Job(text)) for number, text in enumerate(overrides)]


def test_jobs_of_one_model_go_together_in_their_order():
    groups = job_batch.grouped(
        sent("model=a exp=x", "model=b exp=x", "model=a exp=y", "model=b model.path=p exp=x", "model=b exp=y")
    )
    assert [[one.number for one in group] for group in groups] == [[0, 2], [1, 4], [3]]


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        ("llm=tiny task=poem", ("llm=tiny",)),
        ("model@model=a exp=model", ("model@model=a",)),
        ("+model.x=1 ~model.y modelling=2 seed=1", ("+model.x=1", "~model.y")),
        ("seed=1", ()),
    ],
)
def test_what_chooses_a_model_is_told_from_what_does_not(overrides, told):
    assert job_batch.model_overrides(overrides.split()) == told


def test_a_later_sweep_into_the_same_folder_finds_no_old_answers(tmp_path):
    assert [job_batch.new_folder(tmp_path).name for _ in range(3)] == ["batches", "batches-2", "batches-3"]


@pytest.fixture
def swept(tmp_path):
    return Labs(tmp_path)


def test_two_processes_leave_the_bytes_that_one_leaves(swept, tmp_path):
    (swept.folders[1] / "labels.parquet").unlink()
    alone, shared = swept("alone"), swept("shared", *JOBLIB)
    assert (alone.code, shared.code) == (0, 0)
    assert left(shared.output) == left(alone.output)
    assert len(left(alone.output)) == 5 * 3
    tables = []
    for name in ("alone", "shared"):
        (parent,), jobs = store(tmp_path / name)
        assert parent.info.status == "FINISHED"
        assert [run.info.status for run in jobs] == ["FINISHED"] * 3
        assert {run.data.tags["mlflow.parentRunId"] for run in jobs} == {parent.info.run_id}
        files = ("analyses.csv", "summary.csv")
        tables.append([kept(tmp_path / name, parent, file).read_bytes() for file in files])
        tables[-1].append(
            pd.read_csv(kept(tmp_path / name, parent, "jobs.csv")).drop(columns=["run", "overrides"]).to_csv()
        )
    assert tables[0] == tables[1]
    again = swept("shared", *JOBLIB)
    assert again.code == 0
    parents, jobs = store(tmp_path / "shared")
    assert len(jobs) == 3
    table = pd.read_csv(kept(tmp_path / "shared", parents[1], "jobs.csv"))
    assert table["status"].value_counts().to_dict() == {"taken_over": 3, "not_applicable": 1}


def test_a_plan_sends_nothing_and_needs_no_cluster(swept, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert swept("o", "plan=true", "hydra/launcher=slurm").code == 0
    assert "scenes_to_words" in capsys.readouterr().out
    assert not (tmp_path / "o" / job_batch.FOLDER).exists()
    assert not (tmp_path / "o" / "mlruns").exists()


def test_a_machine_without_slurm_is_told_what_to_do(cli, tmp_path, swept, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    done = cli(
        "-m", "model=precomputed", f"model.path={swept.folders[0]}", "exp=faces_to_words", *SMALL,
        *places(tmp_path), f"hydra.sweep.dir={tmp_path}/o", "hydra/launcher=slurm",
    )  # fmt: skip
    assert done.returncode == 1
    assert "sbatch, srun, squeue, scancel cannot be found here" in done.stderr
    assert "hydra/launcher=joblib" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "mlruns").exists()


@pytest.mark.parametrize("error", [ValueError("could not determine the shape"), None])
def test_an_interrupt_that_a_library_swallows_is_heeded(swept, tmp_path, capsys, monkeypatch, error):
    """What C calls back into Python loses what a signal raises there."""
    made, whole = [], encoder_job.perform

    def perform(*given):
        made.append(given)
        with suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        if error:
            raise error
        return whole(*given)

    monkeypatch.setattr(encoder_job, "perform", perform)
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    assert swept("o").code == 143
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
    assert "Interrupted" in capsys.readouterr().err
    (parent,), jobs = store(tmp_path / "o")
    assert len(made) == len(jobs) == 1
    assert [parent.info.status, jobs[0].info.status] == ["KILLED", "KILLED" if error else "FINISHED"]


@pytest.mark.parametrize("stopped", [False, True])
def test_a_process_that_goes_before_it_answers_loses_no_run_that_finished(tmp_path, stopped):
    tracker = Tracker(f"sqlite:///{tmp_path}/mlflow.db")
    parent = tracker.open("lab", "sweep")
    jobs = [Job(f"n{number}", tmp_path / str(number)) for number in range(4)]
    part = job_status.Part(tracker, parent)
    posted = [SweepJob(number, [f"n={number}"], f"n={number}", job) for number, job in enumerate(jobs)]
    waiting = ResultCollector(tmp_path, posted, {"lab": part})
    # The first was killed and put back, the third is killed, the last was never begun.
    tracker.close(tracker.open("lab", "n0", parent), "KILLED")
    finished = [tracker.open("lab", name, parent) for name in ("n0", "n1")]
    for number, run in enumerate(finished):
        results.write(tmp_path / str(number), pd.DataFrame({"rho": [0.5]}), {})
        tracker.close(run)
    running = tracker.open("lab", "n2", parent)
    if stopped:
        waiting.stop("it was stopped")
    else:
        waiting.lose(range(4), "it is gone")
    outcomes = [part.outcomes[number] for number in sorted(part.outcomes)]
    found = [(one.overrides, one.status, one.run, one.reason) for one in outcomes]
    lost = [("n=2", "failed", running.id, "it is gone"), ("n=3", "failed", "", "it is gone")]
    ended = [(f"n={number}", "finished", run.id, "") for number, run in enumerate(finished)]
    assert found == ended + ([] if stopped else lost)
    assert tracker.client.get_run(running.id).info.status == "KILLED"
    assert len(part.analyses) == 2


def answered(sweep, *numbers):
    return all((sweep.output / job_batch.FOLDER / f"job-{number}.json").exists() for number in numbers)


@pytest.mark.thorough
def test_a_process_that_is_killed_takes_no_other_with_it(swept, tmp_path):
    with swept.slowly("o", *JOBLIB) as sweep:
        sweep.until(lambda: answered(sweep, 3))
        (second,) = [child for child in sweep.children() if any("1.json" in text for text in child.cmdline())]
        second.kill()
        code, said = sweep.end()
    assert code == 1, said
    (parent,), jobs = store(tmp_path)
    assert parent.info.status == "FAILED"
    table = pd.read_csv(kept(tmp_path, parent, "jobs.csv"))
    assert table["status"].tolist()[:4] == ["finished"] * 4
    lost = table[table["status"] == "failed"]
    assert 1 <= len(lost) == 6 - (table["status"] == "finished").sum()
    assert lost["reason"].str.startswith("its process ended with status -9: ").all()
    assert lost["reason"].str.endswith("1.log)").all()
    killed = {run.info.run_id: run.data.tags["ended"] for run in jobs if run.info.status == "KILLED"}
    assert set(killed) == {*lost["run"].dropna()}
    assert all("ended with status -9" in why for why in killed.values())
    with swept.slowly("again", *JOBLIB) as sweep:
        code, said = sweep.end()
    assert code == 0, said
    parents, jobs = store(tmp_path)
    counts = pd.read_csv(kept(tmp_path, parents[1], "jobs.csv"))["status"].value_counts().to_dict()
    assert counts == {"taken_over": 6 - len(lost), "finished": len(lost)}
    assert sum(run.info.status == "FINISHED" for run in jobs) == 6


@pytest.mark.thorough
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_sweep_leaves_no_process_and_no_run(swept, tmp_path, number, code):
    with swept.slowly("o", *JOBLIB) as sweep:
        sweep.until(lambda: answered(sweep, 0) or answered(sweep, 3))
        # One that has just begun: the others may end before they hear of it.
        sweep.until(lambda: [run.info.status for run in store(tmp_path)[1]][2:3] == ["RUNNING"])
        children = sweep.children()
        os.kill(sweep.process.pid, number)
        ended, said = sweep.end()
    assert ended == code, said
    assert "Interrupted" in said
    assert "Traceback" not in said
    assert not any(child.is_running() for child in children)
    (parent,), jobs = store(tmp_path)
    assert parent.info.status == "KILLED"
    states = Counter(run.info.status for run in jobs)
    assert {*states} == {"FINISHED", "KILLED"}
    table = pd.read_csv(kept(tmp_path, parent, "jobs.csv"))
    assert {*table["status"]} == {"finished"}
    assert {*table["run"]} == {run.info.run_id for run in jobs if run.info.status == "FINISHED"}
