"""Runs the entry in this process, so that tests can look inside."""

import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pandas as pd
import torch

from src import run, stimuli
from src.embeddings import store
from src.encoders.openclip import OpenClip
from tests.paths import CHECKOUT

DIES = """
import os, signal, sys
from src import run
from src.jobs import encoder_job
left, perform = int(sys.argv.pop(1)), encoder_job.perform
def counted(*given):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return perform(*given)
encoder_job.perform, sys.argv[0] = counted, "src/run.py"
sys.exit(run.main())
"""


@dataclass
class Swept:
    """What a command left."""

    code: int
    output: Path
    passes: int  # forward passes of an encoder
    trained: int  # toys trained

    def analyses(self) -> pd.DataFrame:
        parts = [pd.read_csv(path) for path in sorted(self.output.glob("*/results/analyses.csv"))]
        return pd.concat(parts, ignore_index=True)

    def results(self, exp: str) -> Path:
        (found,) = [
            path.parent
            for path in self.output.glob("*/results/analyses.csv")
            if pd.read_csv(path)["exp"][0] == exp
        ]
        return found


def command(output: Path, *arguments: str) -> Swept:
    """Run `python -m src.run` with its memory of earlier commands wiped."""
    from src.demo import toys

    store._kept.clear()
    stimuli._tables.clear()
    place = "hydra.sweep.dir" if "-m" in arguments else "hydra.run.dir"
    argv = ["src/run.py", *arguments, f"{place}={output}"]
    with (
        mock.patch.object(sys, "argv", argv),
        mock.patch.object(
            OpenClip, "encode_images", autospec=True, side_effect=OpenClip.encode_images
        ) as images,
        mock.patch.object(
            OpenClip, "encode_texts", autospec=True, side_effect=OpenClip.encode_texts
        ) as texts,
        mock.patch.object(toys, "train", autospec=True, side_effect=toys.train) as train,
        torch.random.fork_rng(devices=[]),
    ):
        code = run.main()
    return Swept(code, output, images.call_count + texts.call_count, train.call_count)


def killed(after: int, *arguments: str) -> None:
    """Run `python -m src.run` in a process that kills itself in the job after so many that it computed."""
    ended = subprocess.run(
        [sys.executable, "-c", DIES, str(after), *arguments],
        cwd=CHECKOUT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == -signal.SIGKILL, ended.stdout + ended.stderr
