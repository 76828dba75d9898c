"""A scene's nearest word, against naive loops."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import rankdata

from src.errors import InputError
from src.jobs import encoder_job
from src.tracking import Tracker
from tests.conftest import precomputed
from tests.studies.propagation.test_experiment import loaded, overrides


@pytest.fixture(scope="module", params=[0, 3], ids=["one vector", "three vectors per image"])
def folder(request, tmp_path_factory):
    return precomputed(tmp_path_factory.mktemp("vectors") / "lab", seed=request.param, q=request.param)


@pytest.fixture(scope="module")
def tracker(tmp_path_factory):
    return Tracker(f"sqlite:///{tmp_path_factory.mktemp('tracking')}/mlflow.db")


def perform(made, tracker):
    run = tracker.open("precomputed", made.label)
    with tracker.recorded(run):
        return encoder_job.perform(encoder_job.prepare(made), run)


def naive(folder, tolerance):
    """Share of templates, scene by scene, in which the nearest word is of like valence; and chance."""
    tables, vectors = loaded(folder)
    scenes, words = tables["scenes"], tables["words"]
    rated = {row["word"]: row["valence"] for row in words}
    names = sorted(rated)
    rank = dict(zip(names, (rankdata([rated[name] for name in names]) - 0.5) / len(names), strict=True))
    shown = (rankdata([row["valence"] for row in scenes]) - 0.5) / len(scenes)
    right, chance = [], []
    for place, own in zip(shown, vectors["scenes"], strict=True):
        own = own if isinstance(own[0], list) else [own]
        hits = []
        for template in sorted({row["template"] for row in words}):
            cosines = {
                row["word"]: max(np.dot(one, vector) for one in own)
                for row, vector in zip(words, vectors["words"], strict=True)
                if row["template"] == template
            }
            hits.append(abs(rank[max(cosines, key=cosines.get)] - place) <= tolerance)
        right.append(np.mean(hits))
        chance.append(np.mean([abs(rank[name] - place) <= tolerance for name in names]))
    return np.array(right), np.mean(chance)


def test_accuracy_is_the_naive_loop(folder, job, tracker):
    made = job(*overrides(folder, "scenes_zero_shot"))
    (row,) = perform(made, tracker).to_dict("records")
    right, chance = naive(folder, 0.1)
    assert (row["accuracy"], row["chance"]) == pytest.approx((right.mean(), chance), abs=1e-12)
    assert row["n"] == 50
    targets = pd.read_parquet(made.output / "results" / "targets.parquet").sort_values("id")
    assert targets["extrinsic"].to_numpy() == pytest.approx(right, abs=1e-12)
    # Valence is planted: far from what exchanged ratings give.
    assert row["p_placebo"] <= 0.01
    assert row["chance"] < row["placebo_q95"] < row["accuracy"]
    assert row["ci_low"] < row["accuracy"] < row["ci_high"]


def test_the_interval_is_that_of_a_mean(folder, job, tracker):
    made = job(*overrides(folder, "scenes_zero_shot"), "exp.tolerance=0.2")
    (row,) = perform(made, tracker).to_dict("records")
    right, _ = naive(folder, 0.2)
    error = right.std(ddof=0) / np.sqrt(len(right))
    assert row["ci_high"] - row["ci_low"] == pytest.approx(2 * 1.96 * error, rel=0.1)


def test_nothing_drawn_is_nothing_said(folder, job, tracker):
    made = job(*overrides(folder, "scenes_zero_shot", placebo=0, bootstrap=0))
    (row,) = perform(made, tracker).to_dict("records")
    assert np.isnan([row["ci_low"], row["p_placebo"], row["placebo_q95"]]).all()
    assert len(pd.read_parquet(made.output / "results" / "draws.parquet")) == 0


@pytest.mark.parametrize("change", ["exp.targets=faces", "exp.corpus=labels"])
def test_it_is_asked_of_scenes_among_words(folder, job, change):
    with pytest.raises(InputError, match="own words are asked of scenes among words"):
        encoder_job.prepare(job(*overrides(folder, "scenes_zero_shot"), change))
