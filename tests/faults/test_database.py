"""A database that another process holds, or that a power cut left in pieces."""

import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from tests.faults.stages import content, statuses
from tests.faults.test_damage import emptied, flipped, halved, zeroed

HOLD = """
import sqlite3, sys, time
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
time.sleep(float(sys.argv[2]))
"""


@contextmanager
def held(bench, seconds):
    """Another process has the database to itself for so long."""
    command = [sys.executable, "-c", HOLD, str(bench.kept / "mlruns" / "mlflow.db"), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        try:
            yield
        finally:
            holder.kill()


def test_a_database_that_is_held_for_seconds_is_waited_for(bench):
    bench.make("embed")
    bench.restore("sweep")
    with held(bench, 4):
        ended = bench.run("sweep")
    assert ended.status == 0, ended.said
    assert set(statuses(bench.kept).values()) == {"FINISHED"}


@pytest.mark.thorough
def test_a_database_that_is_held_for_ever_is_named_in_time(bench):
    bench.make("embed")
    bench.restore("sweep")
    with held(bench, 600):
        ended = bench.run("sweep", limit=200)
    assert ended.status == 1, ended.said
    assert ended.seconds < 180
    assert "Traceback" not in ended.said, ended.said
    assert "mlflow.db" in ended.said
    assert "Another process holds it" in ended.said
    again = bench.run("sweep")
    assert again.status == 0, again.said


@pytest.mark.thorough
@pytest.mark.parametrize("begun", ["#0", "#1"])
def test_a_database_that_is_taken_in_the_middle(bench, begun):
    """While the first job is at work, or the second."""
    import threading

    bench.make("sweep")
    bench.restore("sweep")
    ended, log = [], bench.server.folder / "log.txt"
    log.unlink()
    running = threading.Thread(target=lambda: ended.append(bench.run("sweep", limit=400)))
    running.start()
    while not log.exists() or f"\t{begun} :" not in log.read_text():
        time.sleep(0.01)
        assert running.is_alive()
    with held(bench, 600):
        running.join()
    assert ended[0].status == 1, ended[0].said
    assert "Traceback" not in ended[0].said, ended[0].said
    assert "mlflow.db" in ended[0].said
    again = bench.run("sweep")
    assert again.status == 0, again.said
    assert content(bench.kept) == bench.wanted["sweep"]
    assert "RUNNING" not in statuses(bench.kept).values()


@pytest.mark.thorough
@pytest.mark.parametrize("damage", [halved, zeroed, emptied, flipped])
def test_a_database_in_pieces_is_named_and_never_half_believed(bench, damage):
    bench.make("sweep")
    bench.restore("report")
    path = bench.kept / "mlruns" / "mlflow.db"
    path.write_bytes(damage(path.read_bytes()))
    ended = bench.run("sweep", limit=200)
    assert "Traceback" not in ended.said, ended.said
    if ended.status:
        assert ended.status == 1
        assert "mlflow.db" in ended.said
        path.rename(path.with_name("lost.db"))
        ended = bench.run("sweep")
        assert ended.status == 0, ended.said
    wanted = bench.wanted["sweep"]
    found = content(bench.kept)
    assert {name for name in wanted if found.get(name) != wanted[name]} == set()
