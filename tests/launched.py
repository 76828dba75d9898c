"""What tests of launchers share: a sweep in a process of its own, and what a sweep leaves."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from mlflow import MlflowClient

from src.sweeps import job_batch
from tests.commands import Swept, command
from tests.conftest import places, precomputed
from tests.paths import CHECKOUT

SMALL = ["protocol.k=11", "protocol.extremes=6", "protocol.set_size=15"]


def store(folder, dataset="precomputed"):
    """Its parents, then its jobs, oldest first."""
    client = MlflowClient(f"sqlite:///{folder}/mlruns/mlflow.db")
    (experiment,) = [e.experiment_id for e in client.search_experiments() if e.name == dataset]
    every = client.search_runs([experiment], order_by=["attributes.start_time ASC"])
    return [[run for run in every if run.data.tags.get("kind") == kind] for kind in ("sweep", "job")]


def kept(folder, parent, name, dataset="precomputed"):
    return folder / "mlruns/artifacts" / dataset / parent.info.run_id / "artifacts/summary" / name


def left(output):
    return {str(path.relative_to(output)): path.read_bytes() for path in sorted(output.glob("*/results/*"))}


@dataclass
class Started:
    """A sweep in a process of its own, and what the tests look at while it runs."""

    output: Path
    arguments: list[str]
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))

    def __enter__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "src.run", "-m", *self.arguments, f"hydra.sweep.dir={self.output}"],
            cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.environment,
            start_new_session=True,
            # A background shell has its children ignore Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(120)

    def end(self, seconds=1200):
        said, _ = self.process.communicate(timeout=seconds)
        return self.process.returncode, said

    def until(self, true, seconds=900):
        deadline = time.monotonic() + seconds
        while not true():
            assert self.process.poll() is None, self.process.stdout.read()
            assert time.monotonic() < deadline
            time.sleep(0.2)

    def logs(self):
        return {path.name: path.read_text() for path in (self.output / job_batch.FOLDER).glob("*log*")}

    def children(self):
        return psutil.Process(self.process.pid).children()


class Labs:
    """Two folders of vectors of one name: two models, so two parcels; two experiments of each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folders = [precomputed(folder / name / "lab", seed) for seed, name in enumerate("ab")]

    def __call__(self, name: str, *overrides: str) -> Swept:
        """Sweep over them."""
        arguments = [*self.models(), "exp=glob(scenes_to_*)", *SMALL, *places(self.folder / name)]
        return command(self.folder / name, "-m", *arguments, *overrides)

    def models(self) -> list[str]:
        """Overrides that choose both."""
        return ["model=precomputed", f"model.path={','.join(map(str, self.folders))}"]

    def slowly(self, name: str, *overrides: str) -> "Started":
        """Start a sweep of three jobs each, of some seconds each."""
        slow = ["exp=faces_to_words", "seed=0,1,2", "protocol.bootstrap=30000", *SMALL]
        return Started(self.folder / name, [*self.models(), *slow, *places(self.folder), *overrides])
