"""A clock that was set back: nothing is skipped, taken for newer, or buried wrongly."""

import os
import time

import psutil
import pytest

from src.tracking import repair
from tests.faults.stages import asked, content, statuses

HOURS = -6 * 3600.0


@pytest.mark.thorough
def test_what_bears_a_later_time_is_neither_computed_anew_nor_missed(bench):
    bench.make("sweep")
    bench.restore("report")
    ended = bench.run("sweep", clock=HOURS)
    assert ended.status == 0, ended.said
    assert "2 of 2 jobs were finished already" in " ".join(ended.said.split())
    assert content(bench.kept) == bench.wanted["sweep"]


@pytest.mark.thorough
@pytest.mark.parametrize("resume", ["true", "false"])
def test_a_sweep_begun_before_its_own_past_is_the_latest_all_the_same(bench, resume):
    bench.make("report")
    bench.restore("report")
    for path in bench.kept.rglob("*"):
        os.utime(path, (time.time() - HOURS,) * 2)
    ended = bench.run("sweep", f"resume={resume}", clock=HOURS)
    assert ended.status == 0, ended.said
    assert set(statuses(bench.kept).values()) == {"FINISHED"}
    query = (
        "SELECT run_uuid FROM runs JOIN tags USING (run_uuid) WHERE key = 'kind' AND value = 'sweep' "
        "ORDER BY start_time"
    )
    backwards, first = (run for (run,) in asked(bench.kept, query))
    drawn = bench.run("report")
    assert drawn.status == 0, drawn.said
    shown = (bench.kept / "report" / "report.json").read_text()
    assert backwards in shown
    assert first not in shown
    found = content(bench.kept)
    wanted = bench.wanted["sweep"]
    assert {name for name in wanted if found.get(name) != wanted[name]} == set()


def test_a_process_lives_on_when_the_clock_is_set(monkeypatch):
    tags = repair.process()
    real = psutil.Process.create_time
    monkeypatch.setattr(psutil.Process, "create_time", lambda self: real(self) - 3600)
    assert not repair.gone(tags)
    assert repair.gone(tags | {repair.BORN: "another boot 1"})
    # Written by an older version: all that is known is the time of day.
    assert repair.gone({name: said for name, said in tags.items() if name != repair.BORN})
