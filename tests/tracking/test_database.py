"""A database that cannot be opened is named at once, with the reason and the remedy."""

import logging
import socket
import sqlite3
import time
from contextlib import closing

import pytest

from src.errors import InputError
from src.tracking import Tracker, Unreachable, database, tracking_server, waiting


def refused(place, says, **options):
    """The message, which comes before anybody would ask why nothing happens."""
    began = time.monotonic()
    with pytest.raises(InputError, match=says) as raised:
        Tracker(f"sqlite:///{place}", **options)
    assert time.monotonic() - began < 5
    assert f"tracking.uri=sqlite:///{place}: " in str(raised.value)


def test_a_folder_is_no_database(tmp_path):
    refused(tmp_path, "expected a file, got a folder.* Name a database")


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("/proc/nowhere/mlflow.db", "its folder takes no files"),
        ("/sys/mlflow.db", "its folder takes no files"),
        ("/dev/full", "expected a file, got no ordinary file"),
    ],
)
def test_a_place_that_takes_no_files(place, says):
    refused(place, says)


def test_a_folder_below_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    refused(tmp_path / "file" / "mlruns" / "mlflow.db", "its folder takes no files: Not a directory")


def test_a_file_that_is_no_database(tmp_path):
    place = tmp_path / "mlflow.db"
    place.write_text("nonsense" * 100)
    refused(place, "file is not a database.* Name a database that MLflow made")
    refused(place, "there is no tracking database", make=False)
    assert place.read_text() == "nonsense" * 100


def test_another_programs_database_is_left_alone(tmp_path):
    place = tmp_path / "browser.db"
    with closing(sqlite3.connect(place)) as connection, connection:
        connection.execute("CREATE TABLE bookmarks (url)")
    before = place.read_bytes()
    refused(place, "it holds the tables of another program")
    refused(place, "there is no tracking database", make=False)
    assert place.read_bytes() == before


def test_a_database_that_may_only_be_read(tmp_path, monkeypatch):
    place = tmp_path / "mlflow.db"
    with closing(sqlite3.connect(place)) as connection, connection:
        connection.execute("CREATE TABLE experiments (name)")

    def read(*_):
        raise sqlite3.OperationalError("attempt to write a readonly database")

    monkeypatch.setattr(database, "_read", read)  # root may write whatever the file's mode says
    refused(place, "attempt to write a readonly database.* Make the file writable, or name another")


@pytest.fixture
def held(tmp_path):
    """A database that another connection has to itself."""
    place = tmp_path / "mlflow.db"
    with closing(sqlite3.connect(place, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE experiments (name)")
        connection.execute("BEGIN EXCLUSIVE")
        yield place


@pytest.mark.parametrize("make", [True, False])
def test_a_database_that_is_held_is_waited_for_with_a_word(held, monkeypatch, caplog, make):
    monkeypatch.setattr(database, "PATIENCE", 1.0)
    monkeypatch.setattr(waiting, "SILENCE", 0.2)
    refused(held, "database is locked.* Another process holds it", make=make)
    assert f"{held}: waiting for another process that holds it, up to 1 s" in caplog.text
    assert waiting.SILENCE < 5


def test_a_call_that_takes_long_is_announced(caplog, monkeypatch):
    monkeypatch.setattr(waiting, "SILENCE", 0.05)
    with caplog.at_level(logging.WARNING), waiting.announced("tracking.uri=http://there"):
        time.sleep(0.3)
    assert caplog.messages == ["waiting for tracking.uri=http://there"]
    monkeypatch.setattr(waiting, "SILENCE", 1)
    with waiting.announced("nothing"):
        pass
    assert "nothing" not in caplog.text


def test_a_server_that_is_silent_is_announced(caplog, monkeypatch):
    monkeypatch.setattr(waiting, "SILENCE", 0.1)
    monkeypatch.setattr(tracking_server.require, "__defaults__", (0.4, 0))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(Unreachable, match="no answer within 0.4 s"):
            Tracker(uri)
    assert f"waiting for tracking.uri={uri}" in caplog.text
