"""Sweeps through a server: several at once, one whose server goes away, a report from another machine.

Quick on SQLite and a folder; the thorough form has four sweeps of 24 jobs on PostgreSQL and S3.
"""

import json
import os
import re
import secrets
import shutil
import subprocess
import sys

import pandas as pd
import pytest
from mlflow import MlflowClient

from src.report import __main__ as reporting
from src.studies.propagation import experiment
from src.tracking import Run, Tracker, Unreachable
from src.tracking import tracking_server as reach
from tests.commands import command
from tests.conftest import places, precomputed
from tests.paths import CHECKOUT
from tests.tracking import counted, servers

SMALL = ["protocol.k=11", "protocol.extremes=6", "protocol.set_size=15", "protocol.placebo=20"]
SMALL += ["protocol.bootstrap=20", "protocol.attribute_draws=2", "protocol.property_draws=2"]
PAIRS = [
    ("faces_to_words", "words_to_scenes"),
    ("faces_to_labels", "labels_to_scenes"),
    ("labels_to_faces", "scenes_to_labels"),
    ("scenes_to_words", "words_to_faces"),
]


def sweep(folders, pair, uri, mlruns) -> list[str]:
    paths = ",".join(map(str, folders))
    asked = ["-m", "model=precomputed", f"model.path={paths}", f"exp={','.join(pair)}", *SMALL]
    return [*asked, *places(mlruns), "tracking=server", f"tracking.uri={uri}"]


def jobs_of(uri):
    """Runs of jobs and of sweeps, oldest first."""
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("precomputed").experiment_id
    every = client.search_runs([experiment], order_by=["attributes.start_time ASC"])
    return [[run for run in every if run.data.tags.get("kind") == kind] for kind in ("job", "sweep")]


@pytest.fixture
def alone(server):
    """The server without what other tests tracked."""
    client = MlflowClient(server)
    found = client.get_experiment_by_name("precomputed")
    if found:
        client.rename_experiment(found.experiment_id, f"before {secrets.token_hex(4)}")
    return server


@pytest.mark.thorough
def test_two_sweeps_at_once_lose_nothing(alone, tmp_path, monkeypatch, capsys):
    folders = [precomputed(tmp_path / "lab0", seed=0)]
    asked = {tmp_path / str(n): sweep(folders, PAIRS[n], alone, tmp_path) for n in range(2)}
    assert counted.at_once(asked) == [0, 0]
    (tmp_path / "fetched").mkdir()
    counted.whole(alone, list(asked), tmp_path / "fetched", jobs=4)
    # Another machine, which has none of these folders, takes them over and draws their report.
    for output in asked:
        shutil.rmtree(output)
    again = command(tmp_path / "again", *sweep(folders, PAIRS[0], alone, tmp_path))
    assert again.code == 0
    assert "2 of 2 jobs were finished already" in " ".join(capsys.readouterr().out.split())
    assert len(again.analyses()) > 2
    index = tmp_path / "drawn" / "index.html"
    assert reporting.main([f"tracking.uri={alone}", f"output={index.parent}"]) == 0
    assert "faces_to_words" in index.read_text()


def lost_in_the_middle(output, arguments, cut):
    """A sweep in a forked process that cuts its wire as its second job begins to analyse."""
    analyse, calls = experiment.run, []

    def run(*given):
        calls.append(given)
        if len(calls) == 2:
            cut.touch()
        return analyse(*given)

    experiment.run = run
    for name, value in {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "5"}.items():
        os.environ[name] = value
    counted.run(output, arguments)


def test_a_server_that_goes_away_in_the_middle(alone, tmp_path, monkeypatch):
    """Results are in the folders, nothing half-written counts as finished, the rerun does what is missing."""
    import multiprocessing

    vectors = precomputed(tmp_path / "lab")
    wire = servers.Wire(alone, tmp_path / "cut")
    three = ("faces_to_words", "words_to_scenes", "faces_to_labels")
    arguments = sweep([vectors], three, wire.address, tmp_path)
    output = tmp_path / "first"
    process = multiprocessing.get_context("fork").Process(
        target=lost_in_the_middle, args=(output, arguments, tmp_path / "cut")
    )
    process.start()
    process.join(300)
    said = output.with_suffix(".log").read_text()
    assert process.exitcode == 1, said
    assert "Traceback" not in said
    assert len(re.findall(r"\[src.jobs.runner\]\[ERROR\] - .*results are in ", said)) == 2
    # All three were computed.
    assert len(list(output.glob("*/results/analyses.csv"))) == 3
    jobs, parents = jobs_of(alone)
    assert [run.info.status for run in jobs] == ["FINISHED", "RUNNING"]
    assert [run.info.status for run in parents] == ["RUNNING"]

    # Its artifacts are out of reach, not gone.
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    gone = Tracker(alone)
    gone.uri, gone.client = wire.address, MlflowClient(wire.address)
    with pytest.raises(Unreachable, match="no answer"):
        Run(jobs[0].info.run_id, gone).fetch("results", tmp_path)

    again = command(tmp_path / "second", *sweep([vectors], three, alone, tmp_path))
    assert again.code == 0
    jobs, parents = jobs_of(alone)
    assert [run.info.status for run in jobs] == ["FINISHED", "KILLED", "FINISHED", "FINISHED"]
    assert [run.info.status for run in parents] == ["KILLED", "FINISHED"]
    for name in ("0", "1", "2"):
        assert counted.contents(output / name / "results") == counted.contents(
            again.output / name / "results"
        )
    table = pd.read_csv(MlflowClient(alone).download_artifacts(parents[1].info.run_id, "summary/jobs.csv"))
    assert sorted(table["status"]) == ["finished", "finished", "taken_over"]
    wire.close()


@pytest.mark.thorough
def test_a_server_that_comes_back_is_used_again(alone, tmp_path, monkeypatch):
    """The job in between is said to have failed, and its run is ended; the parent is complete."""
    monkeypatch.setattr(reach, "PATIENCE", {})
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    wire, cut = servers.Wire(alone, tmp_path / "cut"), tmp_path / "cut"
    analyse, calls = experiment.run, []

    def run(*given):
        calls.append(given)
        cut.touch() if len(calls) == 1 else cut.unlink(missing_ok=True)
        return analyse(*given)

    monkeypatch.setattr(experiment, "run", run)
    vectors = precomputed(tmp_path / "lab")
    three = ("faces_to_words", "words_to_scenes", "faces_to_labels")
    swept = command(tmp_path / "out", *sweep([vectors], three, wire.address, tmp_path))
    assert swept.code == 1
    jobs, (parent,) = jobs_of(alone)
    assert [run.info.status for run in jobs] == ["FAILED", "FINISHED"]
    assert jobs[0].data.tags["ended"] == "the tracking store was out of reach while it ran"
    assert parent.info.status == "FAILED"
    table = pd.read_csv(MlflowClient(alone).download_artifacts(parent.info.run_id, "summary/jobs.csv"))
    assert table["status"].tolist() == ["failed", "failed", "finished"]
    assert len(list(swept.output.glob("*/results/analyses.csv"))) == 3
    wire.close()


def test_a_run_that_ended_while_its_process_was_looked_for_stays_finished(alone, monkeypatch):
    """Its process is gone because it is done."""
    from src.tracking import repair

    made = Tracker(alone)
    run = made.open("precomputed", "a job")

    def gone(_):
        made.close(run)
        return True

    monkeypatch.setattr(repair, "gone", gone)
    Tracker(alone)
    assert made.client.get_run(run.id).info.status == "FINISHED"


def begun(arguments: list[str]) -> subprocess.Popen:
    """A sweep as a user begins it; what it says in a file beside its folder."""
    output = arguments[-1].partition("=")[2]
    with open(f"{output}.log", "w") as said:  # noqa: PTH123
        return subprocess.Popen(
            [sys.executable, "-m", "src.run", *arguments], cwd=CHECKOUT, stdout=said, stderr=said,
            env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        )  # fmt: skip


@pytest.mark.thorough
@pytest.mark.timeout(3000)  # minutes, and more where the machine is busy
def test_four_sweeps_at_once_on_postgresql_and_s3(tmp_path):
    """24 jobs: none lost, doubled or half-written; no secret in anything that they leave."""
    if not servers.BINARIES:
        pytest.skip("PostgreSQL is not installed: make system")
    key = secrets.token_hex(16)
    with servers.postgres() as database, servers.s3("carryover") as s3:
        environment = {
            "PGPASSWORD": database.password,
            "AWS_ACCESS_KEY_ID": "carryover",
            "AWS_SECRET_ACCESS_KEY": key,
            "AWS_DEFAULT_REGION": "us-east-1",
            "MLFLOW_S3_ENDPOINT_URL": s3,
        }
        log = tmp_path / "server.log"
        with servers.mlflow(database.uri, "s3://carryover/runs", log, environment) as address:
            folders = [precomputed(tmp_path / f"lab{n}", seed=n) for n in range(3)]
            started = [
                begun([*sweep(folders, pair, address, tmp_path), f"hydra.sweep.dir={tmp_path / str(number)}"])
                for number, pair in enumerate(PAIRS)
            ]
            assert [process.wait(1500) for process in started] == [0, 0, 0, 0]
            (tmp_path / "fetched").mkdir()
            outputs = [tmp_path / str(number) for number in range(4)]
            counted.whole(address, outputs, tmp_path / "fetched", jobs=24)
            (tmp_path / "awkward").mkdir()
            counted.awkward(address, tmp_path / "awkward")
            runs = [run.to_dictionary() for kind in jobs_of(address) for run in kind]
    texts = {"runs": json.dumps(runs).encode()}
    texts |= {str(path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert len(texts) > 24 * 5
    for secret in (database.password, key):
        assert not [name for name, text in texts.items() if secret.encode() in text]
    said = log.read_text()
    assert not re.search(r"ERROR|Traceback|HTTP/1.1\" 5\d\d", said)
    # Nothing is fetched past the server, from a store that a client may not reach.
    assert "presigned" not in said
