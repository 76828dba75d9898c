"""trainer=ddp from the command line: two processes, one of them killed midway, or all of them stopped."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from mlflow import MlflowClient

from tests.conftest import places
from tests.paths import CHECKOUT
from tests.test_determinism import WORLD, hashes

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1500)]

# A picture, or a sentence, at a time: so that there is a midway.
SLOWLY = [*WORLD, "model.batch_size=1", "exp=faces_to_words"]
SEVERAL = ["trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=2"]


def started(folder: Path, *overrides: str) -> subprocess.Popen:
    """A command in a session of its own, by which what it leaves is found."""
    command = [sys.executable, "-m", "src.run", *SLOWLY, *places(folder), *overrides]
    command += [f"hydra.run.dir={folder}/output", "hydra/job_logging=stdout"]
    return subprocess.Popen(
        command,
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        # A background shell has its children ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def of_session(number: int) -> list[psutil.Process]:
    """Its processes, but for those that have ended and wait to be noticed: these hold no memory any more."""
    found = []
    for process in psutil.process_iter():
        try:
            # Of a process that has let go of its memory the command line is gone, too.
            if os.getsid(process.pid) == number and process.cmdline():
                found.append(process)
        except (ProcessLookupError, psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
    return found


def midway(process: subprocess.Popen, folder: Path) -> list[psutil.Process]:
    """Wait until vectors are being written; gives the processes that write them."""
    until = time.monotonic() + 600
    while not list(folder.glob("embeddings/*/.*/embedding.safetensors")):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < until
        time.sleep(0.02)
    return [
        child for child in psutil.Process(process.pid).children() if "spawn_main" in " ".join(child.cmdline())
    ]


def finished(folder: Path, *overrides: str) -> dict[str, str]:
    process = started(folder, *overrides)
    said, _ = process.communicate(timeout=600)
    assert process.returncode == 0, said
    return hashes(folder / "output" / "results")


@pytest.fixture(scope="module")
def one(tmp_path_factory) -> dict[str, str]:
    return finished(tmp_path_factory.mktemp("one"), "trainer=cpu", "trainer.workers=0")


def nothing_half_written(folder: Path) -> None:
    assert [path for path in folder.glob("embeddings/*/*") if path.name.startswith(".")] == []


def test_one_killed_midway_is_an_error_and_the_same_command_goes_on(tmp_path, one):
    process = started(tmp_path, *SEVERAL)
    ranks = midway(process, tmp_path)
    assert len(ranks) == 2
    ranks[1].kill()
    said, _ = process.communicate(timeout=600)
    assert process.returncode == 1
    assert "of 2 was ended by SIGKILL" in said
    assert "Traceback" not in said
    assert of_session(process.pid) == []
    nothing_half_written(tmp_path)
    client = MlflowClient(f"sqlite:///{tmp_path}/mlruns/mlflow.db")
    (experiment,) = [found for found in client.search_experiments() if found.name == "demo"]
    assert [run.info.status for run in client.search_runs([experiment.experiment_id])] == ["FAILED"]
    assert finished(tmp_path, *SEVERAL) == one


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopped_it_leaves_no_process(tmp_path, number, code):
    process = started(tmp_path, *SEVERAL)
    midway(process, tmp_path)
    process.send_signal(number)
    said, _ = process.communicate(timeout=600)
    assert process.returncode == code, said
    assert of_session(process.pid) == []
    nothing_half_written(tmp_path)


def test_killed_itself_it_takes_the_others_along(tmp_path):
    process = started(tmp_path, *SEVERAL)
    midway(process, tmp_path)
    process.kill()
    process.communicate(timeout=600)
    until = time.monotonic() + 300
    while of_session(process.pid) and time.monotonic() < until:
        time.sleep(0.1)
    assert of_session(process.pid) == []
