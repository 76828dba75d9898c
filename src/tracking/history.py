"""Query a store for earlier sweeps and their jobs."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from src.tracking import names, pages, run_tags, tracking_server
from src.tracking.runs import LIMIT_EXPERIMENT, PARENT_TAG, Tracker

# Tag of a sweep's parent run that orders sweeps by a counter, as the clock may be set back.
SWEEP_NUMBER = "sweep.number"


@dataclass(frozen=True)
class StoredRun:
    """A run in the tracking store."""

    id: str  # id of the run
    dataset: str  # dataset of its experiment
    status: str  # RUNNING, FINISHED, FAILED or KILLED
    started: str  # start time, ISO 8601, UTC
    tags: Mapping[str, str]  # name of a fact -> value (`run_tags.to_facts`)
    metrics: Mapping[str, float]  # name -> value, with a dot after a prefix (`names.restore_dot`)


def find_sweeps(tracker: Tracker, dataset: str = "") -> list[StoredRun]:
    """Return the parent runs of the sweeps of a dataset (empty: of all datasets), newest first."""
    runs = _search(tracker, "tags.kind = 'sweep'", "DESC", _map_datasets(tracker, dataset))
    return sorted(runs, key=_parse_number, reverse=True)


def find_next_number(tracker: Tracker) -> str:
    """Return the number of a new sweep, for its tag `NUMBER`; concurrent sweeps may share a number."""
    return str(max((_parse_number(sweep) for sweep in find_sweeps(tracker)), default=0) + 1)


def _parse_number(sweep: StoredRun) -> int:
    number = sweep.tags.get(SWEEP_NUMBER, "")
    return int(number) if number.isdigit() else 0


def find_children(tracker: Tracker, parent: StoredRun) -> list[StoredRun]:
    """Return the runs of the jobs that a sweep performed, oldest first; reused jobs have no run in it."""
    return _search(
        tracker,
        f"tags.`{PARENT_TAG}` = '{parent.id}'",
        "ASC",
        _map_datasets(tracker, parent.dataset),
    )


def find_finished_jobs(tracker: Tracker, dataset: str = "") -> list[StoredRun]:
    """Return the finished jobs of a dataset (empty: of all), in or outside of sweeps, oldest first."""
    condition = "tags.kind = 'job' and attributes.status = 'FINISHED'"
    return _search(tracker, condition, "ASC", _map_datasets(tracker, dataset))


def find_run(tracker: Tracker, run_id: str) -> StoredRun | None:
    """Return a run by its id; None if it does not exist or was deleted."""
    from mlflow.exceptions import MlflowException

    def get() -> StoredRun | None:
        try:
            stored = tracker.client.get_run(run_id)
        except MlflowException as error:
            if tracking_server.is_absent(error) or not tracking_server.is_unreachable(error):  # malformed id
                return None
            raise
        if stored.info.lifecycle_stage == "deleted":
            return None
        experiment = tracker.client.get_experiment(stored.info.experiment_id)
        return _to_stored_run(stored, names.decode(experiment.name))

    return tracker.call(get)


def _map_datasets(tracker: Tracker, dataset: str) -> dict[str, str]:
    """Return experiment id -> dataset, for a dataset's experiment or, without a dataset, for all."""
    titles = tracker.call(lambda: pages.list_experiments(tracker.client))
    # A long name is stored shortened, which `decode` cannot undo.
    accepted_names = (dataset, names.encode_title(dataset, LIMIT_EXPERIMENT))
    datasets = {experiment_id: names.decode(title) for experiment_id, title in titles.items()}
    return {key: name for key, name in datasets.items() if not dataset or name in accepted_names}


def _search(tracker: Tracker, condition: str, order: str, datasets: Mapping[str, str]) -> list[StoredRun]:
    runs = tracker.call(lambda: [*pages.list_runs(tracker.client, [*datasets], condition, order)])
    return [_to_stored_run(run, datasets[run.info.experiment_id]) for run in runs]


def _to_stored_run(run: Any, dataset: str) -> StoredRun:
    started = datetime.fromtimestamp(run.info.start_time / 1000, UTC).isoformat(timespec="seconds")
    tags = run_tags.to_facts(run.data.tags)
    metrics = {names.restore_dot(name): value for name, value in run.data.metrics.items()}
    return StoredRun(run.info.run_id, dataset, run.info.status, started, tags, metrics)
