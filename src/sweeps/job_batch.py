"""Jobs that other processes make: which of them go together, what these are told, and what they answer.

A parcel is the jobs of one model, so that its weights are loaded once. It is a JSON file: overrides of its
jobs, and ids of the parent runs. Each job answers with a JSON file that says how it ended; its results lie in
its own folder, as ever. A process that is given a parcel once more goes on where the last one stopped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from src.errors import InputError
from src.sweeps import job_status, sweep
from src.sweeps.overrides import MODELS

if TYPE_CHECKING:
    from src.jobs.identity import Named

# Below the sweep's folder: what processes are told and answer, and what they print.
FOLDER = "parcels"


@dataclass(frozen=True)
class Sent:
    """A job that another process makes.

    Attributes:
        number: of the job within the sweep.
        overrides: of the job.
        job: its names.
    """

    number: int
    overrides: list[str]
    job: Named


@dataclass(frozen=True)
class Parcel:
    """What a process is given.

    Attributes:
        jobs: number and overrides of each.
        parents: dataset -> id of the parent run.
        labels: names that jobs of other parcels bear.
        globbed: as of `Sweep`.
    """

    jobs: list[tuple[int, list[str]]]
    parents: Mapping[str, str]
    labels: list[str]
    globbed: bool


def grouped(sent: Iterable[Sent]) -> list[list[Sent]]:
    """Jobs by what they choose of a model, in their order."""
    found: dict[tuple[str, ...], list[Sent]] = {}
    for one in sent:
        found.setdefault(chosen(one.overrides), []).append(one)
    return list(found.values())


def chosen(overrides: Sequence[str]) -> tuple[str, ...]:
    """Overrides that choose a model, or anything of it.

    >>> chosen(["exp=faces_to_words", "model=toy_s", "+model.steps=100", "seed=1"])
    ('+model.steps=100', 'model=toy_s')
    """
    groups = tuple(name.rstrip("=") for name in MODELS)
    keys = {item: item.partition("=")[0].lstrip("+~") for item in overrides}
    return tuple(sorted(item for item, key in keys.items() if key.split(".")[0].split("@")[0] in groups))


def fresh(sweep_folder: Path) -> Path:
    """A new folder for parcels: one of an earlier command may be in use still."""
    for number in count(1):
        folder = sweep_folder / (FOLDER if number == 1 else f"{FOLDER}-{number}")
        if not folder.exists():
            folder.mkdir(parents=True)
            return folder
    raise AssertionError


def post(folder: Path, groups: Sequence[Sequence[Sent]], whole: sweep.Sweep) -> list[Path]:
    """Write a parcel per group of jobs; returns the files."""
    parents = {dataset: part.parent.id for dataset, part in whole.parts.items() if part.parent}
    paths = []
    for number, group in enumerate(groups):
        own = {one.number for one in group}
        others = [one.job.label for other in groups for one in other if one.number not in own]
        jobs = [(one.number, one.overrides) for one in group]
        paths.append(folder / f"{number}.json")
        paths[-1].write_text(json.dumps(asdict(Parcel(jobs, parents, others, whole.globbed)), indent=1))
    return paths


def read(path: Path) -> Parcel:
    """What `post` wrote."""
    return Parcel(**json.loads(path.read_text()))


def answer(folder: Path, number: int) -> job_status.Outcome | None:
    """How a job of a parcel ended; None where it has not."""
    try:
        return job_status.Outcome(**json.loads((folder / f"job-{number}.json").read_text()))
    except FileNotFoundError:
        return None


@dataclass
class Within(sweep.Sweep):
    """The sweep as the process sees it that makes a parcel: its jobs answer; the tables are another's.

    Attributes:
        parents: of the parcel.
        place: folder of the answers.
        number: of the job that is made now.
    """

    parents: Mapping[str, str] = field(default_factory=dict)
    place: Path = Path()
    number: int = 0

    def part(self, job: Named) -> job_status.Part:
        """See `Sweep`; the parent run is open already."""
        from src.tracking import Run, Tracker

        if job.dataset not in self.parts:
            tracker = Tracker(job.cfg.tracking.uri)
            self.parts[job.dataset] = job_status.Part(tracker, Run(self.parents[job.dataset], tracker))
        return self.parts[job.dataset]

    def ended(self, outcome: job_status.Outcome, part: job_status.Part | None) -> None:  # noqa: ARG002
        """Answer; whoever reads finds all of it or nothing."""
        draft = self.place / f".job-{self.number}.json"
        draft.write_text(json.dumps(asdict(outcome)))
        draft.rename(self.place / f"job-{self.number}.json")

    def hopeless(self, error: Exception) -> bool:  # noqa: ARG002
        """Each job answers for itself."""
        return False

    def close(self, status: str) -> bool:  # noqa: ARG002
        """End runs that lost their store; all else is done by the process that sent the parcel."""
        for part in self.parts.values():
            with suppress(InputError):  # still out of reach
                part.tracker.settle()
        return False
