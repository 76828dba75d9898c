"""Jobs that other processes make: what goes together, what they are given, how each way of failing ends."""

import os
import signal
import stat
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import psutil
import pytest
from mlflow import MlflowClient

from src import parcels
from tests.conftest import SHRUNK, places, precomputed
from tests.paths import CHECKOUT
from tests.sweeps import command

SMALL = ["protocol.k=11", "protocol.extremes=6", "protocol.set_size=15"]
JOBLIB = ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"]


def store(folder, dataset="precomputed"):
    """Its parents, then its jobs, oldest first."""
    client = MlflowClient(f"sqlite:///{folder}/mlruns/mlflow.db")
    (experiment,) = [e.experiment_id for e in client.search_experiments() if e.name == dataset]
    every = client.search_runs([experiment], order_by=["attributes.start_time ASC"])
    return [[run for run in every if run.data.tags.get("kind") == kind] for kind in ("sweep", "job")]


def kept(folder, parent, name, dataset="precomputed"):
    return folder / "mlruns/artifacts" / dataset / parent.info.run_id / "artifacts/summary" / name


def results(output):
    return {str(path.relative_to(output)): path.read_bytes() for path in sorted(output.glob("*/results/*"))}


@dataclass
class Job:
    label: str


def sent(*overrides):
    return [parcels.Sent(number, text.split(), Job(text)) for number, text in enumerate(overrides)]


def test_jobs_of_one_model_go_together_in_their_order():
    groups = parcels.grouped(
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
    assert parcels.chosen(overrides.split()) == told


def test_a_later_sweep_into_the_same_folder_finds_no_old_answers(tmp_path):
    assert [parcels.fresh(tmp_path).name for _ in range(3)] == ["parcels", "parcels-2", "parcels-3"]


@pytest.fixture
def labs(tmp_path):
    """Two folders of vectors of one name."""
    return [precomputed(tmp_path / name / "lab", seed) for seed, name in enumerate("ab")]


@pytest.fixture
def swept(tmp_path, labs):
    def run(name, *overrides):
        arguments = ["model=precomputed", f"model.path={labs[0]},{labs[1]}", "exp=glob(*_to_*)", *SMALL]
        return command(tmp_path / name, "-m", *arguments, *places(tmp_path / name), *overrides)

    return run


def test_two_processes_leave_the_bytes_that_one_leaves(swept, labs, tmp_path):
    (labs[1] / "labels.parquet").unlink()
    alone, shared = swept("alone"), swept("shared", *JOBLIB)
    assert (alone.code, shared.code) == (0, 0)
    assert results(shared.output) == results(alone.output)
    assert len(results(alone.output)) == 5 * (8 + 4)
    tables = []
    for name in ("alone", "shared"):
        (parent,), jobs = store(tmp_path / name)
        assert parent.info.status == "FINISHED"
        assert [run.info.status for run in jobs] == ["FINISHED"] * 12
        assert {run.data.tags["mlflow.parentRunId"] for run in jobs} == {parent.info.run_id}
        files = ("analyses.csv", "summary.csv", "asked.json")
        tables.append([kept(tmp_path / name, parent, file).read_bytes() for file in files])
        tables[-1].append(pd.read_csv(kept(tmp_path / name, parent, "jobs.csv")).drop(columns="run").to_csv())
    assert tables[0] == tables[1]
    again = swept("shared", *JOBLIB)
    assert again.code == 0
    parents, jobs = store(tmp_path / "shared")
    assert len(jobs) == 12
    table = pd.read_csv(kept(tmp_path / "shared", parents[1], "jobs.csv"))
    assert table["status"].value_counts().to_dict() == {"taken_over": 12, "not_applicable": 4}


def test_a_plan_sends_nothing_and_needs_no_cluster(swept, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert swept("o", "plan=true", "hydra/launcher=slurm").code == 0
    assert "16 jobs" in " ".join(capsys.readouterr().out.split())
    assert not (tmp_path / "o" / parcels.FOLDER).exists()
    assert not (tmp_path / "o" / "mlruns").exists()


def test_a_machine_without_slurm_is_told_what_to_do(cli, tmp_path, labs, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    done = cli(
        "-m", "model=precomputed", f"model.path={labs[0]}", "exp=faces_to_words", *SMALL, *places(tmp_path),
        f"hydra.sweep.dir={tmp_path}/o", "hydra/launcher=slurm",
    )  # fmt: skip
    assert done.returncode == 1
    assert "sbatch, srun, squeue, scancel cannot be found here" in done.stderr
    assert "hydra/launcher=joblib" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "mlruns").exists()


@dataclass
class Started:
    """A sweep in a process of its own, and what the tests look at while it runs."""

    output: Path
    arguments: list[str]
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))

    def __enter__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "src.run", "-m", *self.arguments, f"hydra.sweep.dir={self.output}"],
            cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.environment,
            start_new_session=True,
            # A background shell has its children ignore Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(120)

    def end(self, seconds=300):
        said, _ = self.process.communicate(timeout=seconds)
        return self.process.returncode, said

    def until(self, true, seconds=240):
        deadline = time.monotonic() + seconds
        while not true():
            assert self.process.poll() is None, self.process.stdout.read()
            assert time.monotonic() < deadline
            time.sleep(0.2)

    def logs(self):
        return {path.name: path.read_text() for path in (self.output / parcels.FOLDER).glob("*log*")}

    def children(self):
        return psutil.Process(self.process.pid).children()


# One toy that is there at once, one that takes for ever.
TOYS = [*SHRUNK, "model.steps=1,1000000", "exp=faces_to_words,words_to_faces", *JOBLIB]


def test_a_process_that_is_killed_takes_no_other_with_it(tmp_path):
    with Started(tmp_path / "o", [*TOYS, *places(tmp_path)]) as sweep:
        sweep.until(lambda: "training shrunk" in sweep.logs().get("1.log", ""))
        (endless,) = [
            child for child in sweep.children() if any("1.json" in text for text in child.cmdline())
        ]
        endless.kill()
        code, said = sweep.end()
    assert code == 1, said
    (parent,), jobs = store(tmp_path, "demo")
    assert parent.info.status == "FAILED"
    table = pd.read_csv(kept(tmp_path, parent, "jobs.csv", "demo"))
    assert table["status"].tolist() == ["finished", "finished", "failed", "failed"]
    assert table["reason"][2].startswith("its process ended with status -9: ")
    assert table["reason"][2].endswith("1.log)")
    assert [run.info.status for run in jobs] == ["FINISHED", "FINISHED", "KILLED"]
    assert table["run"][2] == jobs[2].info.run_id
    assert "ended with status -9" in jobs[2].data.tags["ended"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_sweep_leaves_no_process_and_no_run(tmp_path, number, code):
    with Started(tmp_path / "o", [*TOYS, *places(tmp_path)]) as sweep:
        sweep.until(lambda: "training shrunk" in sweep.logs().get("1.log", ""))
        sweep.until(lambda: len(sweep.children()) == 1)
        (endless,) = sweep.children()
        os.kill(sweep.process.pid, number)
        ended, said = sweep.end()
    assert ended == code, said
    assert "Interrupted" in said
    assert "Traceback" not in said
    assert not endless.is_running()
    (parent,), jobs = store(tmp_path, "demo")
    assert parent.info.status == "KILLED"
    assert [run.info.status for run in jobs] == ["FINISHED", "FINISHED", "KILLED"]
    table = pd.read_csv(kept(tmp_path, parent, "jobs.csv", "demo"))
    assert table["status"].tolist() == ["finished", "finished"]


SBATCH = """#!{python}
# What sbatch would do, on the spot: every task of the array, one after the other.
import os, re, subprocess, sys
from pathlib import Path
place, script = Path({place!r}), Path(sys.argv[1]).read_text()
(place / "script").write_text(script)
if "partition=none" in script:
    sys.exit("sbatch: error: invalid partition specified: none")
print("Submitted batch job 7", flush=True)
tasks = re.search(r"--array=0-(\\d+)", script)
tasks = range(int(tasks[1]) + 1) if tasks else [None]
if os.fork():
    sys.exit()
for stream in (0, 1, 2):
    os.dup2(os.open(os.devnull, os.O_RDWR), stream)
for task in tasks:
    array = {{}} if task is None else {{"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": str(task)}}
    own = {{**os.environ, **array, "SLURM_JOB_ID": "7", "SLURM_NTASKS": "1"}}
    code = subprocess.run(["bash", "-c", script], env=own).returncode
    name = "7" if task is None else f"7_{{task}}"
    (place / "ended" / name).write_text("FAILED" if code else "COMPLETED")
"""
SRUN = """#!/bin/bash
while [ "$1" != {python} ]; do shift; done
exec "$@" > {place}/said 2>&1
"""
SQUEUE = """#!/bin/bash
for task in {tasks}; do echo "$task|$(cat {place}/ended/$task 2>/dev/null || echo RUNNING)"; done
"""


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """SLURM's commands, played by scripts."""
    place = tmp_path / "cluster"
    (place / "ended").mkdir(parents=True)
    named = {"place": str(place), "python": sys.executable, "tasks": "7_0 7_1"}
    for name, text in {"sbatch": SBATCH, "srun": SRUN, "squeue": SQUEUE, "scancel": "#!/bin/bash\n"}.items():
        (place / name).write_text(text.format(**named))
        (place / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", str(place), prepend=os.pathsep)
    return place


SITE = """
defaults: [slurm, _self_]
partition: short
timeout_min: 90
mem_gb: 12
account: lab
array_parallelism: 4
setup: [module load something]
additional_parameters: {nice: 100}
"""


def test_an_array_is_asked_for_as_a_site_wants_it(swept, cluster, tmp_path):
    (tmp_path / "conf/hydra/launcher").mkdir(parents=True)
    (tmp_path / "conf/hydra/launcher/ours.yaml").write_text(SITE)
    site = [
        f"hydra.searchpath=[file://{tmp_path}/conf]",
        "hydra/launcher=ours",
        "hydra.launcher.gpus_per_node=1",
    ]
    done, alone = swept("o", *site), swept("alone")
    assert done.code == 0
    assert results(done.output) == results(alone.output)
    script = (cluster / "script").read_text().splitlines()
    asked = {line.removeprefix("#SBATCH --") for line in script if line.startswith("#SBATCH")}
    assert {
        "array=0-1%2", "partition=short", "time=90", "mem=12GB", "account=lab", "cpus-per-task=4",
        "gpus-per-node=1", "job-name=carryover", "signal=USR2@90", "nice=100", "open-mode=append",
    } <= asked  # fmt: skip
    assert "module load something" in script
    folder = tmp_path / "o" / parcels.FOLDER
    assert list(folder.glob("*.pkl")) == []
    parcel = parcels.read(folder / "1.json")
    assert [number for number, _ in parcel.jobs] == list(range(8, 16))
    assert all(override.startswith(("model", "exp", "protocol", "store", "tracking", "report"))
               for _, overrides in parcel.jobs for override in overrides)  # fmt: skip


def test_an_array_that_is_refused_fails_every_job_with_the_reason(swept, cluster, tmp_path):
    assert swept("o", "hydra/launcher=slurm", "hydra.launcher.partition=none", "exp=faces_to_words").code == 1
    (parent,), jobs = store(tmp_path / "o")
    assert (parent.info.status, jobs) == ("FAILED", [])
    table = pd.read_csv(kept(tmp_path / "o", parent, "jobs.csv"))
    assert table["status"].tolist() == ["failed"] * 2
    assert "invalid partition specified" in table["reason"][0]


def test_a_task_that_ends_without_an_answer_fails_its_jobs_alone(swept, cluster, tmp_path):
    script = (cluster / "srun").read_text()
    (cluster / "srun").write_text(
        script.replace("while", '[ "$SLURM_ARRAY_TASK_ID" = 1 ] && exit 3\nwhile', 1)
    )
    assert swept("o", "hydra/launcher=slurm", "exp=faces_to_words,words_to_faces").code == 1
    (parent,), jobs = store(tmp_path / "o")
    table = pd.read_csv(kept(tmp_path / "o", parent, "jobs.csv"))
    assert table["status"].tolist() == ["finished", "finished", "failed", "failed"]
    assert table["reason"][3].startswith("SLURM task 7_1 is over: FAILED. It said: ")
    assert len(jobs) == 2
