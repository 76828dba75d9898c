"""Run trainer=ddp from the command line on two processes; kill one of them, or stop all."""

import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from tests.clones import hashes
from tests.conftest import store_overrides
from tests.launched import Started, runs_below
from tests.test_determinism import WORLD

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1500)]

# One picture or sentence per batch, so that a command can be ended while it writes vectors.
SLOWLY = [*WORLD, "faces.per_group=20", "words.count=60", "model.batch_size=1", "exp=faces_to_words"]
SEVERAL = ["trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=2"]


def started(folder: Path, *overrides: str) -> Started:
    """Describe a command that runs in a new session, by which its processes are identified."""
    arguments = [*SLOWLY, *store_overrides(folder), *overrides, "hydra/job_logging=stdout"]
    return Started(folder / "output", arguments)


def of_session(number: int) -> list[psutil.Process]:
    """List the processes of a session, except zombies."""
    result = []
    for process in psutil.process_iter():
        try:
            # A zombie has no command line.
            if os.getsid(process.pid) == number and process.cmdline():
                result.append(process)
        except (ProcessLookupError, psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
    return result


def midway(job: Started, folder: Path) -> list[psutil.Process]:
    """Wait until vectors are being written; return the processes that write them."""
    job.until(lambda: list(folder.glob("embeddings/*/.*/embedding.safetensors")), 600, pause=0.02)
    return [child for child in job.children() if "spawn_main" in " ".join(child.cmdline())]


def finished(folder: Path, *overrides: str) -> dict[str, str]:
    with started(folder, *overrides) as job:
        code, printed = job.wait(600)
    assert code == 0, printed
    return hashes(folder / "output" / "results")


def assert_nothing_left(job: Started, folder: Path) -> None:
    assert of_session(job.process.pid) == []
    assert not list(folder.glob("embeddings/*/.*"))


def test_a_killed_process_is_an_error_and_the_same_command_resumes(tmp_path):
    with started(tmp_path, *SEVERAL) as job:
        ranks = midway(job, tmp_path)
        assert len(ranks) == 2
        ranks[1].kill()
        code, printed = job.wait(600)
    assert code == 1
    assert "of 2 was ended by SIGKILL" in printed
    assert "Traceback" not in printed
    assert_nothing_left(job, tmp_path)
    _, (run,) = runs_below(tmp_path, "demo")
    assert run.info.status == "FAILED"
    alone = finished(tmp_path / "alone", "trainer=cpu", "trainer.workers=0")
    assert finished(tmp_path, *SEVERAL) == alone


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.exhaustive)],
)
def test_a_stopped_command_leaves_no_process(tmp_path, number, code):
    with started(tmp_path, *SEVERAL) as job:
        midway(job, tmp_path)
        job.process.send_signal(number)
        ended, printed = job.wait(600)
    assert ended == code, printed
    assert_nothing_left(job, tmp_path)


@pytest.mark.exhaustive
def test_a_killed_command_takes_its_processes_along(tmp_path):
    with started(tmp_path, *SEVERAL) as job:
        midway(job, tmp_path)
        job.process.kill()
        job.wait(600)
    deadline = time.monotonic() + 300
    while of_session(job.process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert of_session(job.process.pid) == []
