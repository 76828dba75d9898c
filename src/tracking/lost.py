"""Runs whose process is known to be gone: killed on another machine, or cancelled with its task."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from src.tracking.upkeep import runs

if TYPE_CHECKING:
    from mlflow import MlflowClient


def end(
    client: MlflowClient, experiment: str, child: str, names: Collection[str], why: str
) -> dict[str, str]:
    """End the RUNNING jobs of a sweep whose process is known to be gone, as KILLED and marked with `ended`.

    Args:
        client: of the store.
        experiment: id of theirs.
        child: filter of MLflow that holds for the sweep's jobs.
        names: of the runs, those whose process is gone.
        why: what the tag says.

    Returns:
        Name of each such run, whether it was RUNNING still or had said itself that it was killed -> id.
    """
    found: dict[str, str] = {}
    for run in runs(client, [experiment], child):
        if run.info.run_name not in names or run.info.status not in ("RUNNING", "KILLED"):
            continue
        found[run.info.run_name] = run.info.run_id
        if run.info.status == "RUNNING":
            client.set_tag(run.info.run_id, "ended", why)
            client.set_terminated(run.info.run_id, "KILLED")
    return found
