"""MLflow's pages as a user sees them, in a headless browser: a sweep, its parent, a comparison."""

import pytest
from mlflow import MlflowClient

from tests.commands import command
from tests.conftest import SHRUNK, places

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def runs(store, kept, sweeps, tmp_path_factory):
    """A sweep of the shrunk toy, whose weights and vectors are there."""
    tracked = f"tracking.uri=sqlite:///{store}"
    output = tmp_path_factory.mktemp("o")
    assert command(output, "-m", "exp=glob(*_to_*)", *SHRUNK, *places(kept), tracked).code == 0
    client = MlflowClient(f"sqlite:///{store}")
    (experiment,) = [e for e in client.search_experiments() if e.name == "demo"]
    found = client.search_runs([experiment.experiment_id])
    (parent,) = [run for run in found if run.data.tags["kind"] == "sweep"]
    children = [run for run in found if run.data.tags.get("mlflow.parentRunId") == parent.info.run_id]
    return experiment.experiment_id, parent, children


def test_the_experiment_lists_the_sweep(shown, runs):
    experiment, _, _ = runs
    shown(f"experiments/{experiment}/runs", "experiment", "demo", "sweep")


def test_the_parent_shows_what_was_found(shown, runs):
    experiment, parent, _ = runs
    text = shown(f"experiments/{experiment}/runs/{parent.info.run_id}", "parent", "analyses", "rho_sd")
    assert "38" in text
    shown(
        f"experiments/{experiment}/runs/{parent.info.run_id}/artifacts/summary/heatmap.png",
        "heatmap", "heatmap.png", "summary.csv", "jobs.csv",
    )  # fmt: skip


def test_children_can_be_compared(shown, runs):
    experiment, _, children = runs
    assert len(children) == 8
    ids = ",".join(f'"{run.info.run_id}"' for run in children[:3])
    names = [f"{run.data.tags['exp']}" for run in children[:3]]
    path = f'compare-runs?runs=[{ids}]&experiments=["{experiment}"]'
    text = shown(path, "compare", "Comparing 3 Runs", "protocol.k", *names)
    assert "rho" in text


def test_a_job_shows_what_it_read(shown, runs):
    experiment, _, children = runs
    (run,) = [run for run in children if run.data.tags["exp"] == "faces_to_words"]
    text = shown(f"experiments/{experiment}/runs/{run.info.run_id}", "job", "Datasets", "demo faces")
    assert run.data.tags["input.faces"][:36] in text
