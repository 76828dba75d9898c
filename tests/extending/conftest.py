"""Run each example from the command line, with its code and configs outside src/."""

import sys
from pathlib import Path

import pytest

from src.tracking import Tracker, find_children, find_sweeps
from tests.commands import command
from tests.conftest import precomputed, store_overrides

SMALL_SETS = ["protocol.k=11", "protocol.extremes=6", "protocol.set_size=15"]
WORLD = ["faces.per_group=12", "scenes.count=60", "words.count=60", *SMALL_SETS]
WORLD += ["trainer=cpu", "trainer.workers=0"]
TOY = ["model=toy_s", "model.steps=0", "model.width=16", "model.layers=1", "model.embed_dim=16"]


@pytest.fixture(autouse=True)
def folder(request, monkeypatch):
    """Add the folder that the test file is named after, or a parameter, to the import path."""
    name = getattr(request, "param", request.path.stem.removeprefix("test_"))
    path = Path(__file__).with_name(name)
    monkeypatch.syspath_prepend(str(path))
    yield path
    for module in path.glob("*.py"):
        sys.modules.pop(module.stem, None)


@pytest.fixture
def run(tmp_path, folder):
    """Run a job, or a sweep, with the configs of the example."""

    def execute(output, *overrides, sweep=True):
        arguments = [f"--config-dir={folder / 'conf'}", *store_overrides(tmp_path)[:-1], *overrides]
        return command(tmp_path / output, *["-m"] * sweep, *arguments)

    return execute


@pytest.fixture
def tracker(tmp_path):
    """Open the tracking store of the test."""
    return Tracker(f"sqlite:///{tmp_path}/mlruns/mlflow.db")


@pytest.fixture
def jobs(tracker):
    """Return the runs of the jobs of the latest sweep, once it has ended."""
    return lambda: find_children(tracker, find_sweeps(tracker)[0])


@pytest.fixture
def vector_overrides(tmp_path):
    """Write precomputed vectors, and return the overrides that select them."""
    return ["model=precomputed", f"model.path={precomputed(tmp_path / 'lab')}"]
