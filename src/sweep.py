"""What belongs to all jobs of one command: its parent runs, its table, its failures."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.experimental.callback import Callback

if TYPE_CHECKING:
    import pandas as pd
    from omegaconf import DictConfig
    from rich.console import Console

    from src.jobs import Job
    from src.plan import Planned
    from src.tracking import Run, Tracker

# How a job ends.
FINISHED, TAKEN_OVER, FAILED, NOT_APPLICABLE = "finished", "taken_over", "failed", "not_applicable"


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
TOLD += ("store.", "tracking", "trainer")


@dataclass(frozen=True)
class Outcome:
    """How a job ended.

    Attributes:
        status: one of those above.
        run: id of the MLflow run that holds its results, or its failure; empty where there is none.
        reason: why there are no results; empty where there are.
        asked: its overrides.
        columns: first columns of analyses.csv; empty where it could not even be named.
    """

    status: str
    run: str = ""
    reason: str = ""
    asked: str = ""
    columns: Mapping[str, object] = field(default_factory=dict)


@dataclass
class Part:
    """The jobs of one dataset, which is one MLflow experiment.

    Attributes:
        tracker: the store that holds their runs.
        parent: their parent run; None for a job that is no sweep's.
        analyses: analyses.csv of each finished job.
        outcomes: of all its jobs.
    """

    tracker: Tracker
    parent: Run | None
    analyses: list[pd.DataFrame] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)

    def count(self, status: str) -> int:
        """How many jobs ended so."""
        return sum(outcome.status == status for outcome in self.outcomes)


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
    parts: dict[str, Part] = field(default_factory=dict)
    rejected: list[Outcome] = field(default_factory=list)
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

    def part(self, job: Job) -> Part:
        """The part that a job belongs to. Its first job opens the parent run: by then all compose."""
        from src import pipeline
        from src.tracking import Tracker

        if job.dataset not in self.parts:
            tracker = Tracker(job.cfg.tracking.uri)
            parent = tracker.open(job.dataset, "sweep") if self.multirun else None
            if parent:
                parent.log(tags={**pipeline.provenance(), "kind": "sweep", "dataset": job.dataset})
            self.parts[job.dataset] = Part(tracker, parent)
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
            _show(dataset, part, console)
            if part.parent:
                _summarise(dataset, part, part.parent)
                ended = "FAILED" if part.count(FAILED) and status == "FINISHED" else status
                part.tracker.close(part.parent, ended)
        every = [*self.rejected, *(outcome for part in self.parts.values() for outcome in part.outcomes)]
        failed = [outcome for outcome in every if outcome.status == FAILED]
        # A job by itself has said already why it failed.
        if failed and self.multirun:
            _reasons(failed, "Failed", console)
        return bool(failed)


def _summarise(dataset: str, part: Part, parent: Run) -> None:
    import pandas as pd

    from src.report import figures, tables

    metrics: dict[str, float] = {
        status: part.count(status) for status in (FAILED, NOT_APPLICABLE, TAKEN_OVER)
    }
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if part.analyses:
            analyses = pd.concat(part.analyses, ignore_index=True)
            analyses.to_csv(folder / "analyses.csv", index=False)
            tables.summary(analyses).to_csv(folder / "summary.csv", index=False)
            title = f"{dataset}: {len(analyses)} analyses"
            figures.save(*figures.heatmap(analyses, title=title), folder / "heatmap.png")
            rho = analyses["rho"]
            metrics |= {"analyses": len(analyses), "rho": rho.mean(), "rho_sd": rho.std()}
        jobs = [
            {**outcome.columns, "status": outcome.status, "run": outcome.run}
            | {"reason": outcome.reason, "overrides": outcome.asked}
            for outcome in part.outcomes
        ]
        pd.DataFrame(jobs).to_csv(folder / "jobs.csv", index=False)
        parent.artifacts(folder, "summary")
    parent.log(metrics=metrics)


def _show(dataset: str, part: Part, console: Console) -> None:
    import pandas as pd

    from src.report import tables

    if part.analyses:
        console.print(tables.terminal(pd.concat(part.analyses), f"{dataset}: propagation"))
    taken = part.count(TAKEN_OVER)
    if taken:
        console.print(
            f"{taken} of {len(part.outcomes)} jobs were finished already: their results are taken over "
            "(resume=false computes them anew)."
        )
    if part.count(NOT_APPLICABLE):
        left = [outcome for outcome in part.outcomes if outcome.status == NOT_APPLICABLE]
        _reasons(left, "Not applicable", console)


def _reasons(outcomes: list[Outcome], title: str, console: Console) -> None:
    from src.report import tables

    console.print(tables.reasons({outcome.asked: outcome.reason for outcome in outcomes}, title))


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
