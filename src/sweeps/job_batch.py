"""Write batches of jobs for worker processes, and collect their results.

Each model has a batch of its own, so that its weights are loaded once. A batch is a JSON file with the
overrides of its jobs and the ids of the parent runs. Each job writes its outcome to a JSON file and its
results to its output folder. A worker skips the jobs that have an outcome, so a batch can be resumed.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from src.configs.composition import quote
from src.jobs.run_metadata import name_run
from src.jobs.runner import FAILED, FINISHED, REUSED, Outcome
from src.storage import results
from src.sweeps.job_status import DatasetRecorder, SweepJob
from src.sweeps.overrides import MODEL_GROUPS

if TYPE_CHECKING:
    from src.sweeps.sweep import Sweep

log = logging.getLogger(__name__)

# Subfolder of the sweep's folder for batches, outcomes, and logs of the workers.
FOLDER = "batches"

# Overrides of Hydra that workers do not get as the user wrote them: they concern only the sweep, or are
# replaced (the search path and the folder of the sweep).
SWEEP_SETTINGS = (
    *("hydra/launcher", "hydra.launcher", "hydra/sweeper", "hydra.sweeper"),
    *("hydra.sweep.dir", "hydra.mode", "hydra.searchpath"),
)


# Module of a command, name of its main config, folder of that config, and overrides of Hydra's settings: the
# inputs that a worker needs to compose the command's configs.
Origin = tuple[str, str, str, list[str]]


@dataclass(frozen=True)
class Batch:
    """Jobs that one worker runs; the first four fields are the command's `Origin`."""

    module: str
    config_name: str
    config_dir: str
    overrides: list[str]
    jobs: list[tuple[int, list[str], str]]  # number, overrides and model name of each job
    parents: Mapping[str, str]  # dataset -> id of its parent run
    has_glob: bool  # see `src.jobs.runner.run`
    command: str  # command line of the user


def build_origin(config: DictConfig, module: str) -> Origin:
    """Return the origin of a command's configs, from its module and its config with Hydra's settings."""
    hydra: Any = config.hydra
    sources = {source.provider: source.path for source in hydra.runtime.config_sources}
    hydra_overrides = [
        item for item in hydra.overrides.hydra if not item.lstrip("+~").startswith(SWEEP_SETTINGS)
    ]
    # `command-line` is Hydra's name of the folder passed by --config-dir.
    search_path = [f"file://{sources['command-line']}"] if "command-line" in sources else []
    search_path += [str(path) for path in hydra.searchpath or []]
    hydra_overrides.append(f"hydra.searchpath={quote(search_path)}")
    hydra_overrides.append(f"hydra.sweep.dir={quote(str(Path(hydra.sweep.dir).absolute()))}")
    return module, hydra.job.config_name, sources["main"], hydra_overrides


def group_by_model(sweep_jobs: Iterable[SweepJob]) -> list[list[SweepJob]]:
    """Group jobs by model; groups and their jobs are in the order of the sweep."""
    groups: dict[tuple[str, ...], list[SweepJob]] = {}
    for sweep_job in sweep_jobs:
        groups.setdefault(select_model_overrides(sweep_job.overrides), []).append(sweep_job)
    return list(groups.values())


def select_model_overrides(overrides: Sequence[str]) -> tuple[str, ...]:
    """Return the overrides that choose or change the model.

    >>> select_model_overrides(["exp=faces_to_words", "model=toy_s", "+model.steps=100", "seed=1"])
    ('+model.steps=100', 'model=toy_s')
    """
    keys = {item: item.partition("=")[0].lstrip("+~") for item in overrides}
    return tuple(
        sorted(item for item, key in keys.items() if key.split(".")[0].split("@")[0] in MODEL_GROUPS)
    )


def make_folder(sweep_folder: Path) -> Path:
    """Make a new folder for batches, as the folder of an earlier command may still be in use."""
    names = (FOLDER if number == 1 else f"{FOLDER}-{number}" for number in count(1))
    folder = next(sweep_folder / name for name in names if not (sweep_folder / name).exists())
    folder.mkdir(parents=True)
    return folder


def write(folder: Path, groups: Sequence[Sequence[SweepJob]], sweep: Sweep, origin: Origin) -> list[Path]:
    """Write one batch per group of jobs; return the path of each."""
    parents = {name: recorder.parent.id for name, recorder in sweep.recorders.items() if recorder.parent}
    paths = [folder / f"{number}.json" for number in range(len(groups))]
    for path, group in zip(paths, groups, strict=True):
        jobs = [(sweep_job.number, sweep_job.overrides, sweep_job.job.model) for sweep_job in group]
        batch = Batch(*origin, jobs, parents, sweep.has_glob, sweep.command)
        path.write_text(json.dumps(asdict(batch), indent=1))
    return paths


def read(path: Path) -> Batch:
    """Read a batch."""
    return Batch(**json.loads(path.read_text()))


def write_outcome(folder: Path, number: int, outcome: Outcome) -> None:
    """Write the outcome of a job atomically."""
    draft = folder / f".job-{number}.json"
    draft.write_text(json.dumps(asdict(outcome)))
    draft.rename(folder / f"job-{number}.json")


def read_outcome(folder: Path, number: int) -> Outcome | None:
    """Read the outcome of a job; return None if the job has not ended."""
    try:
        return Outcome(**json.loads((folder / f"job-{number}.json").read_text()))
    except FileNotFoundError:
        return None


class ResultCollector:
    """Collector of the results of worker processes.

    Attributes:
        folder: folder of the batches and outcomes.
        unfinished: number -> job, for each job whose outcome is not yet recorded.
    """

    def __init__(
        self, folder: Path, sweep_jobs: Sequence[SweepJob], recorders: Mapping[str, DatasetRecorder]
    ) -> None:
        self.folder, self._recorders = folder, recorders
        self.unfinished = {sweep_job.number: sweep_job for sweep_job in sweep_jobs}
        self._lock = threading.Lock()

    def collect(self) -> None:
        """Record the jobs that ended since the last call."""
        with self._lock:
            # Setting the mode, even to the same value, makes a network file system refresh its cached listing
            # of the folder.
            self.folder.chmod(self.folder.stat().st_mode)
            for number, sweep_job in [*self.unfinished.items()]:
                outcome = read_outcome(self.folder, number)
                if outcome is not None:
                    self._record(sweep_job, outcome)

    def mark_failed(self, numbers: Iterable[int], reason: str) -> None:
        """Mark the unfinished jobs of a dead worker, given by number, as failed; close their runs.

        Jobs whose runs ended before the worker died are recorded with the status of their run.
        """
        self.collect()
        lost_jobs = [self.unfinished[number] for number in numbers if number in self.unfinished]
        self._close(lost_jobs, reason, failed=True)

    def stop(self, reason: str) -> None:
        """Record the jobs that ended, and close the runs of all other jobs."""
        self.collect()
        self._close([*self.unfinished.values()], reason, failed=False)

    def _close(self, sweep_jobs: Sequence[SweepJob], reason: str, *, failed: bool) -> None:
        # (dataset, name of a run) -> its id and status. If a worker died after a job's run ended, before it
        # wrote the outcome, the status of the run decides.
        runs: dict[tuple[str, str], tuple[str, str]] = {}
        for dataset, recorder in self._recorders.items():
            names = {name_run(sweep_job.job) for sweep_job in sweep_jobs if sweep_job.job.dataset == dataset}
            if names and recorder.parent:
                try:
                    children = recorder.tracker.end_children(recorder.parent, names, reason)
                    runs |= {(dataset, name): child for name, child in children.items()}
                except Exception as error:  # the store may be unreachable for a while
                    log.warning("cannot mark the runs of lost jobs yet: %r", error)
        with self._lock:
            for sweep_job in sweep_jobs:
                key = sweep_job.job.dataset, name_run(sweep_job.job)
                run_id, status = runs.get(key, ("", ""))
                if sweep_job.number not in self.unfinished:
                    continue
                if status == "FINISHED":
                    self._record(sweep_job, Outcome(FINISHED, run_id))
                elif failed:
                    self._record(sweep_job, Outcome(FAILED, run_id, reason))

    def _record(self, sweep_job: SweepJob, outcome: Outcome) -> None:
        analyses = None
        if outcome.status in (FINISHED, REUSED):
            try:
                analyses = results.read(sweep_job.job.output)
            except OSError as error:
                outcome = replace(outcome, status=FAILED, reason=f"its results cannot be read: {error}")
        del self.unfinished[sweep_job.number]
        log.info("#%d : %s: %s", sweep_job.number, sweep_job.job.label, outcome.status.replace("_", " "))
        self._recorders[sweep_job.job.dataset].record(sweep_job, outcome, analyses)
