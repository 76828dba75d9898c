"""What became of the jobs of a command: shown at its end, and kept with their parent run."""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from src.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from src.tracking import Run, Tracker

log = logging.getLogger(__name__)

# How a job ends.
FINISHED, TAKEN_OVER, FAILED, NOT_APPLICABLE = "finished", "taken_over", "failed", "not_applicable"


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
        asked: overrides of its jobs, as far as they could be told before any was composed.
        report: whether it ends with a report.
        analyses: analyses.csv of each finished job.
        folders: `config` of each finished job -> its folder `results/`.
        outcomes: of all its jobs.
        sheets: contact sheets of morphs that are kept with a run already.
    """

    tracker: Tracker
    parent: Run | None
    asked: list[str] | None = None
    report: bool = False
    analyses: list[pd.DataFrame] = field(default_factory=list)
    folders: dict[str, Path] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)
    sheets: set[Path] = field(default_factory=set)

    def show_morphs(self, sheet: Path | None, run: Run | None) -> None:
        """Keep a contact sheet, once, with the parent run, or with a run that has no parent."""
        owner = self.parent or run
        if sheet is not None and owner is not None and sheet not in self.sheets:
            try:
                owner.artifact(sheet, "morphs")
            except InputError as error:  # the store may be out of reach for a while: the next job tries again
                log.warning("%s is not kept now: %s", sheet, error)
                return
            self.sheets.add(sheet)

    def count(self, status: str) -> int:
        """How many jobs ended so."""
        return sum(outcome.status == status for outcome in self.outcomes)


def begin(part: Part) -> None:
    """Say on the parent run what was asked for, so that a sweep that is killed knows what it lacks."""
    from src.report import load

    if part.parent:
        part.parent.text(json.dumps(part.asked, indent=0, ensure_ascii=False), load.ASKED)


def note(part: Part) -> None:
    """Keep the list of a part's jobs up to date on its parent run, for a sweep that is killed."""
    from src.report import load

    if part.parent:
        try:
            part.parent.text(jobs(part).to_csv(index=False), load.JOBS)
        except Exception as error:  # the store may be out of reach for a while: jobs say so themselves
            log.warning("the list of jobs cannot be kept now: %r", error)


def jobs(part: Part) -> pd.DataFrame:
    """One row per job that ended."""
    from src.report import load

    return load.table(
        [
            {**outcome.columns, "status": outcome.status, "run": outcome.run}
            | {"reason": outcome.reason, "overrides": outcome.asked}
            for outcome in part.outcomes
        ]
    )


def keep(dataset: str, part: Part, parent: Run) -> None:
    """Keep the tables and the heatmap of a part's jobs with their parent run, below `summary/`."""
    from src.report import load
    from src.report.study import report_of

    metrics: dict[str, float] = {"jobs": len(part.outcomes)}
    metrics |= {status: part.count(status) for status in (FAILED, NOT_APPLICABLE, TAKEN_OVER)}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        frames = load.by_study(part.analyses)
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
    """Draw the report of a part's jobs into a folder and keep it with the parent run.

    Returns:
        The path of its index.html.

    Raises:
        InputError: the folder holds something else, or cannot be written.
    """
    from src.report import load, publish
    from src.tracking import past

    sweep = past(part.tracker, parent.id)
    assert sweep is not None
    index = publish.publish(load.findings(part.tracker, sweep, jobs(part), part.folders, part.asked), folder)
    parent.artifacts(folder, "report")
    return index


def show(dataset: str, part: Part, console: Console) -> None:
    """Print what a part's jobs found, how many were taken over, and which were not applicable."""
    from src.report import load
    from src.report.study import report_of

    for study, rows in load.by_study(part.analyses).items():
        for shown in report_of(study).terminal(rows, dataset):
            console.print(shown)
    taken = part.count(TAKEN_OVER)
    if taken:
        console.print(
            f"{taken} of {len(part.outcomes)} jobs were finished already: their results are taken over "
            "(resume=false computes them anew)."
        )
    if part.count(NOT_APPLICABLE):
        left = [outcome for outcome in part.outcomes if outcome.status == NOT_APPLICABLE]
        reasons(left, "Not applicable", console)


def reasons(outcomes: list[Outcome], title: str, console: Console) -> None:
    """Print jobs that have no results, with the reason."""
    from src.report import tables

    console.print(tables.reasons({outcome.asked: outcome.reason for outcome in outcomes}, title))
