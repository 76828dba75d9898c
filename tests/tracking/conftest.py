"""Start one MLflow server, with a SQLite database and a folder of artifacts, for the tests that need it."""

import pytest

from tests.tracking import servers


def pytest_itemcollected(item):
    """Run all tests of the server on one worker, which starts it once."""
    if "server" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.xdist_group("server"))


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """Yield the address of the server."""
    place = tmp_path_factory.mktemp("server")
    with servers.mlflow(f"sqlite:///{place}/mlflow.db", f"{place}/artifacts", place / "log") as address:
        yield address
