"""A disk that is full, and one that may only be read: named, and nothing half-written."""

import ctypes
import os
import subprocess
from contextlib import contextmanager

import pytest

from tests.faults.stages import STAGES, STORES, content, half_written, statuses

mounting = pytest.mark.skipif(
    os.geteuid() != 0 or not hasattr(ctypes.CDLL(None), "mount"), reason="only root mounts a small disk"
)
# What is on a disk by itself, and how little room leaves the work undone: KiB.
SMALL = {
    "draw": ("stimuli", 64),
    "train": ("checkpoints", 64),
    "embed": ("embeddings", 4),
    "morph": ("morphs", 32),
    "sweep": ("out", 64),
    "report": ("report", 64),
}


@contextmanager
def mounted(folder, *options):
    """A file system of its own at a folder, taken away afterwards with what it holds."""
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["mount", *options, str(folder)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no small disk can be mounted here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def refused(bench, stage, place):
    """Run a stage that cannot write: no traceback, exit 1, and the place is named."""
    ended = bench.run(stage)
    assert ended.status == 1, ended.said
    assert "Traceback" not in ended.said, ended.said
    assert str(place) in ended.said, ended.said
    assert half_written(bench.kept) == []


def goes_on(bench, stage):
    again = bench.run(stage)
    assert again.status == 0, again.said
    assert content(bench.kept) == bench.wanted[stage]
    assert "RUNNING" not in statuses(bench.kept).values()


@mounting
@pytest.mark.parametrize(
    "stage", [pytest.param(name, marks=[] if name == "embed" else pytest.mark.thorough) for name in SMALL]
)
def test_a_full_disk_is_named_and_with_room_the_work_goes_on(bench, stage):
    name, room = SMALL[stage]
    bench.make(stage)
    bench.restore(stage)
    place = bench.kept / name
    with mounted(place, "-t", "tmpfs", "-o", f"size={room}k", "tmpfs"):
        refused(bench, stage, place)
        left = [path for path in place.rglob("*") if path.is_file() and name in STORES]
        assert left == []
    goes_on(bench, stage)


@mounting
@pytest.mark.thorough
def test_a_full_disk_below_the_runs(bench):
    """The database is whole, and holds no run that is not what it says."""
    bench.make("sweep")
    bench.restore("sweep")
    place = bench.kept / "mlruns"
    used = sum(path.stat().st_size for path in place.rglob("*") if path.is_file()) // 1024
    aside = bench.kept / "aside"
    place.rename(aside)
    for spare in (16, 48, 96, 200):
        with mounted(place, "-t", "tmpfs", "-o", f"size={used + 64 + spare}k", "tmpfs"):
            subprocess.run(["cp", "-r", f"{aside}/.", str(place)], check=True)
            refused(bench, "sweep", f"{place}")
    place.rmdir()
    aside.rename(place)
    goes_on(bench, "sweep")


@mounting
@pytest.mark.thorough
@pytest.mark.parametrize("stage", SMALL)
def test_a_folder_that_may_only_be_read_is_named(bench, stage):
    name, _ = SMALL[stage]
    bench.make(stage)
    bench.restore(stage)
    place = bench.kept / name
    with mounted(place, "-t", "tmpfs", "-o", "ro", "tmpfs"):
        refused(bench, stage, place)
    goes_on(bench, stage)


@mounting
@pytest.mark.thorough
def test_a_store_that_is_complete_may_be_one_that_is_only_read(bench):
    bench.make("sweep")
    bench.restore("report")
    for name in STORES:
        (bench.kept / name).mkdir(exist_ok=True)
        subprocess.run(["mount", "--bind", "-o", "ro", *[str(bench.kept / name)] * 2], check=True)
    try:
        ended = bench.run("sweep", "resume=false")
    finally:
        for name in STORES:
            subprocess.run(["umount", "--lazy", str(bench.kept / name)], check=True)
    assert ended.status == 0, ended.said
    assert content(bench.kept) == bench.wanted["sweep"]


def test_a_file_that_may_not_grow_is_like_a_full_disk(bench):
    """Where no disk can be mounted: the system refuses all files beyond a size."""
    bench.make("embed")
    bench.restore("embed")
    ended = bench.run("embed", largest=1500)
    assert (ended.status, half_written(bench.kept)) == (1, [])
    assert "Traceback" not in ended.said, ended.said
    assert str(bench.kept / "embeddings") in ended.said or str(bench.kept / "pictures") in ended.said
    goes_on(bench, "embed")


assert set(SMALL) <= set(STAGES)
