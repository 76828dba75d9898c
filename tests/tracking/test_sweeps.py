"""Run sweeps through a server: several at once, an outage, a report from another machine."""

import json
import os
import re
import secrets
from contextlib import ExitStack

import pandas as pd
import pytest
from mlflow import MlflowClient

from src.report import __main__ as reporting
from src.studies.propagation import experiment
from src.tracking import Run, Tracker, Unreachable
from src.tracking import tracking_server as reach
from tests import launched
from tests.commands import SMALL, command
from tests.conftest import precomputed, store_overrides
from tests.tracking import concurrent_sweeps, servers

PAIRS = [
    ("faces_to_words", "words_to_scenes"),
    ("faces_to_labels", "labels_to_scenes"),
    ("labels_to_faces", "scenes_to_labels"),
    ("scenes_to_words", "words_to_faces"),
]


def sweep(folders, pair, uri, mlruns) -> list[str]:
    paths = ",".join(map(str, folders))
    arguments = ["-m", "model=precomputed", f"model.path={paths}", f"exp={','.join(pair)}"]
    return [*arguments, *SMALL, *store_overrides(mlruns), "tracking=server", f"tracking.uri={uri}"]


@pytest.fixture
def alone(server):
    """Rename the experiment of other tests on the server, and return its address."""
    client = MlflowClient(server)
    experiment = client.get_experiment_by_name("precomputed")
    if experiment:
        client.rename_experiment(experiment.experiment_id, f"before {secrets.token_hex(4)}")
    return server


def lost_in_the_middle(output, arguments):
    """Run a sweep in a forked process that cuts its wire when its second job starts to analyse."""
    analyse, calls = experiment.run, []

    def run(*given, **options):
        calls.append(given)
        if len(calls) == 2:
            (output.parent / "cut").touch()
        return analyse(*given, **options)

    experiment.run = run
    os.environ |= {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "5"}
    concurrent_sweeps.run(output, arguments)


@pytest.mark.thorough
def test_a_server_that_fails_in_the_middle(alone, tmp_path, monkeypatch):
    """Check that results are in the folders, partial runs do not count, and a rerun completes them."""
    vectors = precomputed(tmp_path / "lab")
    wire = servers.Wire(alone, tmp_path / "cut")
    exps = ("faces_to_words", "words_to_scenes", "faces_to_labels")
    arguments = sweep([vectors], exps, wire.address, tmp_path)
    output = tmp_path / "first"
    codes = concurrent_sweeps.at_once({output: arguments}, lost_in_the_middle)
    log = output.with_suffix(".log").read_text()
    assert codes == [1], log
    assert "Traceback" not in log
    assert len(re.findall(r"\[src.jobs.runner\]\[ERROR\] - .*results are in ", log)) == 2
    # All three were computed.
    assert len(list(output.glob("*/results/analyses.csv"))) == 3
    parents, jobs = launched.runs_of(alone)
    assert [run.info.status for run in jobs] == ["FINISHED", "RUNNING"]
    assert [run.info.status for run in parents] == ["RUNNING"]

    # The artifacts of a finished run are unreachable, not missing.
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    cut_off = Tracker(alone)
    cut_off.uri, cut_off.client = wire.address, MlflowClient(wire.address)
    with pytest.raises(Unreachable, match="no answer"):
        Run(jobs[0].info.run_id, cut_off).fetch("results", tmp_path)

    again = command(tmp_path / "second", *sweep([vectors], exps, alone, tmp_path))
    assert again.code == 0
    parents, jobs = launched.runs_of(alone)
    assert [run.info.status for run in jobs] == ["FINISHED", "KILLED", "FINISHED", "FINISHED"]
    assert [run.info.status for run in parents] == ["KILLED", "FINISHED"]
    assert launched.result_files(output) == launched.result_files(again.output)
    table = pd.read_csv(MlflowClient(alone).download_artifacts(parents[1].info.run_id, "summary/jobs.csv"))
    assert sorted(table["status"]) == ["finished", "finished", "taken_over"]
    wire.close()


@pytest.mark.thorough
def test_a_server_that_comes_back_is_used_again(alone, tmp_path, monkeypatch):
    """Check that the job during the outage failed, its run is ended, and the parent is complete."""
    monkeypatch.setattr(reach, "RETRY_SETTINGS", {})
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    cut = tmp_path / "cut"
    wire, analyse, calls = servers.Wire(alone, cut), experiment.run, []

    def run(*given, **options):
        calls.append(given)
        cut.touch() if len(calls) == 1 else cut.unlink(missing_ok=True)
        return analyse(*given, **options)

    monkeypatch.setattr(experiment, "run", run)
    vectors = precomputed(tmp_path / "lab")
    exps = ("faces_to_words", "words_to_scenes", "faces_to_labels")
    swept = command(tmp_path / "out", *sweep([vectors], exps, wire.address, tmp_path))
    assert swept.code == 1
    (parent,), jobs = launched.runs_of(alone)
    assert [run.info.status for run in jobs] == ["FAILED", "FINISHED"]
    assert jobs[0].data.tags["ended"] == "the tracking store was out of reach while it ran"
    assert parent.info.status == "FAILED"
    table = pd.read_csv(MlflowClient(alone).download_artifacts(parent.info.run_id, "summary/jobs.csv"))
    assert table["status"].tolist() == ["failed", "failed", "finished"]
    assert len(list(swept.output.glob("*/results/analyses.csv"))) == 3
    wire.close()


@pytest.mark.thorough
@pytest.mark.timeout(3000)  # minutes, and more where the machine is busy
def test_four_sweeps_at_once_on_postgresql_and_s3(tmp_path, capsys, monkeypatch):
    """Check 24 jobs: none lost, doubled or partial; no secret in any of their files."""
    if not servers.BINARIES:
        pytest.skip("PostgreSQL is not installed: make system")
    key = secrets.token_hex(16)
    with servers.postgres() as (database, password), servers.s3("carryover") as s3:
        environment = {"PGPASSWORD": password, "AWS_ACCESS_KEY_ID": "carryover", "AWS_SECRET_ACCESS_KEY": key}
        environment |= {"AWS_DEFAULT_REGION": "us-east-1", "MLFLOW_S3_ENDPOINT_URL": s3}
        log = tmp_path / "server.log"
        with servers.mlflow(database, "s3://carryover/runs", log, environment) as address:
            folders = [precomputed(tmp_path / f"lab{n}", seed=n) for n in range(3)]
            outputs = [tmp_path / str(number) for number in range(4)]
            with ExitStack() as stack:
                started = [
                    stack.enter_context(launched.Started(output, sweep(folders, pair, address, tmp_path)))
                    for output, pair in zip(outputs, PAIRS, strict=True)
                ]
                ended = [process.wait(1500) for process in started]
            assert [code for code, _ in ended] == [0, 0, 0, 0]
            (tmp_path / "fetched").mkdir()
            concurrent_sweeps.check_complete(address, outputs, tmp_path / "fetched", jobs=24)
            # From new folders, as on another machine: finished jobs are reused, and their report is drawn.
            (tmp_path / "more").mkdir()
            again = command(
                tmp_path / "more" / "again", *sweep(folders, PAIRS[0], address, tmp_path / "more")
            )
            assert again.code == 0
            assert "6 of 6 jobs were finished already" in " ".join(capsys.readouterr().out.split())
            index = tmp_path / "more" / "report" / "index.html"
            assert reporting.main([f"tracking.uri={address}", f"output={index.parent}"]) == 0
            assert "faces_to_words" in index.read_text()
            (tmp_path / "awkward").mkdir()
            concurrent_sweeps.check_awkward_values(address, tmp_path / "awkward")
            runs = [run.to_dictionary() for kind in launched.runs_of(address) for run in kind]
    texts = {"runs": json.dumps(runs).encode(), "printed": repr(ended).encode()}
    texts |= {str(path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert len(texts) > 24 * 5
    for secret in (password, key):
        assert not [name for name, text in texts.items() if secret.encode() in text]
    text = log.read_text()
    assert not re.search(r"ERROR|Traceback|HTTP/1.1\" 5\d\d", text)
    # Nothing is fetched past the server, from a store that a client may not reach.
    assert "presigned" not in text
