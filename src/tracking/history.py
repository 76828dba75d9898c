"""What a store holds of earlier sweeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from src.tracking import names, pages, tracking_server
from src.tracking.runs import LIMIT_EXPERIMENT, PARENT_TAG, Tracker

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
    found = _search(tracker, "tags.kind = 'sweep'", "DESC", _names(tracker, dataset))
    return sorted(found, key=_number, reverse=True)


def next_number(tracker: Tracker) -> str:
    """The number of a sweep that begins now, for its tag `NUMBER`; two that begin at once may share one."""
    return str(max((_number(sweep) for sweep in sweeps(tracker)), default=0) + 1)


def _number(sweep: Past) -> int:
    said = sweep.tags.get(NUMBER, "")
    return int(said) if said.isdigit() else 0


def children(tracker: Tracker, parent: Past) -> list[Past]:
    """The jobs that a sweep ran itself, oldest first; what it took over is another sweep's."""
    child = f"tags.`{PARENT_TAG}` = '{parent.id}'"
    return _search(tracker, child, "ASC", _names(tracker, parent.dataset))


def finished(tracker: Tracker, dataset: str = "") -> list[Past]:
    """Jobs that ended well, of any sweep or of none, oldest first.

    Args:
        tracker: the store.
        dataset: only of this one; empty: of all.
    """
    done = "tags.kind = 'job' and attributes.status = 'FINISHED'"
    return _search(tracker, done, "ASC", _names(tracker, dataset))


def past(tracker: Tracker, run: str) -> Past | None:
    """A run by its id; None where there is none, or it was deleted."""
    from mlflow.exceptions import MlflowException

    def get() -> Past | None:
        try:
            found = tracker.client.get_run(run)
        except MlflowException as error:
            if tracking_server.absent(error) or not tracking_server.away(error):  # or the id is none
                return None
            raise
        if found.info.lifecycle_stage == "deleted":
            return None
        experiment = tracker.client.get_experiment(found.info.experiment_id)
        return _past(found, names.decoded(experiment.name))

    return tracker.ask(get)


def _names(tracker: Tracker, dataset: str) -> dict[str, str]:
    """Experiments by their ids: of one dataset, or all."""
    titles = tracker.ask(lambda: pages.experiments(tracker.client))
    wanted = (dataset, names.title(dataset, LIMIT_EXPERIMENT))
    known = {number: names.decoded(title) for number, title in titles.items()}
    return {number: name for number, name in known.items() if not dataset or name in wanted}


def _search(tracker: Tracker, wanted: str, order: str, datasets: Mapping[str, str]) -> list[Past]:
    found = tracker.ask(lambda: [*pages.runs(tracker.client, [*datasets], wanted, order)])
    return [_past(run, datasets[run.info.experiment_id]) for run in found]


def _past(run: Any, dataset: str) -> Past:
    started = datetime.fromtimestamp(run.info.start_time / 1000, UTC).isoformat(timespec="seconds")
    return Past(run.info.run_id, dataset, run.info.status, started, run.data.tags, run.data.metrics)
