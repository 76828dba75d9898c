"""A study that is defined outside of src/ goes through the command line into MLflow and the report."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file

from src.report.__main__ import main as report
from tests.commands import command
from tests.conftest import places, precomputed

SMALL = ["protocol.k=11", "protocol.extremes=6", "protocol.set_size=15"]
FOLDER = Path(__file__).with_name("study")


@pytest.fixture(autouse=True)
def found(monkeypatch):
    """Its folder is on PYTHONPATH."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield
    sys.modules.pop("dispersion", None)


def typed(tmp_path, *more):
    folder = tmp_path / "lab"
    vectors = folder if folder.exists() else precomputed(folder)
    *kept, _ = places(tmp_path)
    return [f"--config-dir={FOLDER / 'conf'}", "model=precomputed", f"model.path={vectors}", *kept, *more]


def test_a_study_of_one_s_own_runs_and_has_its_section(tmp_path, capsys):
    swept = command(tmp_path / "out", "-m", *typed(tmp_path, "exp=dispersion,faces_to_words", *SMALL))
    assert swept.code == 0
    assert "precomputed: dispersion " in capsys.readouterr().out
    every = pd.read_csv(swept.output / "report" / "tables" / "dispersion.csv")
    assert every["study"].unique() == ["dispersion:STUDY"]
    frame = pd.read_parquet(tmp_path / "lab" / "faces.parquet")
    vectors = load_file(tmp_path / "lab" / "faces.safetensors")["embedding"]
    for row in every.itertuples():
        own = vectors[(frame["group"] == row.group).to_numpy()]
        assert row.dispersion == pytest.approx(1 - np.linalg.norm(own.mean(0)), abs=1e-6)
    page = (swept.output / "report" / "index.html").read_text()
    assert page.count("data-dispersion=") == len(every)
    assert '<a href="#dispersion">Dispersion</a>' in page
    # Beside it the study of propagation, as ever.
    assert 'id="main"' in page


def test_it_is_resumed_and_logged_and_drawn_again(tmp_path, capsys):
    from src.tracking import Tracker, children, sweeps

    first, again = (
        command(tmp_path / name, "-m", *typed(tmp_path, "exp=dispersion")) for name in ("first", "again")
    )
    assert (first.code, again.code) == (0, 0)
    assert "1 of 1 jobs were finished already" in capsys.readouterr().out
    uri = f"sqlite:///{tmp_path}/mlruns/mlflow.db"
    tracker = Tracker(uri)
    newest, oldest = sweeps(tracker)
    (run,) = children(tracker, oldest)
    assert run.metrics["dispersion"] == pytest.approx(first.analyses()["dispersion"].mean())
    assert run.tags["study"] == "dispersion:STUDY"
    assert report([f"tracking.uri={uri}", f"output={tmp_path}/drawn"]) == 0
    assert "data-dispersion=" in (tmp_path / "drawn" / "index.html").read_text()
    assert newest.metrics["analyses"] == len(first.analyses())


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        ("exp.options.leest=3", "exp.options: Key 'leest'"),
        ("exp.options.least=500", "exp.options.least=500: "),
        ("exp.options.least=1", "exp.least=1: must be at least 2"),
        ("exp.study=dispersed:STUDY", "study=dispersed:STUDY: cannot be imported"),
        ("exp.study=implicitt", "Did you mean 'implicit'?"),
    ],
)
def test_mistakes_are_named(tmp_path, capsys, mistake, said):
    plus = "+" if "leest" in mistake else ""
    assert command(tmp_path / "o", *typed(tmp_path, "exp=dispersion", plus + mistake)).code == 1
    shown = capsys.readouterr()
    assert said in shown.err + shown.out
    assert "Traceback" not in shown.err + shown.out
