"""Runs whose process is known to be gone: killed on another machine, or cancelled with its task."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from src.tracking import pages

if TYPE_CHECKING:
    from mlflow import MlflowClient


def end(
    client: MlflowClient, experiment: str, child: str, names: Collection[str], why: str
) -> dict[str, tuple[str, str]]:
    """End the RUNNING jobs of a sweep whose process is known to be gone, as KILLED and marked with `ended`.

    Args:
        client: of the store.
        experiment: id of theirs.
        child: filter of MLflow that holds for the sweep's jobs.
        names: of the runs, those whose process is gone.
        why: what the tag says.

    Returns:
        Name -> id and status of the run, of each name that has one. Of several, as a task that is put back
        makes them, one that is FINISHED counts.
    """
    found: dict[str, tuple[str, str]] = {}
    for run in pages.runs(client, [experiment], child):
        name, status = run.info.run_name, run.info.status
        if name not in names:
            continue
        if status == "RUNNING":
            client.set_tag(run.info.run_id, "ended", why)
            client.set_terminated(run.info.run_id, "KILLED")
            status = "KILLED"
        if status == "FINISHED" or name not in found:
            found[name] = run.info.run_id, status
    return found
