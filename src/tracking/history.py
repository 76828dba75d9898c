"""What a store holds of earlier sweeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from src.tracking.runs import PARENT_TAG, Tracker

PAGE = 1000
# Of a sweep's parent run: counts up, whatever the clock says.
NUMBER = "sweep.number"


@dataclass(frozen=True)
class Past:
    """A run as it is stored.

    Attributes:
        id: of the run.
        dataset: name of its experiment.
        status: RUNNING, FINISHED, FAILED or KILLED.
        started: ISO 8601, UTC.
        tags, metrics: by name.
    """

    id: str
    dataset: str
    status: str
    started: str
    tags: Mapping[str, str]
    metrics: Mapping[str, float]


def sweeps(tracker: Tracker, dataset: str = "") -> list[Past]:
    """Parent runs of sweeps, newest first.

    Args:
        tracker: the store.
        dataset: only of this one; empty: of all.
    """
    names = {found.experiment_id: found.name for found in tracker.client.search_experiments()}
    wanted = [number for number, name in names.items() if dataset in ("", name)]
    found = _search(tracker, wanted, "tags.kind = 'sweep'", "DESC", names)
    return sorted(found, key=_number, reverse=True)


def next_number(tracker: Tracker) -> str:
    """The number of a sweep that begins now, for its tag `NUMBER`; two that begin at once may share one."""
    return str(max((_number(sweep) for sweep in sweeps(tracker)), default=0) + 1)


def _number(sweep: Past) -> int:
    said = sweep.tags.get(NUMBER, "")
    return int(said) if said.isdigit() else 0


def children(tracker: Tracker, parent: Past) -> list[Past]:
    """The jobs that a sweep ran itself, oldest first; what it took over is another sweep's."""
    experiment = tracker.experiment(parent.dataset)
    child = f"tags.`{PARENT_TAG}` = '{parent.id}'"
    return _search(tracker, [experiment], child, "ASC", {experiment: parent.dataset})


def finished(tracker: Tracker, dataset: str = "") -> list[Past]:
    """Jobs that ended well, of any sweep or of none, oldest first.

    Args:
        tracker: the store.
        dataset: only of this one; empty: of all.
    """
    names = {found.experiment_id: found.name for found in tracker.client.search_experiments()}
    wanted = [number for number, name in names.items() if dataset in ("", name)]
    done = "tags.kind = 'job' and attributes.status = 'FINISHED'"
    return _search(tracker, wanted, done, "ASC", names)


def past(tracker: Tracker, run: str) -> Past | None:
    """A run by its id; None where there is none, or it was deleted."""
    from mlflow.exceptions import MlflowException

    try:
        found = tracker.client.get_run(run)
        if found.info.lifecycle_stage == "deleted":
            return None
        return _past(found, tracker.client.get_experiment(found.info.experiment_id).name)
    except MlflowException:
        return None


def _search(
    tracker: Tracker, experiments: list[str], wanted: str, order: str, names: Mapping[str, str]
) -> list[Past]:
    found: list[Past] = []
    token = None
    while experiments:
        page = tracker.client.search_runs(
            experiments,
            wanted,
            max_results=PAGE,
            order_by=[f"attributes.start_time {order}"],
            page_token=token,
        )
        found += [_past(run, names[run.info.experiment_id]) for run in page]
        token = page.token
        if not token:
            break
    return found


def _past(run: Any, dataset: str) -> Past:
    started = datetime.fromtimestamp(run.info.start_time / 1000, UTC).isoformat(timespec="seconds")
    return Past(run.info.run_id, dataset, run.info.status, started, run.data.tags, run.data.metrics)
