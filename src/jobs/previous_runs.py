"""Look up finished runs on the stimuli of planned jobs, and the effects that they can detect."""

import functools
import logging
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from src import tracking
from src.jobs.identity import Job
from src.report import load
from src.report.findings import Findings
from src.report.study import report_of
from src.storage import results

# Maximum number of models whose runs are read: of two, levels can be compared.
MODELS = 2
# Tags of a run that name the analyses of a planned job, besides its model.
NAMES = ("study", "exp", "debias", "protocol", "seed")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Stimuli:
    """Experiment and stimuli of a planned job: what its runs with other models have in common."""

    uri: str  # store of the runs
    dataset: str  # name of the dataset
    tags: tuple[tuple[str, str], ...]  # tags of its runs: `NAMES`, and the hash of each role's table

    @property
    def study(self) -> str:
        """Return the study of the job."""
        return dict(self.tags)["study"]


def stimuli_of(job: Job, hashes: dict[str, str]) -> Stimuli:
    """Return experiment and stimuli of a job; `hashes` are those of its tables, by role."""
    names = {name: str(job.columns[name]) for name in NAMES}
    inputs = {f"input.{role}": digest for role, digest in hashes.items()}
    return Stimuli(job.cfg.tracking.uri, job.dataset, tuple((names | inputs).items()))


def open_tracker(uri: str) -> tracking.Tracker | None:
    """Open a store; None if it is absent."""
    if uri.startswith(tracking.SQLITE) and not Path(uri.removeprefix(tracking.SQLITE)).exists():
        return None
    return _tracker(uri)


@functools.cache
def _tracker(uri: str) -> tracking.Tracker:
    # Cached for all jobs of a plan: opening a server takes several requests.
    return tracking.Tracker(uri)


def detectable(planned: Sequence[Stimuli]) -> pd.DataFrame:
    """Return the rows of `StudyReport.detectable` of all planned stimuli with finished runs."""
    runs: dict[tuple[str, str], list[tracking.StoredRun]] = {}
    rows = [pd.DataFrame()]
    for stimuli in dict.fromkeys(planned):
        try:
            tracker = open_tracker(stimuli.uri)
            if tracker is None:
                continue
            key = stimuli.uri, stimuli.dataset
            if key not in runs:
                runs[key] = tracking.finished_jobs(tracker, stimuli.dataset)
            rows += _detectable(tracker, stimuli, runs[key])
        except tracking.Unreachable as error:
            log.warning("cannot look up finished runs on these stimuli: %s", error)
    return pd.concat(rows, ignore_index=True)


def _detectable(
    tracker: tracking.Tracker, stimuli: Stimuli, runs: Sequence[tracking.StoredRun]
) -> Iterator[pd.DataFrame]:
    """Yield the rows of the newest runs of `MODELS` models on the stimuli, if any."""
    tags = {*stimuli.tags}
    newest = {run.tags.get("model", ""): run for run in runs if tags <= {*run.tags.items()}}
    with tempfile.TemporaryDirectory() as place:
        folders: dict[str, Path] = {}
        for run in reversed(newest.values()):
            if len(folders) == MODELS:
                break
            try:
                folders[run.tags["config"]] = load.fetch_results(tracker, run.id, Path(place), run)
            except OSError as error:
                log.warning("results of run %s cannot be read (%s): not used", run.id, error)
        if folders:
            yield report_of(stimuli.study).detectable(_findings(stimuli.dataset, folders))


def _findings(dataset: str, folders: dict[str, Path]) -> Findings:
    analyses = [results.read_csv(folder / results.ANALYSES) for folder in folders.values()]
    models = pd.DataFrame(columns=["model"])
    frames = load.combine_by_study(analyses)
    return Findings(dataset, "", "FINISHED", "", frames, folders, pd.DataFrame(), [], models, {})
