"""Check that useless stores and servers are refused, waiting is announced, and what `make serve` starts."""

import contextlib
import http.client
import os
import socket
import sqlite3
import subprocess
import time
from contextlib import closing

import pytest

from src.errors import InputError
from src.tracking import Tracker, Unreachable, database, tracking_server
from src.tracking import tracking_server as reach
from tests.commands import command
from tests.conftest import precomputed, store_overrides
from tests.paths import CHECKOUT
from tests.served import serve_json
from tests.tracking import servers


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (401, "", "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"),
        (403, "", "the server denies access"),
        (403, "Invalid Host header - possible DNS rebinding", "make serve HOST=... NAMES=127"),
        (200, "<html>welcome", "not an MLflow server"),
        (200, "{}", "not an MLflow server"),
        (404, "", "not an MLflow server"),
        (500, "", "answers with error 500. See its log"),
    ],
)
def test_servers_of_no_use_are_refused_without_the_password(status, body, message):
    with serve_json(lambda *_: (status, body)) as (chat, address):
        uri = address.replace("//", "//me:hunter2@")
        with pytest.raises(Unreachable, match=message) as raised:
            Tracker(uri)
        # No request is repeated: MLflow's own client would retry for minutes.
        assert len(chat.paths) == len({*chat.paths}) > 0
    assert f"tracking.uri={uri.replace('hunter2', '…')}: " in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_a_server_that_never_answers_is_announced_and_given_up(caplog, monkeypatch):
    assert reach.FIRST_TIMEOUT * 2 < 30
    monkeypatch.setattr(reach, "ANNOUNCE_AFTER", 0.1)
    monkeypatch.setattr(reach.check, "__defaults__", (0.4, 1))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(Unreachable, match="no answer within 0.4 s"):
            Tracker(uri)
        silent.setblocking(False)
        attempts = 0
        with contextlib.suppress(BlockingIOError):
            while silent.accept():
                attempts += 1
        assert 1 <= attempts <= 2
    assert f"waiting for tracking.uri={uri}" in caplog.text


@pytest.mark.parametrize(
    "uri", ["postgresql://me@host/db", "mlruns", "http://", "http://me:hunter2@127.0.0.1:9"]
)
def test_other_stores_are_refused(uri):
    with pytest.raises(Unreachable, match=r"tracking\.uri=") as raised:
        Tracker(uri)
    assert "hunter2" not in str(raised.value)


def test_a_sweep_without_a_server_stops_before_its_first_job(tmp_path, capsys):
    vectors = precomputed(tmp_path / "lab")
    address = f"http://127.0.0.1:{servers.free_port()}"
    arguments = ["-m", "model=precomputed", f"model.path={vectors}", "exp=glob(*_to_*)"]
    arguments += [*store_overrides(tmp_path), "tracking=server", f"tracking.uri={address}"]
    swept = command(tmp_path / "out", *arguments)
    printed = capsys.readouterr()
    assert swept.code == 1
    assert (printed.out + printed.err).count("no server listens there") == 1
    assert "Traceback" not in printed.out + printed.err
    assert not list(tmp_path.rglob("analyses.csv"))


def test_missing_artifacts_are_not_requested(server, tmp_path, monkeypatch):
    """Check that no request is sent: a server on S3 answers with 500, and clients retry for half a minute."""
    from mlflow import MlflowClient

    tracker = Tracker(server)
    run = tracker.start_run("here", "a job")
    run.log_text("text", "folder/words.txt")
    monkeypatch.setattr(MlflowClient, "download_artifacts", None)
    for name in ("absent", "folder/absent.txt", "absent/words.txt", "words.txt"):
        with pytest.raises(FileNotFoundError, match=f"has no artifact {name}"):
            run.fetch(name, tmp_path)
    monkeypatch.undo()
    assert run.fetch("folder/words.txt", tmp_path).read_text() == "text"
    run.end()


def test_a_deleted_experiment_and_remote_artifacts_are_refused(server, tmp_path):
    tracker = Tracker(server)
    tracker.client.create_experiment("folder", artifact_location="file:///srv/runs")
    with pytest.raises(InputError, match="a folder on the server's machine"):
        tracker.start_run("folder", "a job")
    deleted = tracker.get_or_create_experiment("deleted")
    tracker.client.delete_experiment(deleted)
    with pytest.raises(InputError, match=f"was deleted. Restore it: .* --experiment-id {deleted}"):
        tracker.start_run("deleted", "a job")


def refused(place, says, **options):
    """Check that a store is refused within seconds, with a message that names it."""
    began = time.monotonic()
    with pytest.raises(InputError, match=says) as raised:
        Tracker(f"sqlite:///{place}", **options)
    assert time.monotonic() - began < 5
    assert f"tracking.uri=sqlite:///{place}: " in str(raised.value)


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("/proc/nowhere/mlflow.db", "its folder is not writable"),
        ("/dev/full", "expected a file, got a device or pipe"),
        ("{folder}", "expected a file, got a folder.* Use a database"),
        ("{folder}/file/mlruns/mlflow.db", "its folder is not writable: Not a directory"),
    ],
)
def test_a_place_that_is_not_writable_is_refused(tmp_path, place, says):
    (tmp_path / "file").write_text("")
    refused(place.format(folder=tmp_path), says)


@pytest.mark.parametrize(
    ("foreign", "says"),
    [(False, "not a database.* Use a database that MLflow created"), (True, "tables of another program")],
)
def test_a_file_that_is_no_database_of_mlflow_is_left_unchanged(tmp_path, foreign, says):
    place = tmp_path / "mlflow.db"
    if foreign:
        with closing(sqlite3.connect(place)) as connection, connection:
            connection.execute("CREATE TABLE bookmarks (url)")
    else:
        place.write_text("nonsense" * 100)
    before = place.read_bytes()
    refused(place, says)
    refused(place, "not a tracking database", make=False)
    assert place.read_bytes() == before


@pytest.mark.parametrize("make", [True, False])
def test_the_wait_for_a_locked_database_is_logged(tmp_path, monkeypatch, caplog, make):
    monkeypatch.setattr(database, "LOCK_TIMEOUT", 1.0)
    monkeypatch.setattr(tracking_server, "ANNOUNCE_AFTER", 0.2)
    place = tmp_path / "mlflow.db"
    with closing(sqlite3.connect(place, isolation_level=None)) as another:
        another.execute("CREATE TABLE experiments (name)")
        another.execute("BEGIN EXCLUSIVE")
        refused(place, "database is locked.* Another process has locked it", make=make)
    assert f"{place}: waiting up to 1 s for another process that has locked it" in caplog.text


# A program in place of `mlflow`, which prints the store and its arguments.
MLFLOW = '#!/bin/sh\necho "$MLFLOW_BACKEND_STORE_URI"\nprintf "%s\\n" "$@"\n'


@pytest.fixture
def serve(tmp_path):
    (tmp_path / "mlflow").write_text(MLFLOW)
    (tmp_path / "mlflow").chmod(0o755)

    def run(*variables):
        command = ["make", "--silent", "--old-file=setup", "serve", f"BIN={tmp_path}", *variables]
        environment = {"PATH": os.environ["PATH"], "HOST": "node1"}  # some shells set HOST
        piped = {"capture_output": True, "text": True, "check": False}
        return subprocess.run(command, cwd=CHECKOUT, env=environment, **piped)

    return run


def test_by_default_a_server_listens_to_this_machine_alone_and_a_password_is_refused(serve):
    clients, store, *arguments = serve().stdout.splitlines()
    assert clients == "Clients: tracking=server tracking.uri=http://127.0.0.1:5000"
    assert store == "sqlite:///mlruns/server/mlflow.db"
    assert arguments[arguments.index("--host") + 1] == "127.0.0.1"
    assert not {"sqlite", "--allowed-hosts"} & {*arguments}
    result = serve("DATABASE=postgresql://me:hunter2@host/db")
    assert result.returncode
    assert "DATABASE contains a password" in result.stderr
    assert "hunter2" not in result.stdout + result.stderr


def test_an_exposed_server_is_announced_and_answers_to_its_names_alone(serve):
    given = ["DATABASE=postgresql://me@host/db", "ARTIFACTS=s3://bucket", "HOST=0.0.0.0", "PORT=7000"]
    assert "the only ones that it accepts: NAMES=HOST:7000" in serve(*given).stderr
    clients, warning, store, *arguments = serve(*given, "NAMES=node1:7000,10.0.0.5:7000").stdout.splitlines()
    assert clients.endswith("tracking.uri=http://node1:7000")
    assert warning.startswith("EXPOSED: the server has no password")
    assert store == "postgresql+psycopg2://me@host/db"
    allowed = arguments[arguments.index("--allowed-hosts") + 1].split(",")
    assert allowed == ["node1:7000", "10.0.0.5:7000", "127.0.0.1:7000", "localhost:7000"]
    origins = arguments[arguments.index("--cors-allowed-origins") + 1].split(",")
    assert origins[:2] == ["http://node1:7000", "https://node1:7000"]
    assert "tracking.uri=http://10.0.0.5:5000\nEXPOSED" in serve("HOST=10.0.0.5").stdout


def test_other_host_names_are_refused(server):
    host, port = server.removeprefix("http://").split(":")
    here, local, evil = f"{host}:{port}", "http://127.0.0.1:1", "http://evil.example"
    for name, origin, status in [(here, local, 200), ("evil.example", local, 403), (here, evil, 403)]:
        connection = http.client.HTTPConnection(host, int(port), timeout=60)
        headers = {"Host": name, "Content-Type": "application/json", "Origin": origin}
        connection.request("POST", "/api/2.0/mlflow/runs/search", '{"experiment_ids": ["0"]}', headers)
        assert connection.getresponse().status == status
        connection.close()
