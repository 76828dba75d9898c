"""One MLflow server on SQLite and a folder for all quick tests of it."""

import pytest

from tests.tracking import servers


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """Its address."""
    place = tmp_path_factory.mktemp("server")
    with servers.mlflow(f"sqlite:///{place}/mlflow.db", f"{place}/artifacts", place / "log") as address:
        yield address
