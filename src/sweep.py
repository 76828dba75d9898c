"""What belongs to all jobs of one command: its parent runs, its table, its failures."""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.experimental.callback import Callback

if TYPE_CHECKING:
    import pandas as pd
    from omegaconf import DictConfig

    from src.jobs import Job
    from src.tracking import Run, Tracker


@dataclass
class Part:
    """The jobs of one dataset, which is one MLflow experiment.

    Attributes:
        tracker: the store that holds their runs.
        parent: their parent run; None for a job that is no sweep's.
        analyses: analyses.csv of each finished job.
        not_applicable: jobs that the dataset or the model cannot serve, each with its reason.
    """

    tracker: Tracker
    parent: Run | None
    analyses: list[pd.DataFrame] = field(default_factory=list)
    not_applicable: dict[str, str] = field(default_factory=dict)


@dataclass
class Sweep:
    """The jobs of one command; a single job is a sweep without a parent run.

    Attributes:
        multirun: whether the command was given `-m`.
        globbed: whether its experiments were named by a glob, so that one that cannot be served is
            listed rather than an error.
        parts: by dataset.
        failed: jobs that failed, each with its reason.
    """

    multirun: bool = False
    globbed: bool = False
    parts: dict[str, Part] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

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
        if not self.parts and not self.failed:
            return False
        from rich.console import Console

        # A file or a pipe has no width: tables are not squeezed into 80 columns there.
        console = Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 120)
        for dataset, part in self.parts.items():
            _show(dataset, part, console)
            if part.parent:
                self._summarise(dataset, part, part.parent)
                part.tracker.close(part.parent, "FAILED" if self.failed and status == "FINISHED" else status)
        # A job by itself has said already why it failed.
        if self.failed and self.multirun:
            from src.report import tables

            console.print(tables.reasons(self.failed, "Failed"))
        return bool(self.failed)

    def _summarise(self, dataset: str, part: Part, parent: Run) -> None:
        import pandas as pd

        from src.report import figures, tables

        metrics: dict[str, float] = {"failed": len(self.failed), "not_applicable": len(part.not_applicable)}
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
            for name, jobs in (("failed", self.failed), ("not_applicable", part.not_applicable)):
                if jobs:
                    table = pd.DataFrame({"job": list(jobs), "reason": list(jobs.values())})
                    table.to_csv(folder / f"{name}.csv", index=False)
            parent.artifacts(folder, "summary")
        parent.log(metrics=metrics)


def _show(dataset: str, part: Part, console: Any) -> None:
    import pandas as pd

    from src.report import tables

    if part.analyses:
        console.print(tables.terminal(pd.concat(part.analyses), f"{dataset}: propagation"))
    if part.not_applicable:
        console.print(tables.reasons(part.not_applicable, "Not applicable"))


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
