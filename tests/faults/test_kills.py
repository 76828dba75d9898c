"""SIGKILL at seeded points: the next run completes, and what it leaves is what nobody disturbed."""

import random
import zlib

import pytest

from tests.faults.stages import Bench, content, half_written, statuses

# Points of each stage: steps (before the n-th change of a file or commit), and moments.
QUICK = {"train": (1, 1), "sweep": (1, 1)}
FULL = {
    "database": (3, 3),
    "draw": (8, 2),
    "train": (8, 6),
    "embed": (12, 6),
    "morph": (12, 4),
    "morph by two": (2, 4),
    "sweep": (20, 8),
    "report": (8, 4),
    "all": (4, 4),
}


def survived(bench: Bench, stage: str, **kill: float) -> str:
    """Kill a stage, see that nothing half-written is seen, run it again; what it was about to do."""
    bench.restore(stage)
    killed = bench.run(stage, **kill)
    where = f"{stage} killed at {kill}, step {killed.steps}: {killed.step.replace(str(bench.kept), '')}"
    assert killed.status in (-9, 0), f"{where}\n{killed.said}"
    assert half_written(bench.kept) == [], where
    again = bench.run(stage)
    assert again.status == 0, f"{where}\n{again.said}"
    assert content(bench.kept) == bench.wanted[stage], where
    if (bench.kept / "mlruns" / "mlflow.db").exists():
        assert "RUNNING" not in statuses(bench.kept), where
    return where


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
@pytest.mark.parametrize("stage", FULL)
def test_every_stage_survives_many_kills(bench, stage):
    for kill in points(bench, stage, *FULL[stage], seed=1):
        print("survived:", survived(bench, stage, **kill), flush=True)
