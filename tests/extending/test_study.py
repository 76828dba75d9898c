"""Add a study from a test's own folder, up to MLflow and the report."""

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file

from src.report.__main__ import main as report
from src.tracking import find_children, find_sweeps
from tests.extending.conftest import SMALL_SETS


def test_a_study_runs_and_has_its_section(tmp_path, run, vector_overrides, capsys):
    swept = run("out", *vector_overrides, "exp=dispersion,faces_to_words", *SMALL_SETS)
    assert swept.code == 0
    assert "precomputed: dispersion " in capsys.readouterr().out
    dispersions = pd.read_csv(swept.output / "report" / "tables" / "dispersion.csv")
    assert dispersions["study"].unique() == ["dispersion:STUDY"]
    frame = pd.read_parquet(tmp_path / "lab" / "faces.parquet")
    faces = load_file(tmp_path / "lab" / "faces.safetensors")["embedding"]
    for row in dispersions.itertuples():
        of_group = faces[(frame["group"] == row.group).to_numpy()]
        assert row.dispersion == pytest.approx(1 - np.linalg.norm(of_group.mean(0)), abs=1e-6)
    page = (swept.output / "report" / "index.html").read_text()
    assert page.count("data-dispersion=") == len(dispersions)
    assert '<a href="#dispersion">Dispersion</a>' in page
    assert 'id="main"' in page  # the section of the study of propagation


def test_finished_jobs_are_reused_and_the_report_is_drawn_again(
    tmp_path, run, vector_overrides, tracker, capsys
):
    first, again = (run(name, *vector_overrides, "exp=dispersion") for name in ("first", "again"))
    assert (first.code, again.code) == (0, 0)
    assert "1 of 1 jobs were finished already" in capsys.readouterr().out
    newest, oldest = find_sweeps(tracker)
    (job,) = find_children(tracker, oldest)
    assert job.metrics["dispersion"] == pytest.approx(first.analyses()["dispersion"].mean())
    assert job.tags["study"] == "dispersion:STUDY"
    assert report([f"tracking.uri={tracker.uri}", f"output={tmp_path}/drawn"]) == 0
    assert "data-dispersion=" in (tmp_path / "drawn" / "index.html").read_text()
    assert newest.metrics["analyses"] == len(first.analyses())
