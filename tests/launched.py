"""Run commands in other processes; read their output, their results and their runs."""

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
from tests.commands import SMALL, Swept, command
from tests.conftest import precomputed, store_overrides
from tests.paths import CHECKOUT


def runs_below(folder, dataset="precomputed"):
    """Return the runs of the store below a folder, see `runs_of`."""
    return runs_of(f"sqlite:///{folder}/mlruns/mlflow.db", dataset)


def runs_of(uri, dataset="precomputed"):
    """Return two lists, each oldest first: the sweeps' parent runs, and the runs of jobs."""
    client = MlflowClient(uri)
    (experiment,) = [e.experiment_id for e in client.search_experiments() if e.name == dataset]
    runs = client.search_runs([experiment], order_by=["attributes.start_time ASC"])
    return [[run for run in runs if run.data.tags.get("kind") == kind] for kind in ("sweep", "job")]


def summary_file(folder, parent, name, dataset="precomputed"):
    return folder / "mlruns/artifacts" / dataset / parent.info.run_id / "artifacts/summary" / name


def result_files(output):
    """Return the content of all result files of a sweep's jobs, by relative path."""
    return {str(path.relative_to(output)): path.read_bytes() for path in sorted(output.glob("*/results/*"))}


@dataclass
class Started:
    """A command in another process, and its state while it runs."""

    output: Path
    arguments: list[str]
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    entry: str = "src.run"

    def __enter__(self):
        folder_key = "hydra.sweep.dir" if "-m" in self.arguments else "hydra.run.dir"
        self.process = subprocess.Popen(
            [sys.executable, "-m", self.entry, *self.arguments, f"{folder_key}={self.output}"],
            cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.environment,
            start_new_session=True,
            # Commands that a shell runs in the background ignore Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(120)

    def wait(self, seconds=1200):
        """Wait for the end; return exit status and output."""
        printed, _ = self.process.communicate(timeout=seconds)
        return self.process.returncode, printed

    def until(self, condition, seconds=900, pause=0.2):
        deadline = time.monotonic() + seconds
        while not condition():
            assert self.process.poll() is None, self.process.stdout.read()
            assert time.monotonic() < deadline
            time.sleep(pause)

    def logs(self):
        return {path.name: path.read_text() for path in (self.output / job_batch.FOLDER).glob("*log*")}

    def children(self):
        return psutil.Process(self.process.pid).children()


class TwoModels:
    """Two precomputed models, in folders of the same name: their jobs make two batches."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folders = [precomputed(folder / name / "lab", seed) for seed, name in enumerate("ab")]

    def __call__(self, name: str, *overrides: str) -> Swept:
        """Sweep both models over two experiments."""
        flags = [item for item in overrides if item.startswith("--")]
        overrides = [item for item in overrides if item not in flags]
        stores = store_overrides(self.folder / name)
        arguments = [*flags, *self.models(), "exp=glob(scenes_to_*)", *SMALL, *stores, *overrides]
        return command(self.folder / name, "-m", *arguments)

    def models(self) -> list[str]:
        """Return overrides that choose both models."""
        return ["model=precomputed", f"model.path={','.join(map(str, self.folders))}"]

    def slowly(self, name: str, *overrides: str) -> "Started":
        """Return a sweep to start (`with`): three jobs per model, each of which takes a few seconds.

        Jobs 0 to 2 are of the first model, jobs 3 to 5 of the second.
        """
        slow = ["exp=faces_to_words", "seed=0,1,2", *SMALL, "protocol.placebo=50000"]
        arguments = ["-m", *self.models(), *slow, *store_overrides(self.folder), *overrides]
        return Started(self.folder / name, arguments)
