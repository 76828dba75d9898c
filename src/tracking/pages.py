"""Collect all pages of a paginated query to a store."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlflow import MlflowClient


def list_experiments(client: MlflowClient) -> dict[str, str]:
    """Return the name of each experiment, by id."""
    return {str(item.experiment_id): str(item.name) for item in _iterate_items(client.search_experiments)}


def list_runs(
    client: MlflowClient, experiment_ids: list[str], condition: str, order: str = "ASC"
) -> Iterator[Any]:
    """Yield the runs of experiments that meet a condition (MLflow's `filter_string`), by start time."""
    order_by = [f"attributes.start_time {order}"]
    query = partial(client.search_runs, experiment_ids, condition, max_results=1000, order_by=order_by)
    return _iterate_items(query) if experiment_ids else iter(())


def _iterate_items(query: Any) -> Iterator[Any]:
    token: str | None = ""
    while token is not None:
        page = query(page_token=token or None)
        yield from page
        token = page.token or None
