"""All that a store has of something: it answers in pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlflow import MlflowClient

PAGE = 1000


def experiments(client: MlflowClient) -> dict[str, str]:
    """Names of all experiments by their ids."""
    found: dict[str, str] = {}
    token = None
    while True:
        page = client.search_experiments(page_token=token)
        found |= {str(experiment.experiment_id): str(experiment.name) for experiment in page}
        token = page.token
        if not token:
            return found


def runs(client: MlflowClient, within: list[str], wanted: str, order: str = "ASC") -> Iterator[Any]:
    """Runs of experiments that match a filter, by their start, page by page."""
    token = None
    while within:
        page = client.search_runs(
            within, wanted, max_results=PAGE, order_by=[f"attributes.start_time {order}"], page_token=token
        )
        yield from page
        token = page.token
        if not token:
            break
