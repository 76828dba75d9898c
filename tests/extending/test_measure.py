"""Add the intrinsic measure of tests/extending/measure, and follow it to MLflow and the report."""

import numpy as np
import pandas as pd
import pytest
from mlflow import MlflowClient
from safetensors.numpy import load_file
from scipy import stats

from tests.extending.conftest import SMALL_SETS

SMALL = [*SMALL_SETS, "protocol.placebo=19", "protocol.bootstrap=50"]
SMALL += ["protocol.attribute_draws=2", "protocol.property_draws=4"]


def test_a_measure_is_scored_with_its_null_and_its_label(run, jobs, tracker, vector_overrides):
    chosen = [*vector_overrides, *SMALL, "exp=faces_to_words,labels_to_faces"]
    swept = run("out", *chosen, "protocol=paper,superiority")
    assert swept.code == 0
    rows = swept.analyses()
    added = rows[rows["protocol"] == "superiority"]
    assert added["intrinsic_label"].unique() == ["probability of superiority"]
    assert rows.loc[rows["protocol"] != "superiority", "intrinsic_label"].isna().all()
    for column in ("rho", "ci_low", "ci_high", "p_placebo", "sd_attributes"):
        assert added[column].notna().all(), column

    (job,) = [j for j in jobs() if (j.tags["exp"], j.tags["protocol"]) == ("faces_to_words", "superiority")]
    params = MlflowClient(tracker.uri).get_run(job.id).data.params
    assert params["protocol.intrinsic"] == "superiority:SUPERIORITY"
    assert not any(name.startswith("effect_size") for name in job.metrics)
    sensitivity = pd.read_csv(swept.output / "report" / "tables" / "sensitivity.csv")
    counts = sensitivity.set_index(["exp", "reading"])["rhos"]
    for exp in ("faces_to_words", "labels_to_faces"):
        # Row `superiority` is that of this specification; `all` pools only those with the paper's measure.
        assert counts[exp, "superiority"] == counts[exp, "all"] == 3


def test_its_scores_are_those_of_scipy(tmp_path, run, vector_overrides):
    chosen = [*vector_overrides, *SMALL, "exp=faces_to_words", "protocol=superiority"]
    job = run("out", *chosen, sweep=False)
    targets, sets = (
        pd.read_parquet(job.output / "results" / f"{name}.parquet") for name in ("targets", "attributes")
    )
    faces, words = (
        pd.DataFrame(
            load_file(tmp_path / "lab" / f"{role}.safetensors")["embedding"],
            pd.read_parquet(tmp_path / "lab" / f"{role}.parquet")["id"],
        ).astype(float)
        for role in ("faces", "words")
    )
    for row in targets[::7].itertuples():
        near = (words @ faces.loc[row.id]).round(12)
        scores = []
        for _, of_template in sets.groupby("template"):
            a, b = (near[of_template.loc[of_template["set"] == name, "id"]] for name in "AB")
            scores.append(stats.mannwhitneyu(a, b).statistic / len(a) / len(b))
        assert row.intrinsic == pytest.approx(np.mean(scores), abs=1e-12)
