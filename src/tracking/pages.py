"""Collect all pages of a paginated query to a store."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlflow import MlflowClient


def experiments(client: MlflowClient) -> dict[str, str]:
    """Return the names of all experiments by id."""
    return {str(item.experiment_id): str(item.name) for item in _all_items(client.search_experiments)}


def runs(client: MlflowClient, ids: list[str], wanted: str, order: str = "ASC") -> Iterator[Any]:
    """Yield the runs of experiments, given by id, that match a filter; ordered by start time."""
    order_by = [f"attributes.start_time {order}"]
    query = partial(client.search_runs, ids, wanted, max_results=1000, order_by=order_by)
    return _all_items(query) if ids else iter(())


def _all_items(query: Any) -> Iterator[Any]:
    token: str | None = ""
    while token is not None:
        page = query(page_token=token or None)
        yield from page
        token = page.token or None
