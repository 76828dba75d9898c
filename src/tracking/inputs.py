"""What a run reads, as MLflow's datasets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlflow import MlflowClient

LIMIT_DIGEST = 36
# How a database says that a row is there already: SQLite, PostgreSQL, MySQL.
TAKEN = ("unique constraint", "duplicate entry")


def note(client: MlflowClient, run: str, hashes: Mapping[str, str]) -> None:
    """Note what a run reads; runs that read the same may do so at once.

    MLflow looks which datasets it knows and then writes the others: if another run has written one of them
    in between, it writes nothing. Each such refusal means that one more is known.

    Args:
        client: of the store.
        run: its id.
        hashes: name -> SHA-256; MLflow's digest takes 36 digits of it, the source has all.
    """
    from mlflow.entities import Dataset, DatasetInput, InputTag
    from mlflow.exceptions import MlflowException

    found = [
        DatasetInput(
            Dataset(name=name, digest=digest[:LIMIT_DIGEST], source_type="sha256", source=digest),
            [InputTag("mlflow.data.context", name)],
        )
        for name, digest in hashes.items()
    ]
    for _ in found:
        try:
            client.log_inputs(run, found)
        except MlflowException as error:
            if not any(said in str(error).lower() for said in TAKEN):
                raise
        else:
            return
    client.log_inputs(run, found)
