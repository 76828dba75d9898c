"""A server that is not there, is no MLflow server, or lets nobody in: said at once, before any work."""

import contextlib
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from src.errors import InputError
from src.tracking import Tracker, Unreachable
from src.tracking import tracking_server as reach
from tests.commands import command
from tests.conftest import places, precomputed
from tests.tracking import counted, servers


@pytest.fixture
def answering():
    """Starts a server that gives one answer to everything; its address, and the paths it is asked for."""
    started = []

    def start(status, body=b"", kind="application/json"):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                start.paths.append(self.path)
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=httpd.serve_forever, args=(0.02,), daemon=True).start()
        started.append(httpd)
        start.paths = []
        return f"http://127.0.0.1:{httpd.server_address[1]}"

    yield start
    for httpd in started:
        httpd.shutdown()
        httpd.server_close()


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (401, b"", "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"),
        (403, b"Permission denied", r"refuses access \(403\)"),
        (
            403,
            b"Invalid Host header - possible DNS rebinding attack detected",
            "make serve HOST=... NAMES=127",
        ),
        (404, b"<html>no such page", "no MLflow server does"),
        (200, b"<html>welcome", "no MLflow server does"),
        (200, b"{}", "no MLflow server does"),
        (200, b"[]", "no MLflow server does"),
        (500, b"", "answers with error 500: its log says why"),
        (503, b"", "answers with error 503"),
    ],
)
def test_what_answers_but_will_not_do(answering, status, body, says):
    address = answering(status, body)
    with pytest.raises(Unreachable, match=says) as raised:
        Tracker(address)
    assert f"tracking.uri={address}: " in str(raised.value)
    # Nothing is tried again: MLflow's own client would for minutes.
    assert len(answering.paths) == len({*answering.paths})


def test_nothing_listens_there():
    address = f"http://127.0.0.1:{servers.free_port()}"
    with pytest.raises(Unreachable, match=f"{address}: nothing listens there. Start the server"):
        Tracker(address)


def test_a_name_that_nobody_knows():
    with pytest.raises(Unreachable, match="the name nowhere.invalid is not known here"):
        Tracker("http://nowhere.invalid:5000")


def test_a_server_that_never_answers_is_not_waited_for():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(Unreachable, match="no answer within 0.5 s"):
            reach.require(address, seconds=0.5)
        silent.setblocking(False)
        attempts = 0
        with contextlib.suppress(BlockingIOError):
            while silent.accept():
                attempts += 1
        assert 1 <= attempts <= 2
    assert reach.FIRST * 2 < 30


@pytest.mark.parametrize(
    "uri", ["postgresql://me@host/db", "databricks", "mlruns", "file:///tmp/mlruns", "http://"]
)
def test_other_stores_are_refused(uri):
    with pytest.raises(Unreachable, match=r"tracking\.uri="):
        Tracker(uri)


def test_a_sweep_stops_before_its_first_job_and_says_so_once(tmp_path, capsys):
    vectors = precomputed(tmp_path / "lab")
    address = f"http://127.0.0.1:{servers.free_port()}"
    arguments = ["-m", "model=precomputed", f"model.path={vectors}", "exp=glob(*_to_*)", *places(tmp_path)]
    swept = command(tmp_path / "out", *arguments, "tracking=server", f"tracking.uri={address}")
    said = capsys.readouterr()
    assert swept.code == 1
    assert (said.out + said.err).count("nothing listens there") == 1
    assert "Traceback" not in said.out + said.err
    assert not list(tmp_path.rglob("analyses.csv"))
    single = command(
        tmp_path / "one", *arguments[1:3], *places(tmp_path), "tracking=server", f"tracking.uri={address}"
    )
    assert single.code == 1
    assert capsys.readouterr().out.count("nothing listens there") == 1


def test_an_address_has_to_be_said(tmp_path, capsys):
    assert command(tmp_path / "out", "tracking=server", "report=false").code == 1
    said = capsys.readouterr()
    assert "tracking.uri: not set. Say tracking.uri=VALUE." in said.out + said.err


def test_a_password_in_an_address_is_in_no_message(answering):
    planted = "hunter2hunter2"
    for status in (401, 403, 404, 500):
        address = answering(status).replace("http://", f"http://me:{planted}@")
        with pytest.raises(Unreachable, match=r"tracking.uri=http://me:…@127.0.0.1") as raised:
            Tracker(address)
        assert planted not in str(raised.value)
    with pytest.raises(Unreachable) as raised:
        Tracker(f"http://me:{planted}@127.0.0.1:{servers.free_port()}")
    assert planted not in str(raised.value)


def test_what_is_not_there_is_not_asked_for_again_and_again(server, tmp_path, monkeypatch):
    """A server on S3 answers 500: its client would try for half a minute."""
    from mlflow import MlflowClient

    tracker = Tracker(server)
    run = tracker.open("here", "a job")
    run.text("said", "folder/words.txt")
    monkeypatch.setattr(MlflowClient, "download_artifacts", None)
    for name in ("absent", "folder/absent.txt", "absent/words.txt", "words.txt"):
        with pytest.raises(FileNotFoundError, match=f"{name} is not kept"):
            run.fetch(name, tmp_path)
    monkeypatch.undo()
    assert run.fetch("folder/words.txt", tmp_path).read_text() == "said"
    tracker.close(run)


def test_the_environment_names_no_other_store(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    tracker = Tracker(f"sqlite:///{tmp_path}/mlflow.db")
    run = tracker.open("here", "a job")
    run.text("said", "words.txt")
    tracker.close(run)
    (tmp_path / "fetched").mkdir()
    assert run.fetch("words.txt", tmp_path / "fetched").read_text() == "said"


def test_names_and_texts_that_a_server_must_take(server, tmp_path):
    counted.awkward(server, tmp_path)


def test_a_deleted_experiment_and_one_whose_artifacts_are_elsewhere_are_said(server, tmp_path):
    tracker = Tracker(server)
    tracker.client.create_experiment("folder", artifact_location="file:///srv/runs")
    with pytest.raises(InputError, match="a folder of its own machine"):
        tracker.open("folder", "a job")
    gone = tracker.experiment("gone")
    tracker.client.delete_experiment(gone)
    with pytest.raises(InputError, match=f"was deleted. Restore it: .* --experiment-id {gone}"):
        tracker.open("gone", "a job")
