"""SIGKILL at seeded points: the next run completes, and what it leaves is what nobody disturbed."""

import random
import zlib

import pytest

from tests.faults.stages import Bench, content, half_written, statuses

# Points of each stage: steps (before the n-th change of a file or commit), and moments.
QUICK = {"train": (1, 1), "sweep": (1, 1)}
SHORT = {"database": (1, 1), "draw": (12, 2), "train": (8, 6), "embed": (18, 8), "morph": (20, 6)}
SHORT |= {"morph by two": (2, 3)}
LONG = {"report": (5, 2), "all": (2, 1)}
SWEEP = {"sweep": (11, 4)}


def survived(bench: Bench, stage: str, **kill: float) -> str:
    """Kill a stage, see that nothing half-written is seen, run it again; what it was about to do."""
    bench.restore(stage)
    killed = bench.run(stage, **kill)
    while not killed.status:  # it ended before: no two runs take the same time, or the same steps
        kill = {kind: type(when)(when * 0.7) for kind, when in kill.items()}
        bench.restore(stage)
        killed = bench.run(stage, **kill)
    where = f"{stage} killed at {kill}, step {killed.steps}: {killed.step.replace(str(bench.kept), '')}"
    assert killed.status == -9, f"{where}\n{killed.said}"
    assert half_written(bench.kept) == [], where
    stale = {run for run, status in statuses(bench.kept).items() if status == "RUNNING"}
    again = bench.run(stage)
    assert again.status == 0, f"{where}\n{again.said}"
    assert content(bench.kept) == bench.wanted[stage], where
    after = statuses(bench.kept)
    assert {after[run] for run in stale} <= {"KILLED"}, where
    assert "RUNNING" not in after.values(), where
    return where


def survives(bench: Bench, stage: str, steps: int, moments: int) -> None:
    count = 0
    for kill in points(bench, stage, steps, moments, seed=1):
        print("survived:", survived(bench, stage, **kill), flush=True)
        count += 1
    print(f"{stage}: {count} kills survived", flush=True)
    assert count == steps + moments


def points(bench: Bench, stage: str, steps: int, moments: int, seed: int = 0):
    """Seeded points of a stage: every step once before any twice."""
    rng = random.Random(zlib.crc32(f"{stage} {seed}".encode()))
    ended = bench.timed(stage)
    for step in sorted(rng.sample(range(1, ended.steps + 1), min(steps, ended.steps))):
        yield {"die_at": step}
    for _ in range(moments):
        yield {"kill_after": round(rng.uniform(0.02, ended.seconds), 3)}


@pytest.mark.parametrize("stage", QUICK)
def test_a_killed_stage_goes_on_and_leaves_the_same_bytes(bench, stage):
    for kill in points(bench, stage, *QUICK[stage]):
        survived(bench, stage, **kill)


@pytest.mark.thorough
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("stage", SHORT)
def test_a_short_stage_survives_many_kills(bench, stage):
    survives(bench, stage, *SHORT[stage])


@pytest.mark.thorough
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("stage", LONG)
def test_a_long_stage_survives_many_kills(bench, stage):
    survives(bench, stage, *LONG[stage])


@pytest.mark.thorough
@pytest.mark.timeout(3000)
def test_a_sweep_survives_many_kills(bench):
    survives(bench, "sweep", *SWEEP["sweep"])


assert sum(map(sum, (SHORT | LONG | SWEEP).values())) >= 100
