"""A sweep through a real SLURM: a task is cancelled, put back, timed out; the sweep is interrupted.

make test-thorough ARGS=tests/test_slurm.py; it needs Debian's slurm-wlm and munge (make system).
"""

import os
import signal
from collections import Counter

import pandas as pd
import pytest

from src.sweeps import job_batch
from tests import cluster
from tests.commands import command
from tests.conftest import SHRUNK, places
from tests.launched import Started, kept, left, store

absent = cluster.absent()
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.timeout(3600),  # of a busy machine
    pytest.mark.skipif(bool(absent), reason=f"{', '.join(absent)} not here (make system)"),
]

# Two toys of the shrunk world, some experiments each.
WORLD = [one for one in SHRUNK if not one.startswith("model.steps")]
EIGHT = [*WORLD, "model.steps=20,21", "exp=glob(*_to_*)"]
SLURM = ["hydra/launcher=slurm", "hydra.launcher.cpus_per_task=1"]
SECOND = range(8, 16)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    with cluster.cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The same sweep in one process, without SLURM: its folder; what it made is in `o`."""
    folder = tmp_path_factory.mktemp("alone")
    swept = command(folder / "o", "-m", *EIGHT, *places(folder))
    assert swept.code == 0
    return folder


@pytest.fixture
def sent(tmp_path, slurm):
    """Starts a sweep through SLURM; with `stores`, weights and vectors are those of another folder."""

    def send(name, *arguments, stores=tmp_path):
        own = [place for place in places(tmp_path) if not place.startswith("store.")]
        own += [place for place in places(stores) if place.startswith("store.")]
        return Started(tmp_path / name, [*arguments, *own, *SLURM], slurm.environment)

    return send


def answered(sweep, jobs):
    folder = sweep.output / job_batch.FOLDER
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
    (whole,) = [text for name, text in sweep.logs().items() if "_0_0_log" in name]
    assert (whole.count("training shrunk"), whole.count("] - embedded ")) == (1, 4)
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
    assert left(tmp_path / "second") == left(alone / "o")


@pytest.mark.parametrize("how", ["requeue", "signal"])
def test_a_task_that_is_put_back_goes_on_where_it_stopped(slurm, sent, alone, tmp_path, how):
    """By scontrol requeue (a node that is taken away), and by the signal that a time-out gives."""
    with sent("o", *EIGHT, stores=alone) as sweep:
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
    assert left(tmp_path / "o") == left(alone / "o")


# submitit takes whatever ends a task of less than ten minutes for its time being up.
LIMIT = ["hydra.launcher.timeout_min=9", "hydra.launcher.signal_delay_s=20"]


def test_a_task_whose_time_is_up_goes_on_later(slurm, sent, alone, tmp_path):
    slow = [*WORLD, "model.steps=20", "exp=faces_to_words", "seed=range(16)", "protocol.bootstrap=40000"]
    with sent("o", *slow, *LIMIT, stores=alone) as sweep:
        sweep.until(lambda: answered(sweep, range(16)))
        (back,) = slurm.queue()
        slurm("scontrol", "update", f"JobId={back}", "EndTime=now+35")
        sweep.until(lambda: slurm.queue().get(back) == "PENDING")
        before = answered(sweep, range(16))
        slurm("scontrol", "update", f"JobId={back}", "TimeLimit=9", "StartTime=now")
        code, said = sweep.end()
    assert code == 0, said
    assert 1 <= len(before) < 16
    assert sum("Job has timed out" in text for text in sweep.logs().values()) == 1
    _, jobs, found = table(tmp_path)
    assert found["status"].tolist() == ["finished"] * 16
    states = Counter(run.info.status for run in jobs)
    assert states["FINISHED"] == 16
    assert {*states} <= {"FINISHED", "KILLED"}


def test_a_task_whose_time_is_up_too_often_ends_there(slurm, sent, alone, tmp_path):
    endless = [*WORLD, "model.steps=20,1000000", "exp=faces_to_words"]
    with sent("o", *endless, *LIMIT, "hydra.launcher.max_num_timeout=0", stores=alone) as sweep:
        sweep.until(lambda: any("training shrunk+steps=1000000" in text for text in sweep.logs().values()))
        last = task(slurm, 1)
        slurm("scontrol", "update", f"JobId={last}", "EndTime=now+5")
        code, said = sweep.end()
    assert code == 1, said
    assert any("It works on until SLURM ends it" in text for text in sweep.logs().values())
    _, jobs, found = table(tmp_path)
    assert found["status"].tolist() == ["finished", "failed"]
    assert found["reason"][1].startswith(f"SLURM task {last} is over: TIMEOUT. It said: ")
    assert sorted(run.info.status for run in jobs) == ["FINISHED", "KILLED"]


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
    assert list((tmp_path / "o" / job_batch.FOLDER).glob("*.pkl")) == []
