"""Record the outcomes of a command's jobs by dataset, log them with the parent run, and print them."""

import logging
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd
from rich.console import Console

from src.configs import DemoConfig
from src.configs.studies import WITHOUT_JOBS
from src.jobs.identity import NamedConfig
from src.jobs.runner import FAILED, FINISHED, NOT_APPLICABLE, REUSED, Outcome, Recorder
from src.report import load, markdown, publish, tables
from src.report.findings import Findings
from src.report.study import load_report, withhold
from src.storage import results
from src.tracking import Run, find_run

log = logging.getLogger(__name__)

# Status of a job -> its text in descriptions.
STATUS_TEXTS = {FINISHED: "finished", REUSED: "reused", FAILED: "failed", NOT_APPLICABLE: "not applicable"}


@dataclass(frozen=True)
class SweepJob:
    """A job of a command."""

    number: int  # position in the sweep
    overrides: list[str]  # overrides that Hydra passes to the launcher
    user_overrides: str  # overrides that the user wrote, separated by blanks
    job: NamedConfig


@dataclass
class DatasetRecorder(Recorder):
    """Recorder of a sweep's jobs of one dataset, and of their results."""

    overrides: list[str] | None = None  # user's overrides of each requested job; None for a single job
    report: bool = False  # whether to draw a report at the end
    planted: str = ""  # description of the planted bias of a built-in world; empty without one
    outcomes: dict[int, Outcome] = field(default_factory=dict)  # job number -> outcome
    analyses: dict[int, pd.DataFrame] = field(default_factory=dict)  # job number -> analyses.csv
    folders: dict[str, Path] = field(default_factory=dict)  # hash of a job's config -> its folder `results/`

    def record(self, sweep_job: SweepJob, outcome: Outcome, analyses: pd.DataFrame | None) -> None:
        """Record the outcome of a job, and log it with the parent run in case the sweep is killed."""
        if analyses is not None:
            self.analyses[sweep_job.number] = analyses
            self.folders[sweep_job.job.config_hash] = sweep_job.job.output / results.FOLDER
        self.outcomes[sweep_job.number] = replace(
            outcome, overrides=sweep_job.user_overrides, columns=sweep_job.job.columns
        )
        if self.parent:
            try:
                self.parent.log_text(list_jobs(self).to_csv(index=False), load.JOBS)
            except Exception as error:  # the store may be unreachable for a while; the next call tries again
                log.warning("cannot store the list of jobs yet: %r", error)

    def count(self, status: str) -> int:
        """Return the number of jobs that ended with a status."""
        return sum(outcome.status == status for outcome in self.outcomes.values())

    def sort_analyses(self) -> list[pd.DataFrame]:
        """Return the analyses of the jobs with results, in the order of the sweep."""
        return [self.analyses[number] for number in sorted(self.analyses)]


def list_jobs(recorder: DatasetRecorder) -> pd.DataFrame:
    """Return a table of the jobs that ended: names, status, run, reason and overrides, in sweep order."""
    rows = [
        {**outcome.columns, "status": outcome.status, "run": outcome.run}
        | {"reason": outcome.reason, "overrides": outcome.overrides}
        for _, outcome in sorted(recorder.outcomes.items())
    ]
    return load.build_jobs_table(rows)


def build_findings(dataset: str, recorder: DatasetRecorder) -> Findings:
    """Build the findings of a dataset's jobs, without what the tracking store knows."""
    frames = load.combine_by_study(recorder.sort_analyses())
    return load.build_untracked_findings(dataset, frames, recorder.folders, list_jobs(recorder))


def log_summary(dataset: str, recorder: DatasetRecorder, parent: Run) -> None:
    """Log the tables and the heatmap of a dataset's jobs with their parent run, in the folder `summary/`."""
    metrics: dict[str, float] = {"jobs": len(recorder.outcomes)}
    metrics |= {status: recorder.count(status) for status in (FAILED, NOT_APPLICABLE, REUSED)}
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        findings = build_findings(dataset, recorder)
        if findings.frames:
            analyses = load.combine_studies(findings.frames)
            analyses.to_csv(folder / "analyses.csv", index=False)
            metrics["analyses"] = len(analyses)
        frames = withhold(findings).frames
        for study, rows in frames.items():
            metrics |= load_report(study).summarise(rows, dataset, folder)
        list_jobs(recorder).to_csv(folder / "jobs.csv", index=False)
        parent.log_artifacts(folder, "summary")
    statuses = Counter(outcome.status for outcome in recorder.outcomes.values())
    counts = ", ".join(f"{count} {STATUS_TEXTS[status]}" for status, count in statuses.items())
    description = markdown.describe(frames, dataset, f"Jobs: {counts or 'none'}.")
    parent.log(metrics=metrics, tags={"description": description})


def write_report(recorder: DatasetRecorder, parent: Run, folder: Path) -> Path:
    """Draw the report of a dataset's jobs, log it with the parent run, and return the path of index.html.

    Raises `InputError` if the folder contains other files or cannot be written.
    """
    sweep = find_run(recorder.tracker, parent.id)
    assert sweep is not None
    table, folders, overrides = list_jobs(recorder), recorder.folders, recorder.overrides
    index = publish.publish(load.build_findings(recorder.tracker, sweep, table, folders, overrides), folder)
    parent.log_artifacts(folder, "report")
    return index


def describe_planted(demo: DemoConfig) -> str:
    """Describe the planted bias of a built-in world; return an empty text if there is no bias.

    >>> describe_planted(DemoConfig(bias=0.5, noise=0.2, planted={"Men": -0.3, "Women": 0.3}))
    'shifts of the valence rank in captions, from -0.30 for Men to +0.30 for Women, times 0.5'
    """
    if not demo.bias or not any(demo.planted.values()):
        return ""
    groups = (extreme(demo.planted, key=demo.planted.__getitem__) for extreme in (min, max))
    low, high = (f"{demo.planted[group]:+.2f} for {group}" for group in groups)
    text = f"shifts of the valence rank in captions, from {low} to {high}, times {demo.bias:g}"
    if demo.languages and demo.translated_bias != 1:
        text += f"; in captions that are not in English, times {demo.bias * demo.translated_bias:g}"
    return text


def print_results(dataset: str, recorder: DatasetRecorder, console: Console) -> None:
    """Print the results of a dataset's jobs, the number of reused jobs, and the jobs that do not apply.

    For a built-in world, also print its planted bias next to the first conclusion.
    """
    conclusions: list[str] = []
    findings = build_findings(dataset, recorder)
    for study, rows in withhold(findings).frames.items():
        conclusions += load_report(study).conclusions(rows)
        for renderable in load_report(study).terminal(rows, dataset):
            console.print(renderable)
    for study in WITHOUT_JOBS:
        for renderable in load_report(study).comparison(findings):
            console.print(renderable)
    if reused := recorder.count(REUSED):
        console.print(
            f"{reused} of {len(recorder.outcomes)} jobs were finished already: their results are reused "
            "(resume=false computes them again)."
        )
    print_reasons([*recorder.outcomes.values()], NOT_APPLICABLE, "Not applicable", console)
    if recorder.planted and conclusions:
        lines = [f"Planted: {recorder.planted}.", f"Found: {conclusions[0]}"]
        lines.append(f"Next, without a bias: {recorder.command} demo.bias=0")
        console.print("\n".join(lines), soft_wrap=True, highlight=False, markup=False)


def print_reasons(outcomes: list[Outcome], status: str, title: str, console: Console) -> None:
    """Print the jobs of a status with their reasons, if there are any."""
    reasons = {outcome.overrides: outcome.reason for outcome in outcomes if outcome.status == status}
    if reasons:
        console.print(tables.build_reason_table(reasons, title))
