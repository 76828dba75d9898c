"""Write and read batches of jobs for other processes, one per model, so that weights are loaded once.

A batch is a JSON file with the overrides of its jobs and the ids of the parent runs. Each job writes its
outcome to a JSON file and its results to its output folder. A process that gets a batch again resumes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from src.configs.composition import quote
from src.jobs.runner import Outcome
from src.sweeps.job_status import SweepJob
from src.sweeps.overrides import MODELS

if TYPE_CHECKING:
    from src.sweeps.sweep import Sweep

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
