"""What `make serve` starts, and what it says of being exposed."""

import http.client
import subprocess

import pytest

from src.errors import InputError
from src.tracking import serve
from tests.paths import CHECKOUT


def test_by_default_this_machine_alone(tmp_path):
    said = serve.read([f"database=sqlite:///{tmp_path}/new/mlflow.db", f"artifacts={tmp_path}/files"])
    command, environment = serve.prepared(said)
    assert command[command.index("--host") + 1] == "127.0.0.1"
    assert "--allowed-hosts" not in command
    assert environment["MLFLOW_BACKEND_STORE_URI"] == f"sqlite:///{tmp_path}/new/mlflow.db"
    assert not any("sqlite" in word for word in command)
    assert (tmp_path / "new").is_dir()
    assert (tmp_path / "files").is_dir()
    assert "EXPOSED" not in serve.notice(said)
    assert "http://127.0.0.1:5000 (this machine alone" in serve.notice(said)


def test_exposed_it_says_so_and_answers_to_its_names_alone(tmp_path):
    given = ["database=postgresql://me@host/db", "artifacts=s3://bucket", "host=0.0.0.0", "port=7000"]
    with pytest.raises(InputError, match="Say under which name others reach it: names=HOST:7000"):
        serve.read(given)
    said = serve.read([*given, "names=node1:7000,10.0.0.5:7000"])
    command, environment = serve.prepared(said)
    assert environment["MLFLOW_BACKEND_STORE_URI"] == "postgresql+psycopg2://me@host/db"
    allowed = command[command.index("--allowed-hosts") + 1].split(",")
    assert allowed == ["node1:7000", "10.0.0.5:7000", "127.0.0.1:7000", "localhost:7000"]
    origins = command[command.index("--cors-allowed-origins") + 1].split(",")
    assert origins[:2] == ["http://node1:7000", "https://node1:7000"]
    assert "*" not in "".join(command)
    notice = serve.notice(said)
    assert "EXPOSED: there is no password" in notice
    assert "tracking.uri=http://node1:7000" in notice
    assert "names=10.0.0.5:5000" not in notice
    one = serve.read(["host=10.0.0.5", "names="])
    assert "tracking.uri=http://10.0.0.5:5000" in serve.notice(one)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("database=postgresql://me:hunter2@host/db", "holds a password"),
        ("port=http", "not a number"),
        ("adress=1.2.3.4", "not understood"),
    ],
)
def test_mistakes(given, says, capsys):
    assert serve.main([given]) == 1
    said = capsys.readouterr().err
    assert says in said
    assert "hunter2" not in said


def test_the_name_of_the_machine_in_the_environment_exposes_nothing():
    """Some shells export HOST."""
    said = subprocess.run(
        ["make", "--dry-run", "-o", "setup", "serve"], cwd=CHECKOUT, capture_output=True, text=True,
        check=True, env={"PATH": "/usr/bin:/bin", "HOST": "node1"},
    ).stdout  # fmt: skip
    assert "host='127.0.0.1'" in said


def test_a_name_that_is_not_its_own_is_refused(server):
    """MLflow's middleware stands between a browser's other pages and the runs."""
    host, port = server.removeprefix("http://").split(":")
    for name, origin, status in [
        (f"{host}:{port}", None, 200),
        (f"{host}:{port}", "http://127.0.0.1:1", 200),
        ("evil.example", None, 403),
        (f"{host}:{port}", "http://evil.example", 403),
    ]:
        asked = http.client.HTTPConnection(host, int(port), timeout=60)
        headers = {"Host": name, "Content-Type": "application/json", **({"Origin": origin} if origin else {})}
        asked.request("POST", "/api/2.0/mlflow/runs/search", '{"experiment_ids": ["0"]}', headers)
        assert asked.getresponse().status == status
        asked.close()
