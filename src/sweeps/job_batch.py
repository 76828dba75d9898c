"""Write batches of jobs for other processes, one per model so that weights load once; collect their results.

A batch is a JSON file with the overrides of its jobs and the ids of the parent runs. Each job writes its
outcome to a JSON file and its results to its output folder. A process that gets a batch again resumes it.
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
from src.jobs.run_metadata import run_name
from src.jobs.runner import FAILED, FINISHED, REUSED, Outcome
from src.storage import results
from src.sweeps.job_status import DatasetRecorder, SweepJob
from src.sweeps.overrides import MODELS

if TYPE_CHECKING:
    from src.sweeps.sweep import Sweep

log = logging.getLogger(__name__)

# Folder in the sweep's folder, for batches, outcomes, and logs of the processes.
FOLDER = "batches"

# Settings of Hydra that concern the sweep, not its jobs.
SWEEP_SETTINGS = (
    *("hydra/launcher", "hydra.launcher", "hydra/sweeper", "hydra.sweeper"),
    *("hydra.sweep.dir", "hydra.mode", "hydra.searchpath"),
)


# Module of a command, name and folder of its main config, and its overrides of Hydra's settings.
Origin = tuple[str, str, str, list[str]]


@dataclass(frozen=True)
class Batch:
    """Jobs that one process runs; the first four fields are the command's `Origin`."""

    module: str
    config_name: str
    config_dir: str
    overrides: list[str]
    jobs: list[tuple[int, list[str], str]]  # number, overrides and name of the model of each
    parents: Mapping[str, str]  # dataset -> id of its parent run
    globbed: bool  # see `Sweep`
    command: str  # see `Sweep`


def origin(config: DictConfig, module: str) -> Origin:
    """Return the origin of a sweep, from its config with Hydra's settings."""
    hydra: Any = config.hydra
    sources = {source.provider: source.path for source in hydra.runtime.config_sources}
    given = [item for item in hydra.overrides.hydra if not item.lstrip("+~").startswith(SWEEP_SETTINGS)]
    # Hydra's name of the folder passed by --config-dir.
    search_path = [f"file://{sources['command-line']}"] if "command-line" in sources else []
    search_path += [str(path) for path in hydra.searchpath or []]
    given.append(f"hydra.searchpath={quote(search_path)}")
    given.append(f"hydra.sweep.dir={quote(str(Path(hydra.sweep.dir).absolute()))}")
    return module, hydra.job.config_name, sources["main"], given


def grouped(entries: Iterable[SweepJob]) -> list[list[SweepJob]]:
    """Group jobs by model, in their order."""
    groups: dict[tuple[str, ...], list[SweepJob]] = {}
    for entry in entries:
        groups.setdefault(model_overrides(entry.overrides), []).append(entry)
    return list(groups.values())


def model_overrides(overrides: Sequence[str]) -> tuple[str, ...]:
    """Return the overrides that choose or change the model.

    >>> model_overrides(["exp=faces_to_words", "model=toy_s", "+model.steps=100", "seed=1"])
    ('+model.steps=100', 'model=toy_s')
    """
    keys = {item: item.partition("=")[0].lstrip("+~") for item in overrides}
    return tuple(sorted(item for item, key in keys.items() if key.split(".")[0].split("@")[0] in MODELS))


def new_folder(sweep_folder: Path) -> Path:
    """Make a new folder for batches, as one of an earlier command may still be in use."""
    names = (FOLDER if number == 1 else f"{FOLDER}-{number}" for number in count(1))
    folder = next(sweep_folder / name for name in names if not (sweep_folder / name).exists())
    folder.mkdir(parents=True)
    return folder


def write(folder: Path, groups: Sequence[Sequence[SweepJob]], sweep: Sweep, command: Origin) -> list[Path]:
    """Write a batch per group of jobs; return the paths."""
    parents = {dataset: item.parent.id for dataset, item in sweep.recorders.items() if item.parent}
    paths = [folder / f"{number}.json" for number in range(len(groups))]
    for path, group in zip(paths, groups, strict=True):
        jobs = [(entry.number, entry.overrides, entry.job.model) for entry in group]
        batch = Batch(*command, jobs, parents, sweep.globbed, sweep.command)
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
    """Read the outcome of a job; None if it has not ended."""
    try:
        return Outcome(**json.loads((folder / f"job-{number}.json").read_text()))
    except FileNotFoundError:
        return None


class ResultCollector:
    """Collector of the results that worker processes write to `folder`, the folder of the batches.

    `waiting` maps the numbers of jobs that have not ended to these jobs.
    """

    def __init__(
        self, folder: Path, entries: Sequence[SweepJob], recorders: Mapping[str, DatasetRecorder]
    ) -> None:
        self.folder, self._recorders = folder, recorders
        self.waiting = {entry.number: entry for entry in entries}
        self._lock = threading.Lock()

    def collect(self) -> None:
        """Record the jobs that ended since the last call."""
        with self._lock:
            # A change of mode makes a shared file system refresh its view of the folder.
            self.folder.chmod(self.folder.stat().st_mode)
            for number, entry in [*self.waiting.items()]:
                outcome = read_outcome(self.folder, number)
                if outcome is not None:
                    self._record(entry, outcome)

    def lose(self, numbers: Iterable[int], reason: str) -> None:
        """Mark jobs whose process died as failed, and close their runs, unless these finished."""
        self.collect()
        lost = [self.waiting[number] for number in numbers if number in self.waiting]
        self._close(lost, reason, failed=True)

    def stop(self, reason: str) -> None:
        """Record the jobs that ended, and close the runs of all others, which are not continued."""
        self.collect()
        self._close([*self.waiting.values()], reason, failed=False)

    def _close(self, entries: Sequence[SweepJob], reason: str, *, failed: bool) -> None:
        # Name of a run -> its id and status. A process may die after a job's run ended but before it writes
        # the outcome: then the store decides.
        runs: dict[str, tuple[str, str]] = {}
        for dataset, recorder in self._recorders.items():
            names = {run_name(entry.job) for entry in entries if entry.job.dataset == dataset}
            if names and recorder.parent:
                try:
                    runs |= recorder.tracker.end_children(recorder.parent, names, reason)
                except Exception as error:  # the store may be unreachable for a while
                    log.warning("cannot mark the runs of lost jobs yet: %r", error)
        with self._lock:
            for entry in entries:
                run, status = runs.get(run_name(entry.job), ("", ""))
                if entry.number not in self.waiting:
                    continue
                if status == "FINISHED":
                    self._record(entry, Outcome(FINISHED, run))
                elif failed:
                    self._record(entry, Outcome(FAILED, run, reason))

    def _record(self, entry: SweepJob, outcome: Outcome) -> None:
        analyses = None
        if outcome.status in (FINISHED, REUSED):
            try:
                analyses = results.read(entry.job.output)
            except OSError as error:
                outcome = replace(outcome, status=FAILED, reason=f"its results cannot be read: {error}")
        del self.waiting[entry.number]
        log.info("#%d : %s: %s", entry.number, entry.job.label, outcome.status.replace("_", " "))
        self._recorders[entry.job.dataset].record(entry, outcome, analyses)
