"""Look up finished runs of planned jobs, and estimate the effects that such jobs can detect."""

import functools
import logging
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from src import tracking
from src.jobs.identity import Job, NamedConfig
from src.report import load
from src.report.findings import Findings
from src.report.study import load_report
from src.storage import results

# Maximum number of models whose runs are read; two suffice to estimate detectable differences of levels.
MAX_MODELS = 2
# Tags in which a finished run has to match a planned job; its model may be another.
MATCHED_TAGS = ("study", "exp", "debias", "perturb", "protocol", "seed")
# Tags that runs of older versions lack, with the values that then apply.
LATER_TAGS = {"perturb": "none"}

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunFilter:
    """Filter for runs of the same analysis of the same stimuli as a planned job, with any model."""

    uri: str  # store of the runs
    dataset: str  # name of the dataset
    tags: tuple[tuple[str, str], ...]  # tags of the runs: `MATCHED_TAGS`, and the hash of each role's table

    @property
    def study(self) -> str:
        """Return the study of the runs."""
        return dict(self.tags)["study"]


def build_run_filter(job: Job, hashes: dict[str, str]) -> RunFilter:
    """Return the filter for runs like a planned job; `hashes`: role -> hash of its table."""
    names = {name: str(job.columns[name]) for name in MATCHED_TAGS}
    inputs = {f"input.{role}": digest for role, digest in hashes.items()}
    return RunFilter(job.cfg.tracking.uri, job.dataset, tuple((names | inputs).items()))


def open_tracker(uri: str) -> tracking.Tracker | None:
    """Open a tracking store; return None if its database does not exist."""
    if uri.startswith(tracking.SQLITE) and not Path(uri.removeprefix(tracking.SQLITE)).exists():
        return None
    return _open_cached(uri)


def find_finished_run(job: NamedConfig, key: str) -> str:
    """Return the id of the newest finished run with a job's key; empty if it does not exist."""
    tracker = open_tracker(job.cfg.tracking.uri)
    runs = tracker.find_finished(job.dataset, key) if tracker else []
    return runs[0].id if runs else ""


@functools.cache
def _open_cached(uri: str) -> tracking.Tracker:
    # Cached for all jobs of a plan: opening a server takes several requests.
    return tracking.Tracker(uri)


def tabulate_detectable(run_filters: Sequence[RunFilter]) -> pd.DataFrame:
    """Return the detectable effects (`StudyReport.detectable`) of each filter that matches finished runs."""
    runs: dict[tuple[str, str], list[tracking.StoredRun]] = {}
    tables = [pd.DataFrame()]
    for run_filter in dict.fromkeys(run_filters):
        try:
            tracker = open_tracker(run_filter.uri)
            if tracker is None:
                continue
            key = run_filter.uri, run_filter.dataset
            if key not in runs:
                runs[key] = tracking.find_finished_jobs(tracker, run_filter.dataset)
            tables += _tabulate_newest(tracker, run_filter, runs[key])
        except tracking.Unreachable as error:
            log.warning("cannot look up finished runs on these stimuli: %s", error)
    return pd.concat(tables, ignore_index=True)


def _tabulate_newest(
    tracker: tracking.Tracker, run_filter: RunFilter, runs: Sequence[tracking.StoredRun]
) -> Iterator[pd.DataFrame]:
    """Yield the detectable effects by the newest runs of up to `MAX_MODELS` models; nothing without runs."""
    tags = {*run_filter.tags}
    newest_runs = {
        run.tags.get("model", ""): run for run in runs if tags <= {*{**LATER_TAGS, **run.tags}.items()}
    }
    with tempfile.TemporaryDirectory() as directory:
        folders: dict[str, Path] = {}
        for run in reversed(newest_runs.values()):
            if len(folders) == MAX_MODELS:
                break
            try:
                folders[run.tags["config"]] = load.fetch_results(tracker, run.id, Path(directory), run)
            except OSError as error:
                log.warning("results of run %s cannot be read (%s): not used", run.id, error)
        if folders:
            yield load_report(run_filter.study).detectable(_build_findings(run_filter.dataset, folders))


def _build_findings(dataset: str, folders: dict[str, Path]) -> Findings:
    analyses = [results.read_csv(folder / results.ANALYSES) for folder in folders.values()]
    frames = load.combine_by_study(analyses)
    return load.build_untracked_findings(dataset, frames, folders, pd.DataFrame())
