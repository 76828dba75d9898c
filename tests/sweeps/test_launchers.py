"""Jobs that other processes make: what goes together, what they are given, how each way of failing ends."""

import errno
import os
import re
import signal
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import pytest

from src.jobs import encoder_job
from src.storage import results
from src.studies.propagation import experiment
from src.sweeps import job_batch, job_status, launchers
from src.sweeps.job_status import SweepJob
from src.sweeps.result_collector import ResultCollector
from src.tracking import Tracker
from tests.commands import command
from tests.conftest import places, precomputed
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


def test_jobs_of_a_model_follow_each_other_however_the_sweep_was_typed(tmp_path, capsys):
    labs = Labs(tmp_path)
    typed = ["exp=scenes_to_words,words_to_scenes", *labs.models(), *SMALL, *places(tmp_path)]
    swept = command(tmp_path / "o", "-m", *typed)
    assert swept.code == 0
    begun = re.findall(r"\t#(\d) : exp=(\w+) ", capsys.readouterr().out)
    assert begun == [
        *[("0", "scenes_to_words"), ("2", "words_to_scenes")],
        *[("1", "scenes_to_words"), ("3", "words_to_scenes")],
    ]  # fmt: skip
    (parent,), _ = store(tmp_path)
    table = pd.read_csv(kept(tmp_path, parent, "jobs.csv"))
    assert table["exp"].tolist() == ["scenes_to_words"] * 2 + ["words_to_scenes"] * 2


def test_a_disk_that_fills_between_two_jobs_is_named(swept, tmp_path, capsys, monkeypatch):
    run_job = launchers.run_job

    def full(**given):
        if given["config"].hydra.job.num == 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "o/1/.hydra/config.yaml")
        return run_job(**given)

    monkeypatch.setattr(launchers, "run_job", full)
    assert swept("o").code == 1
    shown = capsys.readouterr()
    assert "o/1/.hydra/config.yaml: No space left on device" in shown.err
    assert "the same command goes on" in shown.err
    assert "Traceback" not in shown.out + shown.err
    (parent,), jobs = store(tmp_path / "o")
    assert [parent.info.status, *(run.info.status for run in jobs)] == ["FAILED", "FINISHED"]


def test_a_job_that_is_asked_for_twice_has_two_folders(tmp_path):
    path = precomputed(tmp_path / "lab")
    typed = ["model=precomputed", f"model.path={path}", "exp=scenes_to_words", "seed=0,0", *SMALL]
    swept = command(tmp_path / "o", "-m", *typed, *places(tmp_path))
    assert swept.code == 0
    assert [folder.name for folder in sorted(tmp_path.glob("o/*/results"))] == ["results"] * 2
    (parent,), jobs = store(tmp_path)
    assert pd.read_csv(kept(tmp_path, parent, "jobs.csv"))["status"].tolist() == ["finished"] * 2
    assert {run.data.tags["model"] for run in jobs} == {"lab", f"lab+model.path={path}"}


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("hydra/launcher=basic", "hydra/launcher=basic: expected one of here, joblib, slurm"),
        ("hydra.sweeper.max_batch_size=1", "hydra.sweeper.max_batch_size: a sweep is launched whole"),
    ],
)
def test_what_would_split_a_sweep_is_refused(swept, tmp_path, capsys, option, message):
    assert swept("o", option).code == 1
    shown = capsys.readouterr()
    assert message in shown.err
    assert "Traceback" not in shown.out + shown.err
    assert not (tmp_path / "o" / "mlruns").exists()


def test_processes_find_the_yamls_of_a_folder_of_one_s_own(tmp_path):
    (tmp_path / "conf" / "model").mkdir(parents=True)
    for name, seed in (("one", 0), ("two", 1)):
        path = precomputed(tmp_path / name, seed)
        text = f"defaults: [precomputed, _self_]\npath: {path}\n"
        (tmp_path / "conf" / "model" / f"{name}.yaml").write_text(text)
    arguments = ["-m", f"--config-dir={tmp_path}/conf", "model=one,two", "exp=scenes_to_words", *SMALL]
    assert command(tmp_path / "o", *arguments, *places(tmp_path), *JOBLIB).code == 0
    _, jobs = store(tmp_path)
    assert {run.data.tags["model"] for run in jobs} == {"one", "two"}


def test_few_rooms_lie_between_the_command_and_a_study(tmp_path, monkeypatch):
    """At the first line of a study's run at most ten modules of src stand on the call stack."""
    modules, study_run = set(), experiment.run

    def run(*given):
        frame = sys._getframe(1)
        while frame:
            modules.add(frame.f_globals["__name__"])
            frame = frame.f_back
        return study_run(*given)

    monkeypatch.setattr(experiment, "run", run)
    path = precomputed(tmp_path / "lab")
    arguments = [f"model.path={path}", "model=precomputed", "exp=scenes_to_words", *SMALL, *places(tmp_path)]
    for name, more in (("one", []), ("two", ["-m"])):
        modules.clear()
        assert command(tmp_path / name, *more, *arguments, "resume=false").code == 0
        rooms = {module for module in modules if module.split(".")[0] == "src"}
        assert "src.jobs.runner" in rooms
        assert len(rooms | {"src.studies.propagation.experiment"}) <= 10, rooms


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
