"""A file layout of a test's own folder goes through the command line into MLflow and the report."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from tests.commands import command
from tests.conftest import places
from tests.extending.test_encoder import SMALL

FOLDER = Path(__file__).with_name("layout")
GROUPS = [f"{people} {gender}" for people in ("Niffite", "Luupite", "Laapian") for gender in ("Women", "Men")]


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """Its folder is on PYTHONPATH."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield
    sys.modules.pop("folders", None)


@pytest.fixture
def pictures(tmp_path):
    """Pictures of noise, 12 of each group, and a file that is none."""
    rng = np.random.default_rng(0)
    for group in GROUPS:
        (tmp_path / "pictures" / group).mkdir(parents=True)
        for number in range(12):
            noise = rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)
            Image.fromarray(noise).save(tmp_path / "pictures" / group / f"{number:02}.png")
    (tmp_path / "pictures" / GROUPS[0] / "notes.txt").write_text("of the session")
    return tmp_path / "pictures"


def typed(tmp_path, *more):
    *stores, _ = places(tmp_path)
    small = [item for item in SMALL if item != "faces.per_group=12"]
    model = ["model=toy_s", "model.steps=0", "model.width=16", "model.layers=1", "model.embed_dim=16"]
    return [f"--config-dir={FOLDER / 'conf'}", "dataset=folders", *model, *small, *stores, *more]


def test_a_layout_is_read_and_in_the_report(tmp_path, pictures, capsys):
    from src.tracking import Tracker, children, sweeps

    root = f"faces.options.root={pictures}"
    swept = command(tmp_path / "out", "-m", *typed(tmp_path, root, "exp=faces_to_words"))
    assert swept.code == 0, capsys.readouterr().out
    analyses = swept.analyses()
    assert (set(analyses["dataset"]), set(analyses["group"])) == ({"folders"}, set(GROUPS))
    assert "folders" in (swept.output / "report" / "index.html").read_text()
    tracker = Tracker(f"sqlite:///{tmp_path}/mlruns/mlflow.db")
    for run in children(tracker, *sweeps(tracker)):
        assert run.tags["dataset"] == "folders"
        assert run.tags["used.faces"] == "faces: 72 used of 73 (1 are no .png)"
    targets = pd.read_parquet(swept.results("faces_to_words") / "targets.parquet")
    assert {name.rpartition("/")[0] for name in targets["id"]} == set(GROUPS)


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ("+faces.options.suffx=.jpg", "unexpected keyword argument 'suffx'. Its options are root, suffix"),
        ("+faces.options.suffix=.jpg", "expected pictures .jpg in folders of groups, got none"),
        ("faces.loader=folder", "loader: unknown name 'folder'. Name your own as module:attribute"),
        ("faces.loader=folder:load", "loader=folder:load: cannot be imported"),
        ("faces.loader=folders:Path", "expected function, got type"),
    ],
)
def test_mistakes_are_named(tmp_path, pictures, capsys, mistake, message):
    root = f"faces.options.root={pictures}"
    assert command(tmp_path / "o", *typed(tmp_path, root, mistake)).code == 1
    output = capsys.readouterr()
    assert message in output.err + output.out
    assert "Traceback" not in output.err + output.out


def test_an_option_without_a_value_is_named(tmp_path, capsys):
    assert command(tmp_path / "o", *typed(tmp_path)).code == 1
    output = capsys.readouterr()
    assert "faces.options.root: not set" in output.err + output.out
