"""Run `python -m src.run`: in this process, with its work counted, or in one that kills itself."""

import signal
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pandas as pd
import torch

from src import run, stimuli
from src.embeddings import store
from src.encoders.openclip import OpenClip
from tests.paths import CHECKOUT

# Few draws of everything; and settings that suit the tables of `tests.conftest.precomputed`.
FEW_DRAWS = ["protocol.placebo=20", "protocol.bootstrap=20", "protocol.attribute_draws=2"]
FEW_DRAWS += ["protocol.property_draws=2"]
SMALL = ["protocol.k=11", "protocol.extremes=6", "protocol.set_size=15", *FEW_DRAWS]
# A hardly trained toy on the built-in world, so small that a sweep spends most of its time on files.
TINY = ["faces.per_group=6", "scenes.count=24", "words.count=24", "protocol.k=10", "protocol.extremes=5"]
TINY += ["model=toy_s", "model.steps=2", "model.name=tiny", "trainer=cpu", "trainer.workers=0"]
TINY += ["protocol.set_size=6"]

DIES = """
import os, signal, sys
from src import run
from src.jobs import encoder_job
left, perform = int(sys.argv.pop(1)), encoder_job.perform
def counted(*arguments):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return perform(*arguments)
encoder_job.perform, sys.argv[0] = counted, "src/run.py"
sys.exit(run.main())
"""


@dataclass
class Swept:
    """Exit status, output folder and counted work of a command."""

    code: int
    output: Path
    passes: int  # forward passes of an encoder
    trained: int  # toys trained

    def analyses(self) -> pd.DataFrame:
        paths = sorted(self.output.glob("*/results/analyses.csv"))
        return pd.concat(map(pd.read_csv, paths), ignore_index=True)

    def results(self, exp: str) -> Path:
        paths = self.output.glob("*/results/analyses.csv")
        (path,) = [path for path in paths if pd.read_csv(path)["exp"][0] == exp]
        return path.parent


def command(output: Path, *arguments: str) -> Swept:
    """Run `python -m src.run` without what earlier commands left in memory."""
    from src.demo import toys

    store._recent.clear()
    stimuli._tables.clear()
    folder_key = "hydra.sweep.dir" if "-m" in arguments else "hydra.run.dir"
    argv = ["src/run.py", *arguments, f"{folder_key}={output}"]
    spied = ((OpenClip, "encode_images"), (OpenClip, "encode_texts"), (toys, "train"))
    spies = [mock.patch.object(*x, autospec=True, side_effect=getattr(*x)) for x in spied]
    with ExitStack() as stack:
        images, texts, train = map(stack.enter_context, spies)
        stack.enter_context(mock.patch.object(sys, "argv", argv))
        stack.enter_context(torch.random.fork_rng(devices=[]))
        code = run.main()
    return Swept(code, output, images.call_count + texts.call_count, train.call_count)


def killed(after: int, *arguments: str) -> None:
    """Run `python -m src.run` in a process that computes `after` jobs and kills itself in the next."""
    ended = subprocess.run(
        [sys.executable, "-c", DIES, str(after), *arguments],
        cwd=CHECKOUT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == -signal.SIGKILL, ended.stdout + ended.stderr
