"""Statuses of a command's jobs, by dataset: kept with the parent run, and printed at the end."""

from __future__ import annotations

import json
import logging
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd
from rich.console import Console

from src.jobs.identity import Named
from src.jobs.runner import FAILED, NOT_APPLICABLE, TAKEN_OVER, Outcome, Recorder
from src.report import load, publish, tables
from src.report.study import report_of
from src.storage import results
from src.tracking import Run, past

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SweepJob:
    """A job of a command.

    Attributes:
        number: position in the sweep.
        overrides: its overrides, as Hydra gives them to a launcher.
        typed: the same as they were typed, without what they say of Hydra.
        job: its names.
    """

    number: int
    overrides: list[str]
    typed: str
    job: Named


@dataclass
class Part(Recorder):
    """The jobs of one dataset, which is one MLflow experiment.

    Attributes:
        asked: overrides of its jobs.
        report: whether it ends with a report.
        outcomes: number -> outcome of each job that ended.
        analyses: number -> analyses.csv of each job with results.
        folders: `config` of each job with results -> its folder `results/`.
    """

    asked: list[str] | None = None
    report: bool = False
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    analyses: dict[int, pd.DataFrame] = field(default_factory=dict)
    folders: dict[str, Path] = field(default_factory=dict)

    def record(self, entry: SweepJob, outcome: Outcome, analyses: pd.DataFrame | None) -> None:
        """Record how a job ended, also on the parent run, for a sweep that is killed."""
        if analyses is not None:
            self.analyses[entry.number] = analyses
            self.folders[entry.job.config_hash] = entry.job.output / results.FOLDER
        self.outcomes[entry.number] = replace(outcome, overrides=entry.typed, columns=entry.job.columns)
        if self.parent:
            try:
                self.parent.text(jobs(self).to_csv(index=False), load.JOBS)
            except Exception as error:  # the store may be out of reach for a while: jobs say so themselves
                log.warning("the list of jobs cannot be kept now: %r", error)

    def count(self, status: str) -> int:
        """Return how many jobs ended with a status."""
        return sum(outcome.status == status for outcome in self.outcomes.values())

    def ordered_analyses(self) -> list[pd.DataFrame]:
        """Return analyses.csv of the jobs with results, in the order of the sweep."""
        return [self.analyses[number] for number in sorted(self.analyses)]


def log_asked(part: Part) -> None:
    """Log the overrides of all jobs with the parent run, so that a killed sweep knows what it lacks."""
    if part.parent:
        part.parent.text(json.dumps(part.asked, indent=0, ensure_ascii=False), load.ASKED)


def jobs(part: Part) -> pd.DataFrame:
    """Return a row per job that ended, in the order of the sweep."""
    rows = [
        {**outcome.columns, "status": outcome.status, "run": outcome.run}
        | {"reason": outcome.reason, "overrides": outcome.overrides}
        for _, outcome in sorted(part.outcomes.items())
    ]
    return load.table(rows)


def log_summary(dataset: str, part: Part, parent: Run) -> None:
    """Log the tables and the heatmap of a part's jobs with their parent run, below `summary/`."""
    metrics: dict[str, float] = {"jobs": len(part.outcomes)}
    metrics |= {status: part.count(status) for status in (FAILED, NOT_APPLICABLE, TAKEN_OVER)}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        frames = load.by_study(part.ordered_analyses())
        if frames:
            every = load.everything(frames)
            every.to_csv(folder / "analyses.csv", index=False)
            metrics["analyses"] = len(every)
        for study, rows in frames.items():
            metrics |= report_of(study).summarise(rows, dataset, folder)
        jobs(part).to_csv(folder / "jobs.csv", index=False)
        parent.artifacts(folder, "summary")
    parent.log(metrics=metrics)


def report(part: Part, parent: Run, folder: Path) -> Path:
    """Draw the report of a part's jobs into a folder and log it with the parent run.

    Returns:
        The path of its index.html.

    Raises:
        InputError: the folder holds something else, or cannot be written.
    """
    sweep = past(part.tracker, parent.id)
    assert sweep is not None
    index = publish.publish(load.findings(part.tracker, sweep, jobs(part), part.folders, part.asked), folder)
    parent.artifacts(folder, "report")
    return index


def show(dataset: str, part: Part, console: Console) -> None:
    """Print the results of a part's jobs, how many were taken over, and which were not applicable."""
    for study, rows in load.by_study(part.ordered_analyses()).items():
        for shown in report_of(study).terminal(rows, dataset):
            console.print(shown)
    taken = part.count(TAKEN_OVER)
    if taken:
        console.print(
            f"{taken} of {len(part.outcomes)} jobs were finished already: their results are taken over "
            "(resume=false computes them anew)."
        )
    reasons([*part.outcomes.values()], NOT_APPLICABLE, "Not applicable", console)


def reasons(outcomes: list[Outcome], status: str, title: str, console: Console) -> None:
    """Print the jobs of a status, with the reason; nothing if no job has it."""
    named = {outcome.overrides: outcome.reason for outcome in outcomes if outcome.status == status}
    if named:
        console.print(tables.reasons(named, title))
