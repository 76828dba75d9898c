"""Batches of jobs that other processes run: the jobs of one model each, so that its weights are loaded once.

A batch is a JSON file: overrides of its jobs, and ids of the parent runs. Each job answers with a JSON file
of its outcome; its results lie in its output folder. A process that is given a batch again resumes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from src.jobs.runner import Outcome
from src.sweeps.job_status import SweepJob
from src.sweeps.overrides import MODELS

if TYPE_CHECKING:
    from src.sweeps.sweep import Sweep

# Below the sweep's folder: batches, outcomes, and logs of the processes.
FOLDER = "batches"

# Settings of Hydra's that say how a sweep is run, and nothing of its jobs.
OF_THE_SWEEP = (
    *("hydra/launcher", "hydra.launcher", "hydra/sweeper", "hydra.sweeper"),
    *("hydra.sweep.dir", "hydra.mode", "hydra.searchpath"),
)


@dataclass(frozen=True)
class Origin:
    """Command that a batch is of.

    Attributes:
        module: entry that runs its jobs.
        config_name: its config.
        config_dir: folder of its config.
        overrides: of Hydra's own settings.
    """

    module: str
    config_name: str
    config_dir: str
    overrides: list[str]


@dataclass(frozen=True)
class Batch:
    """Jobs that one process runs.

    Attributes:
        origin: command that they are of.
        jobs: number, overrides and name of the model of each.
        parents: dataset -> id of the parent run.
        globbed: see `Sweep`.
    """

    origin: Origin
    jobs: list[tuple[int, list[str], str]]
    parents: Mapping[str, str]
    globbed: bool


def origin(config: DictConfig, module: str) -> Origin:
    """Return the command of a sweep, as its processes need it.

    Args:
        config: config of the sweep, Hydra's part included.
        module: its entry.
    """
    hydra: Any = config.hydra
    sources = {source.provider: source.path for source in hydra.runtime.config_sources}
    given = [item for item in hydra.overrides.hydra if not item.lstrip("+~").startswith(OF_THE_SWEEP)]
    search = [f"file://{sources[name]}" for name in ("command-line",) if name in sources]
    search += [str(path) for path in hydra.searchpath or []]
    given.append(f"hydra.searchpath=[{','.join(map(_quoted, search))}]")
    given.append(f"hydra.sweep.dir={_quoted(Path(hydra.sweep.dir).absolute())}")
    return Origin(module, hydra.job.config_name, sources["main"], given)


def _quoted(text: object) -> str:
    escaped = str(text).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def grouped(entries: Iterable[SweepJob]) -> list[list[SweepJob]]:
    """Group jobs by the model that they choose, in their order."""
    groups: dict[tuple[str, ...], list[SweepJob]] = {}
    for entry in entries:
        groups.setdefault(model_overrides(entry.overrides), []).append(entry)
    return list(groups.values())


def model_overrides(overrides: Sequence[str]) -> tuple[str, ...]:
    """Return the overrides that choose a model, or anything of it.

    >>> model_overrides(["exp=faces_to_words", "model=toy_s", "+model.steps=100", "seed=1"])
    ('+model.steps=100', 'model=toy_s')
    """
    keys = {item: item.partition("=")[0].lstrip("+~") for item in overrides}
    return tuple(sorted(item for item, key in keys.items() if key.split(".")[0].split("@")[0] in MODELS))


def new_folder(sweep_folder: Path) -> Path:
    """Make a folder for batches; one of an earlier command may still be in use."""
    for number in count(1):
        folder = sweep_folder / (FOLDER if number == 1 else f"{FOLDER}-{number}")
        if not folder.exists():
            folder.mkdir(parents=True)
            return folder
    raise AssertionError


def write(folder: Path, groups: Sequence[Sequence[SweepJob]], sweep: Sweep, command: Origin) -> list[Path]:
    """Write a batch per group of jobs; return the files."""
    parents = {dataset: part.parent.id for dataset, part in sweep.parts.items() if part.parent}
    paths = [folder / f"{number}.json" for number in range(len(groups))]
    for path, group in zip(paths, groups, strict=True):
        jobs = [(entry.number, entry.overrides, entry.job.model) for entry in group]
        path.write_text(json.dumps(asdict(Batch(command, jobs, parents, sweep.globbed)), indent=1))
    return paths


def read(path: Path) -> Batch:
    """Read what `write` wrote."""
    fields = json.loads(path.read_text())
    return Batch(**{**fields, "origin": Origin(**fields["origin"])})


def write_outcome(folder: Path, number: int, outcome: Outcome) -> None:
    """Write the outcome of a job; a reader sees all of it or nothing."""
    draft = folder / f".job-{number}.json"
    draft.write_text(json.dumps(asdict(outcome)))
    draft.rename(folder / f"job-{number}.json")


def read_outcome(folder: Path, number: int) -> Outcome | None:
    """Read the outcome of a job; None if it has not ended."""
    try:
        return Outcome(**json.loads((folder / f"job-{number}.json").read_text()))
    except FileNotFoundError:
        return None
