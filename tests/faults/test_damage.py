"""Damage files, fill the disk, lock the database, set the clock, and end owners of workers."""

import ctypes
import os
import random
import sqlite3
import subprocess
import time
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from threading import Timer

import pytest

from src.storage import cache
from tests.faults.stages import STORES, content, entries, finished, finished_sweeps, half_written, statuses


def flipped(content: bytes) -> bytes:
    rng = random.Random(zlib.crc32(content))
    position = rng.randrange(len(content))
    return content[:position] + bytes([content[position] ^ 1 << rng.randrange(8)]) + content[position + 1 :]


DAMAGES = {
    "halved": lambda content: content[: len(content) // 2],
    "emptied": lambda content: b"",
    # Blocks that were allocated and never written.
    "zeroed": lambda content: content[: len(content) // 3] + bytes(len(content) - len(content) // 3),
    "flipped": flipped,
}
# Where each damage takes long, one in the thorough tests and all in the exhaustive ones.
FLIPPED_OR_ALL = [
    pytest.param(name, marks=[] if name == "flipped" else pytest.mark.exhaustive) for name in DAMAGES
]


@pytest.mark.thorough
def test_no_damaged_file_of_a_store_goes_unnoticed(bench):
    """Rewrite every file of every entry: pictures, tables, weights, vectors, manifests."""
    bench.start("embed")
    bench.succeed("embed")
    noticed = Counter()
    for entry in entries(bench.stores):
        for path in sorted(path for path in entry.rglob("*") if path.is_file()):
            good, files = path.read_bytes(), cache.read_manifest(entry)["files"]
            for damage, spoil in DAMAGES.items():
                path.write_bytes(spoil(good))
                noticed[damage] += bool(cache.find_damage(entry))
                # A damaged manifest is harmless if its list of files is intact.
                harmless = path.name == cache.MANIFEST and not cache.find_damage(entry)
                assert (
                    cache.read_manifest(entry)["files"] == files if harmless else cache.find_damage(entry)
                ), path
            path.write_bytes(good)
    assert min(noticed[damage] for damage in DAMAGES) > 40


@pytest.mark.thorough
@pytest.mark.parametrize(("damage", "resume"), zip(DAMAGES, ["true", "false"] * 2, strict=True))
def test_a_damaged_store_is_recomputed_with_the_same_results(bench, damage, resume):
    """Damage a file of every entry and of every finished run, and all results and YAMLs of job folders."""
    rng = random.Random(repr((damage, resume)))
    bench.start("sweep", at="report")
    paths = [
        rng.choice(sorted(path for path in entry.rglob("*") if path.name != cache.MANIFEST))
        for entry in entries(bench.stores)
    ]
    damaged_entries = len(paths)
    paths += [rng.choice(sorted(folder.glob("results/*"))) for *_, folder in finished(bench.stores)]
    for path in [*paths, *bench.stores.glob("out/*/results/*"), *bench.stores.glob("out/**/*.yaml")]:
        path.write_bytes(DAMAGES[damage](path.read_bytes()))
    ended = bench.succeed("sweep", f"resume={resume}")
    # Damaged runs need no message: a job whose entries are recomputed is recomputed itself.
    assert ended.printed.count("is damaged") >= damaged_entries, ended.printed
    # Results of the old run stay damaged: the job has a new run.
    assert [problem for problem in half_written(bench.stores) if "finished run" not in problem] == []
    assert bench.lost("sweep") == set()


@pytest.mark.thorough
@pytest.mark.parametrize("damage", FLIPPED_OR_ALL)
def test_a_report_of_damaged_files_names_them(bench, damage):
    for name in ("summary/asked.json", "summary/jobs.csv", "results"):
        bench.start("sweep", at="report")
        path = finished_sweeps(bench.stores)[0][1] / name
        if name == "results":
            path = min(finished(bench.stores)[0][3].glob("results/*"))
        path.write_bytes(DAMAGES[damage](path.read_bytes()))
        assert "Traceback" not in bench.succeed("report").printed
    assert "cannot be read" in (bench.stores / "report" / "index.html").read_text()


mounting = pytest.mark.skipif(
    os.geteuid() != 0 or not hasattr(ctypes.CDLL(None), "mount"), reason="only root mounts a small disk"
)
# For each stage: the folder that is on a separate disk, and a size in KiB that is too small for it.
SMALL = {"draw": ("stimuli", 64), "train": ("checkpoints", 64), "embed": ("embeddings", 4)}
SMALL |= {"morph": ("morphs", 32), "sweep": ("out", 64), "report": ("report", 64)}


@contextmanager
def mounted(folder, *options):
    """Add a file system at a folder, and remove it afterwards with all it holds."""
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["mount", *options, str(folder)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no small disk can be mounted here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@mounting
@pytest.mark.parametrize(
    "stage", [pytest.param(name, marks=[] if name == "embed" else pytest.mark.thorough) for name in SMALL]
)
def test_a_full_or_read_only_disk_is_named_and_with_room_the_stage_completes(bench, stage):
    name, room = SMALL[stage]
    for option in (f"size={room}k", "ro"):
        bench.start(stage)
        folder = bench.stores / name
        with mounted(folder, "-t", "tmpfs", "-o", option, "tmpfs"):
            bench.fail(stage, folder)
            assert half_written(bench.stores) == []
            assert name not in STORES or not [path for path in folder.rglob("*") if path.is_file()]
        bench.resume(stage)


@mounting
@pytest.mark.thorough
def test_a_full_disk_below_the_runs(bench):
    """Check that the database is intact, and that the results of finished runs are complete."""
    bench.start("sweep")
    folder, aside = bench.stores / "mlruns", bench.stores / "aside"
    used = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) // 1024
    folder.rename(aside)
    for spare in (16, 48, 96, 200):
        with mounted(folder, "-t", "tmpfs", "-o", f"size={used + 64 + spare}k", "tmpfs"):
            subprocess.run(["cp", "-r", f"{aside}/.", str(folder)], check=True)
            bench.fail("sweep", folder)
            assert half_written(bench.stores) == []
    folder.rmdir()
    aside.rename(folder)
    bench.resume("sweep")


@mounting
@pytest.mark.thorough
def test_a_complete_store_may_be_read_only(bench):
    bench.start("sweep", at="report")
    with ExitStack() as stack:
        for name in STORES:
            folder = bench.stores / name
            stack.enter_context(mounted(folder, "--bind", "-o", "ro", str(folder)))
        bench.succeed("sweep", "resume=false")
    assert content(bench.stores) == bench.wanted["sweep"]


def test_a_limit_on_the_size_of_files_is_like_a_full_disk(bench):
    bench.start("embed")
    ended = bench.fail("embed", bench.stores, largest=1500)
    assert half_written(bench.stores) == []
    assert any(str(bench.stores / name) in ended.printed for name in ("embeddings", "pictures"))
    bench.resume("embed")


@contextmanager
def locked(bench, seconds=600):
    """Lock the database from this process, for at most `seconds`."""
    path = bench.stores / "mlruns" / "mlflow.db"
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    database.execute("BEGIN EXCLUSIVE")
    timer = Timer(seconds, database.close)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        database.close()


@pytest.mark.thorough
def test_a_database_that_is_locked_for_seconds_is_waited_for(bench):
    bench.start("sweep")
    with locked(bench, 4):
        bench.succeed("sweep")
    assert set(statuses(bench.stores).values()) == {"FINISHED"}


@pytest.mark.thorough
def test_a_database_that_is_locked_permanently_is_reported(bench):
    bench.start("sweep")
    with locked(bench):
        ended = bench.fail("sweep", "mlflow.db", limit=200)
    assert ended.seconds < 180
    assert "Another process has locked it" in ended.printed
    bench.succeed("sweep")


@pytest.mark.exhaustive
@pytest.mark.parametrize("job", ["#0", "#1"])
def test_a_database_that_is_locked_in_the_middle_of_a_job(bench, job):
    bench.start("sweep")
    log = bench.log
    log.unlink()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(bench.fail, "sweep", "mlflow.db", limit=400)
        while not log.exists() or f"\t{job} :" not in log.read_text():
            time.sleep(0.01)
            assert not running.done(), running.result()
        with locked(bench):
            running.result()
    bench.resume("sweep")


@pytest.mark.thorough
@pytest.mark.parametrize("damage", FLIPPED_OR_ALL)
def test_a_damaged_database_is_reported_or_harmless(bench, damage):
    bench.start("sweep", at="report")
    path = bench.stores / "mlruns" / "mlflow.db"
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    ended = bench.run("sweep", limit=200)
    assert "Traceback" not in ended.printed, ended.printed
    if ended.status:
        assert ended.status == 1
        assert "mlflow.db" in ended.printed
        path.rename(path.with_name("lost.db"))
        bench.succeed("sweep")
    # The flipped bit may lie in the name of a column that nothing reads.
    assert bench.lost("sweep") <= {"schema"}


CLOCK_ERROR = -6 * 3600.0  # seconds


@pytest.mark.thorough
@pytest.mark.parametrize("resume", ["true", pytest.param("false", marks=pytest.mark.exhaustive)])
def test_a_sweep_begun_before_its_predecessor_is_the_latest_all_the_same(bench, resume):
    bench.start("report")
    for path in bench.stores.rglob("*"):
        os.utime(path, (time.time() - CLOCK_ERROR,) * 2)
    ended = bench.succeed("sweep", f"resume={resume}", clock=CLOCK_ERROR)
    # Jobs are reused although their files are later than the clock.
    reused = "2 of 2 jobs were finished already" in " ".join(ended.printed.split())
    assert reused == (resume == "true")
    assert set(statuses(bench.stores).values()) == {"FINISHED"}
    backwards, first = (run for run, _ in finished_sweeps(bench.stores))
    bench.succeed("report")
    text = (bench.stores / "report" / "report.json").read_text()
    assert backwards in text
    assert first not in text
    assert bench.lost("sweep") == set()


@pytest.mark.thorough
def test_workers_that_morph_end_with_their_owner_and_so_does_its_lock(bench):
    bench.start("morph by two")
    killed = bench.run("morph by two", alone=3)
    assert killed.status == -9
    assert killed.orphans < 30
    assert half_written(bench.stores) == []
    bench.succeed("morph by two", limit=120)
    assert content(bench.stores) == bench.wanted["morph by two"]


@mounting
@pytest.mark.thorough
def test_workers_that_load_pictures_end_with_their_owner(bench):
    """Load pictures in worker processes: that happens where the disk has no room for resized ones."""
    bench.start("embed")
    workers = ["model.batch_size=1", "trainer.workers=2"]
    with mounted(bench.stores / "pictures", "-t", "tmpfs", "-o", "size=1m", "tmpfs"):
        killed = bench.run("embed", *workers, alone=2)
        assert killed.status == -9, killed.printed
        assert killed.orphans < 30
        bench.succeed("embed", *workers)
    assert half_written(bench.stores) == []
    assert list((bench.stores / "embeddings" / "faces").iterdir())
