"""End stages by SIGKILL at seeded points: the next run completes with the bytes of an undisturbed one."""

import random
import zlib

import pytest

from tests.faults.stages import Bench, half_written, statuses

# Number of kills of each stage: at steps (before a change of a file or a commit), and at moments.
QUICK = {"train": (1, 0), "sweep": (0, 1)}
THOROUGH = {"database": (1, 0), "draw": (3, 1), "train": (2, 1), "embed": (3, 1), "morph": (3, 1)}
THOROUGH |= {"morph by two": (1, 1), "report": (1, 0), "all": (1, 0), "sweep": (2, 0)}
EXHAUSTIVE = {"database": (1, 1), "draw": (12, 2), "train": (8, 6), "embed": (18, 8), "morph": (20, 6)}
EXHAUSTIVE |= {"morph by two": (2, 3), "report": (5, 2), "all": (2, 1), "sweep": (11, 4)}
assert sum(map(sum, EXHAUSTIVE.values())) >= 100


def survive(bench: Bench, stage: str, **kill: float) -> None:
    """End a stage by SIGKILL, check that nothing half-written is visible, and run it again."""
    bench.restore(stage)
    killed = bench.run(stage, **kill)
    while not killed.status:  # it ended before the kill: times and steps vary
        kill = {kind: type(when)(when * 0.7) for kind, when in kill.items()}
        bench.restore(stage)
        killed = bench.run(stage, **kill)
    print(f"{stage} killed at {kill}, step {killed.steps}: {killed.step.replace(str(bench.stores), '')}")
    assert killed.status == -9, killed.printed
    assert half_written(bench.stores) == []
    stale = {run for run, status in statuses(bench.stores).items() if status == "RUNNING"}
    bench.resume(stage)
    after = statuses(bench.stores)
    assert {after[run] for run in stale} <= {"KILLED"}


def points(bench: Bench, stage: str, steps: int, moments: int, seed: int) -> list[dict[str, float]]:
    """Draw where to kill a stage: at distinct steps, and at random moments."""
    rng = random.Random(zlib.crc32(f"{stage} {seed}".encode()))
    ended = bench.timed(stage)
    drawn = sorted(rng.sample(range(1, ended.steps + 1), min(steps, ended.steps)))
    times = [round(rng.uniform(0.02, ended.seconds), 3) for _ in range(moments)]
    return [*({"die_at": step} for step in drawn), *({"kill_after": seconds} for seconds in times)]


@pytest.mark.parametrize("stage", QUICK)
def test_a_killed_stage_completes_with_the_same_bytes(bench, stage):
    for kill in points(bench, stage, *QUICK[stage], seed=0):
        survive(bench, stage, **kill)


@pytest.mark.timeout(3000)
@pytest.mark.parametrize(
    "counts",
    [
        pytest.param(THOROUGH, marks=pytest.mark.thorough),
        pytest.param(EXHAUSTIVE, marks=pytest.mark.exhaustive),
    ],
    ids=["some", "many"],
)
@pytest.mark.parametrize("stage", THOROUGH)
def test_a_stage_survives_kills(bench, stage, counts):
    kills = points(bench, stage, *counts[stage], seed=1)
    assert len(kills) == sum(counts[stage])
    for kill in kills:
        survive(bench, stage, **kill)
