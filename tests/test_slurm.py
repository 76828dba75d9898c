"""Run sweeps through a real SLURM: a task is cancelled, requeued, timed out; the sweep is interrupted.

make test-thorough ARGS=tests/test_slurm.py; it needs Debian's slurm-wlm and munge (make system).
"""

import getpass
import os
import platform
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from src.sweeps import job_batch
from tests.commands import command
from tests.conftest import SHRUNK, store_overrides
from tests.launched import Started, result_files, runs_below, summary_file
from tests.tracking import servers

PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/bin"])
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "scontrol", "sinfo")

CONF = """
ClusterName=carryover
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={place}/munge/socket
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmctldPort={controller}
SlurmdPort={node}
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
MpiDefault=none
ReturnToService=2
KillWait=20
MessageTimeout=100
SlurmdTimeout=0
BatchStartTimeout=300
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 RealMemory=4000 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""
absent = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
pytestmark = [
    pytest.mark.timeout(3600),  # seconds, for a busy machine
    pytest.mark.skipif(bool(absent), reason=f"{', '.join(absent)} not here (make system)"),
]

# The shrunk world, without a number of training steps.
WORLD = [text for text in SHRUNK if not text.startswith("model.steps")]
# Two toys x eight experiments: 16 jobs, in two SLURM tasks.
TWO_TOYS = [*WORLD, "model.steps=20,21", "exp=glob(*_to_*)"]
SLURM = ["hydra/launcher=slurm", "hydra.launcher.cpus_per_task=1"]
SECOND_TASK = range(8, 16)


@dataclass(frozen=True)
class Cluster:
    """A running cluster, which SLURM's commands reach by `environment`."""

    environment: dict[str, str]

    def __call__(self, *command: str) -> str:
        """Return the output of a SLURM command."""
        return subprocess.check_output(command, env=self.environment, text=True, timeout=300).strip()

    def queue(self) -> dict[str, str]:
        """Return the state of each task that has not ended."""
        lines = self("squeue", "--array", "--noheader", "--format=%i|%T").splitlines()
        return dict(line.split("|") for line in lines)


@contextmanager
def cluster(place: Path) -> Iterator[Cluster]:
    """Start a cluster of one node below a folder, and stop it by the ids of its processes."""
    for name in ("state", "spool", "munge"):
        (place / name).mkdir(parents=True)
    place.chmod(0o755)
    key = place / "munge" / "key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    conf = place / "slurm.conf"
    fields = {"host": platform.node().split(".")[0], "user": getpass.getuser(), "place": place}
    conf.write_text(CONF.format(**fields, controller=servers.free_port(), node=servers.free_port()))
    running = Cluster({**os.environ, "PATH": PATH, "SLURM_CONF": str(conf)})
    files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    munge = [f"--{option}={place}/munge/{name}" for option, name in files.items()]
    with ExitStack() as stack:
        _start(stack, running, ["munged", "--foreground", "--force", *munge], place)
        _until(lambda: (place / "munge" / "socket").exists(), place)
        _start(stack, running, ["slurmctld", "-D", "-f", str(conf)], place)
        _start(stack, running, ["slurmd", "-D", "-f", str(conf), "-N", fields["host"]], place)
        _until(lambda: "idle" in _states(running), place)
        try:
            yield running
        finally:
            for task in {task.split("_")[0] for task in running.queue()}:
                running("scancel", task)
            _until(lambda: not running.queue(), place)


def _states(running: Cluster) -> str:
    try:
        return running("sinfo", "--noheader", "--format=%T")
    except subprocess.SubprocessError:
        return ""


def _start(stack: ExitStack, running: Cluster, command: list[str], place: Path) -> None:
    with (place / f"{command[0]}.out").open("ab") as out:
        process = subprocess.Popen(command, env=running.environment, stdout=out, stderr=out)
    stack.callback(_stop, process)


def _stop(process: subprocess.Popen) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _until(condition, place: Path, seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            logs = [path.read_text(errors="replace")[-1000:] for path in sorted(place.glob("*.[ol]*"))]
            raise TimeoutError("\n".join(logs))
        time.sleep(0.2)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    with cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Run TWO_TOYS in a single process without SLURM, into `o` of the returned folder."""
    folder = tmp_path_factory.mktemp("alone")
    swept = command(folder / "o", "-m", *TWO_TOYS, *store_overrides(folder))
    assert swept.code == 0
    return folder


@pytest.fixture
def sent(tmp_path, slurm):
    """Return a function that describes a sweep through SLURM; `stores`: folder of weights and vectors."""

    def send(name, *arguments, stores=tmp_path):
        paths = [override for override in store_overrides(tmp_path) if not override.startswith("store.")]
        paths += [override for override in store_overrides(stores) if override.startswith("store.")]
        return Started(tmp_path / name, ["-m", *arguments, *paths, *SLURM], slurm.environment)

    return send


def answered(sweep, jobs):
    folder = sweep.output / job_batch.FOLDER
    return [number for number in jobs if (folder / f"job-{number}.json").exists()]


def task(slurm, number):
    (name,) = [task for task in slurm.queue() if task.endswith(f"_{number}")]
    return name


def start(slurm, task, *more):
    """Start a requeued task now, not two minutes later."""
    time.sleep(2)  # slurmd rejects credentials issued in the same second as the requeue
    slurm("scontrol", "update", f"JobId={task}", "StartTime=now", *more)


def table(folder):
    parents, jobs = runs_below(folder, "demo")
    parent = parents[-1]
    return parent, jobs, pd.read_csv(summary_file(folder, parent, "jobs.csv", "demo"))


def assert_all_finished(folder):
    """Check that each of 16 jobs finished once and that interrupted attempts are marked as killed."""
    _, jobs, rows = table(folder)
    assert rows["status"].tolist() == ["finished"] * 16
    states = Counter(run.info.status for run in jobs)
    assert states["FINISHED"] == 16
    assert {*states} <= {"FINISHED", "KILLED"}


@pytest.mark.thorough
def test_a_rerun_completes_a_cancelled_task(slurm, sent, alone, tmp_path):
    with sent("first", *TWO_TOYS) as sweep:
        sweep.until(lambda: answered(sweep, SECOND_TASK))
        cancelled = task(slurm, 1)
        slurm("scancel", cancelled)
        code, output = sweep.wait()
    assert code == 1, output
    (first_log,) = [text for name, text in sweep.logs().items() if "_0_0_log" in name]
    assert (first_log.count("training shrunk"), first_log.count("] - embedded ")) == (1, 4)
    parent, jobs, first = table(tmp_path)
    assert parent.info.status == "FAILED"
    assert first["status"].tolist()[:8] == ["finished"] * 8
    counts = first["status"].value_counts().to_dict()
    done, missing = counts["finished"], counts["failed"]
    assert 9 <= done < 16
    assert missing == 16 - done
    assert first["reason"].dropna().str.startswith(f"SLURM task {cancelled} ended (CANCELLED). Log:").all()
    assert {run.info.status for run in jobs} <= {"FINISHED", "KILLED"}
    assert not slurm.queue()
    with sent("second", *TWO_TOYS) as sweep:
        code, output = sweep.wait()
    assert code == 0, output
    parent, jobs, second = table(tmp_path)
    assert parent.info.status == "FINISHED"
    assert second["status"].value_counts().to_dict() == {"taken_over": done, "finished": missing}
    finished = [run for run in jobs if run.info.status == "FINISHED"]
    assert len(finished) == len({run.data.tags["key"] for run in finished}) == 16
    assert result_files(tmp_path / "second") == result_files(alone / "o")


@pytest.mark.exhaustive
@pytest.mark.parametrize("requeue", [("scontrol", "requeue"), ("scancel", "--signal=USR2")])
def test_a_requeued_task_resumes(slurm, sent, alone, tmp_path, requeue):
    """Requeue by scontrol, as when a node is removed, and by the signal that announces a time-out."""
    with sent("o", *TWO_TOYS, stores=alone) as sweep:
        sweep.until(lambda: answered(sweep, SECOND_TASK))
        requeued = task(slurm, 1)
        slurm(*requeue, requeued)
        sweep.until(lambda: slurm.queue().get(requeued) == "PENDING")
        before = answered(sweep, SECOND_TASK)
        start(slurm, requeued)
        code, output = sweep.wait()
    assert code == 0, output
    assert 1 <= len(before) < 8
    assert_all_finished(tmp_path)
    assert result_files(tmp_path / "o") == result_files(alone / "o")


# With a time limit below ten minutes, submitit treats any signal that ends a task as a time-out.
LIMIT = ["hydra.launcher.timeout_min=9", "hydra.launcher.signal_delay_s=20"]


@pytest.mark.exhaustive
def test_a_timed_out_task_resumes(slurm, sent, alone, tmp_path):
    slow = [*WORLD, "model.steps=20", "exp=faces_to_words", "seed=range(16)", "protocol.placebo=10000"]
    with sent("o", *slow, *LIMIT, stores=alone) as sweep:
        sweep.until(lambda: answered(sweep, range(16)))
        (requeued,) = slurm.queue()
        slurm("scontrol", "update", f"JobId={requeued}", "EndTime=now+35")
        sweep.until(lambda: slurm.queue().get(requeued) == "PENDING")
        before = answered(sweep, range(16))
        start(slurm, requeued, "TimeLimit=9")
        code, output = sweep.wait()
    assert code == 0, output
    assert 1 <= len(before) < 16
    assert sum("Job has timed out" in text for text in sweep.logs().values()) == 1
    assert_all_finished(tmp_path)


@pytest.mark.exhaustive
def test_a_task_that_times_out_too_often_fails(slurm, sent, alone, tmp_path):
    endless = [*WORLD, "model.steps=20,1000000", "exp=faces_to_words"]
    with sent("o", *endless, *LIMIT, "hydra.launcher.max_num_timeout=0", stores=alone) as sweep:
        sweep.until(lambda: any("training shrunk+steps=1000000" in text for text in sweep.logs().values()))
        timed_out = task(slurm, 1)
        slurm("scontrol", "update", f"JobId={timed_out}", "EndTime=now+5")
        code, output = sweep.wait()
    assert code == 1, output
    assert any("The task continues until SLURM ends it" in text for text in sweep.logs().values())
    _, jobs, rows = table(tmp_path)
    assert rows["status"].tolist() == ["finished", "failed"]
    assert rows["reason"][1].startswith(f"SLURM task {timed_out} ended (TIMEOUT). Log: ")
    assert sorted(run.info.status for run in jobs) == ["FINISHED", "KILLED"]


@pytest.mark.thorough
def test_an_interrupted_sweep_cancels_its_tasks(slurm, sent, tmp_path):
    with sent("o", *WORLD, "model.steps=1000000,1000001", "exp=faces_to_words") as sweep:
        sweep.until(lambda: sum("training shrunk" in text for text in sweep.logs().values()) == 2)
        assert [*slurm.queue().values()] == ["RUNNING"] * 2
        os.kill(sweep.process.pid, signal.SIGINT)
        code, output = sweep.wait()
    assert code == 130, output
    assert "cancelling SLURM job" in output
    assert "Traceback" not in output
    assert not slurm.queue()
    parents, jobs = runs_below(tmp_path, "demo")
    assert [run.info.status for run in [*parents, *jobs]] == ["KILLED"] * 3
    assert list((tmp_path / "checkpoints").iterdir()) == []
    assert list((tmp_path / "o" / job_batch.FOLDER).glob("*.pkl")) == []
