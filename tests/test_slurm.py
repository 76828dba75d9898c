"""A sweep through a real SLURM: a task is cancelled, put back, timed out; the sweep is interrupted.

make test-slurm; it needs Debian's slurm-wlm and munge (make system).
"""

import os
import signal
import subprocess
from collections import Counter

import pandas as pd
import pytest

from src import parcels
from tests import cluster
from tests.conftest import SHRUNK, places
from tests.launched import Started, kept, results, store
from tests.sweeps import command

absent = cluster.absent()
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(bool(absent), reason=f"{', '.join(absent)} not here (make system)"),
]

# Two toys of the shrunk world, some experiments each.
WORLD = [*SHRUNK, "model.steps=20,21"]
EIGHT = [*WORLD, "exp=glob(*_to_*)"]
SLURM = ["hydra/launcher=slurm", "hydra.launcher.cpus_per_task=1"]
SECOND = range(8, 16)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    with cluster.cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The same sweep in one process, without SLURM."""
    folder = tmp_path_factory.mktemp("alone")
    swept = command(folder / "o", "-m", *EIGHT, *places(folder))
    assert swept.code == 0
    return results(swept.output)


@pytest.fixture
def sent(tmp_path, slurm):
    """Starts a sweep through SLURM."""

    def send(name, *arguments):
        return Started(tmp_path / name, [*arguments, *places(tmp_path), *SLURM], slurm.environment)

    return send


def answered(sweep, jobs):
    folder = sweep.output / parcels.FOLDER
    return [number for number in jobs if (folder / f"job-{number}.json").exists()]


def task(slurm, number):
    (found,) = [task for task in slurm.queue() if task.endswith(f"_{number}")]
    return found


def table(folder, number=-1):
    parents, jobs = store(folder, "demo")
    parent = parents[number]
    return parent, jobs, pd.read_csv(kept(folder, parent, "jobs.csv", "demo"))


def test_of_a_cancelled_task_the_rerun_makes_what_is_missing(slurm, sent, alone, tmp_path):
    with sent("first", *EIGHT) as sweep:
        sweep.until(lambda: answered(sweep, SECOND))
        cancelled = task(slurm, 1)
        slurm("scancel", cancelled)
        code, said = sweep.end()
    assert code == 1, said
    parent, jobs, first = table(tmp_path)
    assert parent.info.status == "FAILED"
    assert first["status"].tolist()[:8] == ["finished"] * 8
    counts = first["status"].value_counts().to_dict()
    done, missing = counts["finished"], counts["failed"]
    assert 9 <= done < 16
    assert missing == 16 - done
    assert (
        first["reason"].dropna().str.startswith(f"SLURM task {cancelled} is over: CANCELLED. It said:").all()
    )
    assert {run.info.status for run in jobs} <= {"FINISHED", "KILLED"}
    assert not slurm.queue()
    with sent("second", *EIGHT) as sweep:
        code, said = sweep.end()
    assert code == 0, said
    parent, jobs, second = table(tmp_path)
    assert parent.info.status == "FINISHED"
    assert second["status"].value_counts().to_dict() == {"taken_over": done, "finished": missing}
    finished = [run for run in jobs if run.info.status == "FINISHED"]
    assert len(finished) == len({run.data.tags["key"] for run in finished}) == 16
    assert results(tmp_path / "second") == alone


@pytest.mark.parametrize("how", ["requeue", "signal"])
def test_a_task_that_is_put_back_goes_on_where_it_stopped(slurm, sent, alone, tmp_path, how):
    """By scontrol requeue (a node that is taken away), and by the signal that a time-out gives."""
    with sent("o", *EIGHT) as sweep:
        sweep.until(lambda: answered(sweep, SECOND))
        back = task(slurm, 1)
        slurm(*(["scontrol", "requeue", back] if how == "requeue" else ["scancel", "--signal=USR2", back]))
        sweep.until(lambda: slurm.queue().get(back) == "PENDING")
        before = answered(sweep, SECOND)
        slurm("scontrol", "update", f"JobId={back}", "StartTime=now")  # not two minutes later
        code, said = sweep.end()
    assert code == 0, said
    assert 1 <= len(before) < 8
    _, jobs, found = table(tmp_path)
    assert found["status"].tolist() == ["finished"] * 16
    states = Counter(run.info.status for run in jobs)
    assert states["FINISHED"] == 16
    assert {*states} <= {"FINISHED", "KILLED"}
    assert results(tmp_path / "o") == alone


@pytest.mark.parametrize("requeues", [3, 0])
def test_time_that_is_up(slurm, sent, tmp_path, requeues):
    """A minute, SLURM's least: a parcel that needs more comes back, or ends there."""
    slow = [*WORLD, "exp=faces_to_words", "seed=range(16)", "protocol.bootstrap=20000"]
    limits = ["hydra.launcher.timeout_min=1", "hydra.launcher.signal_delay_s=20"]
    with sent("o", *slow, *limits, f"hydra.launcher.max_num_timeout={requeues}") as sweep:
        while True:
            try:
                code, said = sweep.end(2)
                break
            except subprocess.TimeoutExpired:
                for number, state in slurm.queue().items():
                    if state == "PENDING":
                        slurm("scontrol", "update", f"JobId={number}", "StartTime=now")
    _, jobs, found = table(tmp_path)
    if requeues:
        assert code == 0, said
        assert found["status"].tolist() == ["finished"] * 32
        assert any("timed-out" in text for text in sweep.logs().values())
    else:
        assert code == 1, said
        assert found["reason"].dropna().str.contains("is over: TIMEOUT").all()
        assert found["status"].value_counts()["failed"] >= 2
    assert {run.info.status for run in jobs} <= {"FINISHED", "KILLED"}


def test_an_interrupted_sweep_cancels_its_tasks(slurm, sent, tmp_path):
    with sent("o", *WORLD, "model.steps=1000000,1000001", "exp=faces_to_words") as sweep:
        sweep.until(lambda: sum("training shrunk" in text for text in sweep.logs().values()) == 2)
        assert [*slurm.queue().values()] == ["RUNNING"] * 2
        os.kill(sweep.process.pid, signal.SIGINT)
        code, said = sweep.end()
    assert code == 130, said
    assert "cancelling SLURM job" in said
    assert "Traceback" not in said
    assert not slurm.queue()
    parents, jobs = store(tmp_path, "demo")
    assert [run.info.status for run in [*parents, *jobs]] == ["KILLED"] * 3
    assert list((tmp_path / "checkpoints").iterdir()) == []
    assert list((tmp_path / "o" / parcels.FOLDER).glob("*.pkl")) == []
