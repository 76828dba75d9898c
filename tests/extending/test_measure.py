"""An intrinsic measure defined outside of src/ goes through the command line into MLflow and the report."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from mlflow import MlflowClient
from safetensors.numpy import load_file
from scipy import stats

from src.jobs import encoder_job
from tests.commands import command
from tests.conftest import places, precomputed

SMALL = ["protocol.k=11", "protocol.extremes=6", "protocol.set_size=15", "protocol.placebo=19"]
SMALL += ["protocol.bootstrap=50", "protocol.attribute_draws=2", "protocol.property_draws=4"]
FOLDER = Path(__file__).with_name("measure")


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """Its folder is on PYTHONPATH."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield
    sys.modules.pop("superiority", None)


def typed(tmp_path, *more):
    folder = tmp_path / "lab"
    vectors = folder if folder.exists() else precomputed(folder)
    *stores, _ = places(tmp_path)
    arguments = [f"--config-dir={FOLDER / 'conf'}", "model=precomputed", f"model.path={vectors}"]
    return [*arguments, *stores, *SMALL, *more]


def test_a_measure_of_one_s_own_is_scored_has_its_nulls_and_its_axis(tmp_path):
    from src.tracking import Tracker, children, sweeps

    asked = ["exp=faces_to_words,labels_to_faces", "protocol=paper,superiority"]
    swept = command(tmp_path / "out", "-m", *typed(tmp_path, *asked))
    assert swept.code == 0
    rows = swept.analyses()
    own = rows[rows["protocol"] == "superiority"]
    assert own["intrinsic_label"].unique() == ["probability of superiority"]
    assert rows.loc[rows["protocol"] != "superiority", "intrinsic_label"].isna().all()
    for column in ("rho", "ci_low", "ci_high", "p_placebo", "sd_attributes"):
        assert own[column].notna().all(), column

    runs = children(tracker := Tracker(f"sqlite:///{tmp_path}/mlruns/mlflow.db"), sweeps(tracker)[0])
    (run,) = [
        run for run in runs if (run.tags["exp"], run.tags["protocol"]) == ("faces_to_words", "superiority")
    ]
    params = MlflowClient(tracker.uri).get_run(run.id).data.params
    assert params["protocol.intrinsic"] == "superiority:SUPERIORITY"
    assert "intrinsic.Alpha Men" in {name.replace("_x20_", " ") for name in run.metrics}
    assert not any(name.startswith("effect_size") for name in run.metrics)
    sensitivity = pd.read_csv(swept.output / "report" / "tables" / "sensitivity.csv")
    counts = sensitivity.set_index(["exp", "reading"])["rhos"]
    for exp in ("faces_to_words", "labels_to_faces"):
        # Another measure has a line, but is no reading of the paper.
        assert counts[exp, "superiority"] == counts[exp, "all"] == 3


def test_its_scores_are_those_of_scipy(tmp_path):
    done = command(tmp_path / "out", *typed(tmp_path, "exp=faces_to_words", "protocol=superiority"))
    targets, sets = (
        pd.read_parquet(done.output / "results" / f"{name}.parquet") for name in ("targets", "attributes")
    )
    faces, words = (vectors(tmp_path / "lab", role) for role in ("faces", "words"))
    for row in targets[::7].itertuples():
        near = (words @ faces.loc[row.id]).round(12)
        scores = []
        for _, of_template in sets.groupby("template"):
            a, b = (near[of_template.loc[of_template["set"] == name, "id"]] for name in "AB")
            scores.append(stats.mannwhitneyu(a, b).statistic / len(a) / len(b))
        assert row.intrinsic == pytest.approx(np.mean(scores), abs=1e-12)


def vectors(folder, role):
    ids = pd.read_parquet(folder / f"{role}.parquet")["id"]
    return pd.DataFrame(load_file(folder / f"{role}.safetensors")["embedding"], ids).astype(float)


def test_alone_it_is_what_the_report_names(tmp_path):
    asked = ["exp=faces_to_words,scenes_to_labels", "protocol=superiority", "protocol.extrinsic=zero_shot"]
    swept = command(tmp_path / "out", "-m", *typed(tmp_path, *asked))
    assert swept.code == 0
    page = (swept.output / "report" / "index.html").read_text()
    assert "probability of superiority" in page
    assert "share of templates nearest to the group" in page
    assert "SC-EAT" not in page


def test_a_raised_version_is_computed_anew(tmp_path, monkeypatch, job):
    made = job(
        *typed(tmp_path)[1:3], *SMALL, "exp=faces_to_words", "protocol.intrinsic=superiority:SUPERIORITY"
    )
    before = encoder_job.key(prepared := encoder_job.prepare(made))
    assert encoder_job.key(prepared) == before
    import superiority

    monkeypatch.setattr(superiority, "SUPERIORITY", replace(superiority.SUPERIORITY, version=2))
    assert encoder_job.key(prepared) != before


MISTAKES = {
    "intrinsic=superiority:SUPERIOR": "intrinsic=superiority:SUPERIOR: cannot be imported",
    "intrinsic=superior:SUPERIORITY": "Put its folder on PYTHONPATH and name it module:attribute.",
    "intrinsic=diference": "protocol.intrinsic: unknown name 'diference'. Did you mean 'difference'?",
    "extrinsic=zeroshot": "protocol.extrinsic: unknown name 'zeroshot'. Did you mean 'zero_shot'?",
    "intrinsic=superiority:score": "expected IntrinsicMeasure, got function",
    "extrinsic=superiority:SUPERIORITY": "expected ExtrinsicOutcome, got IntrinsicMeasure",
    "intrinsic=superiority:FLAT": "expected a tensor of shape (66, 1), a row per target and a column per set",
}


@pytest.mark.parametrize(("mistake", "message"), MISTAKES.items())
def test_mistakes_are_named(tmp_path, capsys, mistake, message):
    assert command(tmp_path / "o", *typed(tmp_path, "exp=faces_to_words", f"protocol.{mistake}")).code == 1
    printed = capsys.readouterr()
    text = " ".join((printed.err + printed.out).split())
    assert message in text
    assert "Traceback" not in text


def test_in_a_glob_what_is_not_served_is_not_applicable(tmp_path, capsys):
    asked = ["exp=glob(*)", "protocol=difference,held_out,k_100", "protocol.extrinsic=zero_shot"]
    swept = command(tmp_path / "o", "-m", *typed(tmp_path, *asked, "report=false"))
    assert swept.code == 0
    rows = swept.analyses()
    served = rows.groupby(rows["protocol"].str.split("+").str[0])["exp"].agg(lambda names: len({*names}))
    # Held-out extremes are no classes; a k is nothing to classes: k_100 would count the paper's twice.
    assert served.to_dict() == {"difference": 8, "held_out": 4}
    text = " ".join(capsys.readouterr().out.split())
    assert "are A and B, which it takes out of the" in text
    assert "differs from protocol=paper in k only" in text
