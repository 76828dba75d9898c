"""What belongs to all jobs of one command: its parent runs, its table, its failures."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hydra.experimental.callback import Callback

from src import outcomes

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from rich.console import Console

    from src.jobs import Job
    from src.plan import Planned

# Overrides that a job's names tell, or that decide no number.
TOLD: tuple[str, ...] = (
    "exp=",
    "model=",
    "dataset=",
    "debias=",
    "protocol",
    "seed=",
    "demo.",
    "model.name=",
    "hydra.",
)
TOLD += ("store.", "tracking", "trainer", "resume=", "plan=")


@dataclass
class Sweep:
    """The jobs of one command; a single job is a sweep without a parent run.

    Attributes:
        multirun: whether the command was given `-m`.
        globbed: whether its experiments were named by a glob, so that one that cannot be served is
            listed rather than an error.
        parts: by dataset.
        rejected: jobs that could not even be named or tracked.
        planned: what a plan says of each job.
        labels: names of its jobs.
    """

    multirun: bool = False
    globbed: bool = False
    parts: dict[str, outcomes.Part] = field(default_factory=dict)
    rejected: list[outcomes.Outcome] = field(default_factory=list)
    planned: list[Planned] = field(default_factory=list)
    labels: set[str] = field(default_factory=set)

    def told_apart(self, job: Job, overrides: list[str]) -> Job:
        """The job under a model name that no other job of the sweep bears in the same experiment.

        Where the YAMLs' names are taken (two folders of vectors, two sizes of a dataset), the
        overrides that no name tells yet are appended.
        """
        if job.label in self.labels:
            untold = [item for item in overrides if not item.startswith(TOLD)]
            job = replace(job, model="+".join([job.model, *untold]))
        self.labels.add(job.label)
        return job

    def part(self, job: Job) -> outcomes.Part:
        """The part that a job belongs to. Its first job opens the parent run: by then all compose."""
        from src import pipeline
        from src.tracking import Tracker

        if job.dataset not in self.parts:
            tracker = Tracker(job.cfg.tracking.uri)
            parent = tracker.open(job.dataset, "sweep") if self.multirun else None
            if parent:
                parent.log(tags={**pipeline.provenance(), "kind": "sweep", "dataset": job.dataset})
            self.parts[job.dataset] = outcomes.Part(tracker, parent)
        return self.parts[job.dataset]

    def close(self, status: str) -> bool:
        """Show the tables, keep them with the parent runs, and end these.

        Args:
            status: FINISHED, FAILED or KILLED.

        Returns:
            Whether a job failed.
        """
        from rich.console import Console

        # A file or a pipe has no width: tables are not squeezed into 80 columns there.
        console = Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 120)
        if not self.parts and not self.rejected and not self.planned:
            nothing = self.multirun and status == "FINISHED"
            if nothing:
                print("No job was run: a glob matched nothing. --help lists what there is.", file=sys.stderr)
            return nothing
        if self.planned:
            _show_plan(self.planned, console)
        for dataset, part in self.parts.items():
            outcomes.show(dataset, part, console)
            if part.parent:
                outcomes.keep(dataset, part, part.parent)
                ended = "FAILED" if part.count(outcomes.FAILED) and status == "FINISHED" else status
                part.tracker.close(part.parent, ended)
        every = [*self.rejected, *(outcome for part in self.parts.values() for outcome in part.outcomes)]
        failed = [outcome for outcome in every if outcome.status == outcomes.FAILED]
        # A job by itself has said already why it failed.
        if failed and self.multirun:
            outcomes.reasons(failed, "Failed", console)
        return bool(failed)


def _show_plan(planned: list[Planned], console: Console) -> None:
    from src import plan
    from src.report import tables

    for table, title in plan.frames(planned):
        console.print(tables.plain(table, title))


# Hydra gives a job no way to speak of the sweep that it belongs to: it is kept here.
current = Sweep()


class SweepCallback(Callback):
    """Tells the jobs of a sweep, before any is composed, that they are one."""

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """See Hydra's `Callback`."""
        asked = [*config.hydra.overrides.task]
        if config.hydra.sweeper.get("params"):
            asked += [f"{name}={value}" for name, value in config.hydra.sweeper.params.items()]
        current.multirun = True
        current.globbed = any(item.startswith("exp=") and "glob(" in item for item in asked)
