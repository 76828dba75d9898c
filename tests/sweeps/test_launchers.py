"""Check launchers: how jobs are grouped and sent to processes, and how each kind of failure ends."""

import os
import signal
import stat
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from src.jobs import encoder_job
from src.storage import results
from src.studies.propagation import experiment
from src.sweeps import job_batch, job_status
from src.sweeps.job_batch import ResultCollector
from src.sweeps.job_status import SweepJob
from src.tracking import Tracker
from tests.launched import TwoModels, result_files, runs_below, summary_file

JOBLIB = ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"]
SBATCH = """#!/bin/bash
cp "$1" {place}/script
echo "sbatch: error: invalid partition specified: short" >&2
exit 1
"""
SITE = """
defaults: [slurm, _self_]
partition: short
timeout_min: 90
mem_gb: 12
account: lab
array_parallelism: 1
setup: [module load something]
additional_parameters: {nice: 100}
"""


def sweep_job(number, text, output=Path(), dataset="lab"):
    names = dict.fromkeys(("label", "exp", "config_hash"), text) | {"model": "lab", "dataset": dataset}
    names |= {"protocol": "paper", "debias": "none", "perturb": "none", "cfg": SimpleNamespace(seed=0)}
    job = SimpleNamespace(output=output, columns={}, **names)
    return SweepJob(number, text.split(), text, job)


def test_jobs_of_the_same_model_are_grouped_in_order():
    texts = ["model=a exp=x", "model=b exp=x", "model=a exp=y", "model=b model.path=p exp=x", "model=b exp=y"]
    groups = job_batch.group_by_model(sweep_job(*item) for item in enumerate(texts))
    assert [[entry.number for entry in group] for group in groups] == [[0, 2], [1, 4], [3]]


@pytest.fixture
def sweep_two_models(tmp_path):
    """Return a function that sweeps two precomputed models over two experiments: four jobs, two batches.

    The experiments are scenes_to_labels and scenes_to_words, unless overrides choose others.
    """
    return TwoModels(tmp_path)


@pytest.mark.thorough
def test_two_processes_write_the_bytes_of_a_single_process(sweep_two_models, tmp_path):
    """Use the YAML of a user's folder, and reuse a job that is finished already."""
    (sweep_two_models.folders[1] / "labels.parquet").unlink()
    (tmp_path / "conf" / "model").mkdir(parents=True)
    (tmp_path / "conf" / "model" / "mine.yaml").write_text("defaults: [precomputed, _self_]\nname: mine\n")
    outputs, tables = [], []
    for name, launcher in (("alone", []), ("shared", JOBLIB)):
        mine = [f"--config-dir={tmp_path}/conf", "model=mine"]
        first = sweep_two_models(
            name, *mine, "exp=scenes_to_words", f"model.path={sweep_two_models.folders[0]}"
        )
        second = sweep_two_models(name, *mine, *launcher)
        assert (first.code, second.code) == (0, 0)
        outputs.append(result_files(second.output))
        parents, jobs = runs_below(tmp_path / name)
        assert [run.info.status for run in (*parents, *jobs)] == ["FINISHED"] * 5
        parent_ids = [run.data.tags["mlflow.parentRunId"] for run in jobs]
        assert parent_ids == [parents[0].info.run_id, *[parents[1].info.run_id] * 2]
        commands = [run.data.tags["mlflow.source.name"] for run in (*parents, *jobs)]
        assert commands == [commands[0], commands[1], commands[0], commands[1], commands[1]]
        # Both models have this name; the path that follows it in the tag tells them apart.
        assert {run.data.tags["model"].split("+")[0] for run in jobs} == {"mine"}
        files = ("analyses.csv", "summary.csv", "jobs.csv")
        frames = [pd.read_csv(summary_file(tmp_path / name, parents[1], file), dtype=str) for file in files]
        counts = {"taken_over": 1, "finished": 2, "not_applicable": 1}
        assert frames[-1]["status"].value_counts().to_dict() == counts
        tables.append(
            [frame.drop(columns=["run", "overrides"], errors="ignore").to_csv() for frame in frames]
        )
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) == 8 * 3  # files per job, and jobs with results
    assert tables[0] == tables[1]


def test_a_machine_without_slurm_gets_a_remedy_and_a_plan(sweep_two_models, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert sweep_two_models("o", "plan=true", "hydra/launcher=slurm").code == 0
    assert "scenes_to_words" in capsys.readouterr().out
    assert sweep_two_models("o", "hydra/launcher=slurm").code == 1
    displayed = capsys.readouterr()
    assert "sbatch, srun, squeue, scancel not installed. Run" in displayed.err
    assert "hydra/launcher=joblib" in displayed.err
    assert "Traceback" not in displayed.out + displayed.err
    assert not (tmp_path / "o" / job_batch.FOLDER).exists()
    assert not (tmp_path / "o" / "mlruns").exists()


@pytest.mark.parametrize("error", [ValueError("could not determine the shape"), None])
def test_an_interrupt_that_a_library_swallows_is_raised(
    sweep_two_models, tmp_path, capsys, monkeypatch, error
):
    """Imitate a callback from C, which loses the exception that a signal raises."""
    calls, original = [], encoder_job.perform

    def perform(*given):
        calls.append(given)
        with suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        if error:
            raise error
        return original(*given)

    monkeypatch.setattr(encoder_job, "perform", perform)
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    assert sweep_two_models("o").code == 143
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
    assert "Interrupted" in capsys.readouterr().err
    (parent,), jobs = runs_below(tmp_path / "o")
    assert len(calls) == len(jobs) == 1
    assert [parent.info.status, jobs[0].info.status] == ["KILLED", "KILLED" if error else "FINISHED"]


@pytest.mark.parametrize("stopped", [False, True])
def test_a_process_that_ends_before_it_answers_loses_no_finished_run(tmp_path, stopped):
    tracker = Tracker(f"sqlite:///{tmp_path}/mlflow.db")
    parent = tracker.start_run("lab", "sweep")
    recorder = job_status.DatasetRecorder(tracker, parent)
    jobs = [sweep_job(number, f"n={number}", tmp_path / str(number)) for number in range(4)]
    collector = ResultCollector(tmp_path, jobs, {"lab": recorder})
    # Job 0 was killed, requeued and finished, job 1 finished, job 2 still runs, job 3 was never begun.
    tracker.start_run("lab", "lab · n=0", parent).end("KILLED")
    finished = [tracker.start_run("lab", f"lab · {name}", parent) for name in ("n=0", "n=1")]
    for number, run in enumerate(finished):
        results.write(tmp_path / str(number), pd.DataFrame({"rho": [0.5]}), {})
        run.end()
    running = tracker.start_run("lab", "lab · n=2", parent)
    if stopped:
        collector.stop("it was stopped")
    else:
        collector.mark_failed(range(4), "it died")
    outcomes = [recorder.outcomes[number] for number in sorted(recorder.outcomes)]
    rows = [(item.overrides, item.status, item.run, item.reason) for item in outcomes]
    lost = [("n=2", "failed", running.id, "it died"), ("n=3", "failed", "", "it died")]
    ended = [(f"n={number}", "finished", run.id, "") for number, run in enumerate(finished)]
    assert rows == ended + ([] if stopped else lost)
    assert tracker.client.get_run(running.id).info.status == "KILLED"
    assert len(recorder.analyses) == 2


def test_a_lost_job_is_not_taken_for_a_job_of_the_same_name_on_another_dataset(tmp_path):
    tracker = Tracker(f"sqlite:///{tmp_path}/mlflow.db")
    parents = {name: tracker.start_run(name, "sweep") for name in ("lab", "other")}
    recorders = {name: job_status.DatasetRecorder(tracker, parent) for name, parent in parents.items()}
    jobs = [sweep_job(number, "n=0", tmp_path / name, name) for number, name in enumerate(recorders)]
    lost = tracker.start_run("lab", "lab · n=0", parents["lab"])
    finished = tracker.start_run("other", "lab · n=0", parents["other"])
    results.write(tmp_path / "other", pd.DataFrame({"rho": [0.5]}), {})
    finished.end()
    ResultCollector(tmp_path, jobs, recorders).mark_failed(range(2), "it died")
    outcomes = [recorders["lab"].outcomes[0], recorders["other"].outcomes[1]]
    assert [(outcome.status, outcome.run) for outcome in outcomes] == [
        ("failed", lost.id),
        ("finished", finished.id),
    ]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("hydra/launcher=basic", "hydra/launcher=basic: expected one of here, joblib, slurm"),
        ("hydra.sweeper.max_batch_size=1", "hydra.sweeper.max_batch_size: a sweep cannot be split"),
    ],
)
def test_options_that_would_split_a_sweep_are_refused(sweep_two_models, tmp_path, capsys, option, message):
    assert sweep_two_models("o", option).code == 1
    displayed = capsys.readouterr()
    assert message in displayed.err
    assert "Traceback" not in displayed.out + displayed.err
    assert not (tmp_path / "o" / "mlruns").exists()


def test_few_modules_are_on_the_call_stack_of_a_study(sweep_two_models, monkeypatch):
    modules, study_run = set(), experiment.run

    def run(*given, **options):
        frame = sys._getframe(1)
        while frame:
            modules.add(frame.f_globals["__name__"])
            frame = frame.f_back
        return study_run(*given, **options)

    monkeypatch.setattr(experiment, "run", run)
    assert sweep_two_models("o").code == 0
    src_modules = {module for module in modules if module.split(".")[0] == "src"}
    assert "src.jobs.runner" in src_modules
    assert len(src_modules | {"src.studies.propagation.experiment"}) <= 10, src_modules


def answered(sweep, *numbers):
    """Return whether worker processes have sent the outcomes of these jobs.

    Of six jobs of two models, jobs 0 to 2 run in the first process (batch 0.json), jobs 3 to 5 in the second
    (1.json).
    """
    return all((sweep.output / job_batch.FOLDER / f"job-{number}.json").exists() for number in numbers)


@pytest.mark.exhaustive
def test_a_process_that_is_killed_takes_no_other_with_it(sweep_two_models, tmp_path):
    with sweep_two_models.slowly("o", *JOBLIB) as sweep:
        sweep.until(lambda: answered(sweep, 3))
        (second,) = [child for child in sweep.children() if any("1.json" in text for text in child.cmdline())]
        second.kill()
        code, printed = sweep.wait()
    assert code == 1, printed
    (parent,), jobs = runs_below(tmp_path)
    assert parent.info.status == "FAILED"
    table = pd.read_csv(summary_file(tmp_path, parent, "jobs.csv"))
    assert table["status"].tolist()[:4] == ["finished"] * 4
    lost = table[table["status"] == "failed"]
    assert 1 <= len(lost) == 6 - (table["status"] == "finished").sum()
    assert lost["reason"].str.startswith("its process ended with status -9: ").all()
    assert lost["reason"].str.endswith("1.log)").all()
    killed = {run.info.run_id: run.data.tags["ended"] for run in jobs if run.info.status == "KILLED"}
    assert set(killed) == {*lost["run"].dropna()}
    assert all("ended with status -9" in why for why in killed.values())
    with sweep_two_models.slowly("again", *JOBLIB) as sweep:
        code, printed = sweep.wait()
    assert code == 0, printed
    parents, jobs = runs_below(tmp_path)
    counts = pd.read_csv(summary_file(tmp_path, parents[1], "jobs.csv"))["status"].value_counts().to_dict()
    assert counts == {"taken_over": 6 - len(lost), "finished": len(lost)}
    assert sum(run.info.status == "FINISHED" for run in jobs) == 6


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("signal_number", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.exhaustive)],
)
def test_an_interrupted_sweep_leaves_no_process_and_ends_every_run(
    sweep_two_models, tmp_path, signal_number, code
):
    with sweep_two_models.slowly("o", *JOBLIB) as sweep:
        sweep.until(lambda: answered(sweep, 0) or answered(sweep, 3))
        # A third job has just begun: jobs that began before it may end before the signal arrives.
        sweep.until(lambda: [run.info.status for run in runs_below(tmp_path)[1]][2:3] == ["RUNNING"])
        children = sweep.children()
        os.kill(sweep.process.pid, signal_number)
        ended, printed = sweep.wait()
    assert ended == code, printed
    assert "Interrupted" in printed
    assert "Traceback" not in printed
    assert not any(child.is_running() for child in children)
    (parent,), jobs = runs_below(tmp_path)
    assert parent.info.status == "KILLED"
    states = Counter(run.info.status for run in jobs)
    assert {*states} == {"FINISHED", "KILLED"}
    table = pd.read_csv(summary_file(tmp_path, parent, "jobs.csv"))
    assert {*table["status"]} == {"finished"}
    assert {*table["run"]} == {run.info.run_id for run in jobs if run.info.status == "FINISHED"}


@pytest.mark.thorough
def test_an_array_has_the_options_of_a_site_and_its_refusal_fails_every_job(
    sweep_two_models, tmp_path, monkeypatch
):
    """Put scripts in place of SLURM's commands; test_slurm.py runs real arrays."""
    programs = tmp_path / "cluster"
    programs.mkdir()
    for name in ("sbatch", "srun", "squeue", "scancel"):
        (programs / name).write_text(SBATCH.format(place=programs))
        (programs / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    (tmp_path / "conf/hydra/launcher").mkdir(parents=True)
    (tmp_path / "conf/hydra/launcher/ours.yaml").write_text(SITE)
    site = [f"hydra.searchpath=[file://{tmp_path}/conf]", "hydra/launcher=ours"]
    assert sweep_two_models("o", *site, "hydra.launcher.gpus_per_node=1", "exp=faces_to_words").code == 1
    script = (programs / "script").read_text().splitlines()
    options = {line.removeprefix("#SBATCH --") for line in script if line.startswith("#SBATCH")}
    assert {
        "array=0-1%1", "partition=short", "time=90", "mem=12GB", "account=lab", "cpus-per-task=4",
        "gpus-per-node=1", "job-name=carryover", "signal=USR2@90", "nice=100", "requeue", "open-mode=append",
    } <= options  # fmt: skip
    assert "module load something" in script
    batch = job_batch.read(tmp_path / "o" / job_batch.FOLDER / "1.json")
    assert [number for number, _, _ in batch.jobs] == [1]
    (parent,), jobs = runs_below(tmp_path / "o")
    assert (parent.info.status, jobs) == ("FAILED", [])
    table = pd.read_csv(summary_file(tmp_path / "o", parent, "jobs.csv"))
    assert table["status"].tolist() == ["failed"] * 2
    assert "invalid partition specified" in table["reason"][0]
