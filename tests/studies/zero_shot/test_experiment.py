"""Check zero-shot accuracy against naive loops."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import rankdata

from src.errors import InputError
from src.jobs import encoder_job
from src.stimuli import Table
from src.studies.shared.resampling import draw_weights
from tests.recorded import studies
from tests.studies.propagation.test_uncertainty import load_folder, overrides
from tests.studies.test_precomputed import perform


def naive(folder, tolerance):
    """Compute the accuracy of each scene, and its mean by chance.

    Accuracy is the share of templates in which the nearest word has a similar rank of valence (within
    `tolerance`); by chance, it is the share of words with such a rank.
    """
    tables, vectors = load_folder(folder)
    scenes, words = tables["scenes"], tables["words"]
    valences = {row["word"]: row["valence"] for row in words}
    names = sorted(valences)
    rank = dict(zip(names, (rankdata([valences[name] for name in names]) - 0.5) / len(names), strict=True))
    scene_ranks = (rankdata([row["valence"] for row in scenes]) - 0.5) / len(scenes)
    accuracies, chance = [], []
    for scene_rank, scene_vectors in zip(scene_ranks, vectors["scenes"], strict=True):
        scene_vectors = scene_vectors if isinstance(scene_vectors[0], list) else [scene_vectors]
        hits = []
        for template in sorted({row["template"] for row in words}):
            cosines = {
                row["word"]: max(np.dot(scene_vector, vector) for scene_vector in scene_vectors)
                for row, vector in zip(words, vectors["words"], strict=True)
                if row["template"] == template
            }
            hits.append(abs(rank[max(cosines, key=cosines.get)] - scene_rank) <= tolerance)
        accuracies.append(np.mean(hits))
        chance.append(np.mean([abs(rank[name] - scene_rank) <= tolerance for name in names]))
    return np.array(accuracies), np.mean(chance)


@pytest.mark.parametrize(("options", "tolerance"), [([], 0.1), (["exp.tolerance=0.2"], 0.2)])
def test_accuracy_equals_the_naive_loop(folder, job, tracker, options, tolerance):
    zero_shot_job = job(*overrides(folder, "scenes_zero_shot"), *options)
    (row,) = perform(zero_shot_job, tracker).to_dict("records")
    accuracies, chance = naive(folder, tolerance)
    assert (row["accuracy"], row["chance"]) == pytest.approx((accuracies.mean(), chance), abs=1e-12)
    assert row["n"] == 50
    targets = pd.read_parquet(zero_shot_job.output / "results" / "targets.parquet").sort_values("id")
    assert targets["extrinsic"].to_numpy() == pytest.approx(accuracies, abs=1e-12)
    # Valence is planted: accuracy is far above that with permuted ratings.
    assert row["p_placebo"] <= 0.01
    assert row["chance"] < row["placebo_q95"] < row["accuracy"]
    assert row["ci_low"] < row["accuracy"] < row["ci_high"]
    # The interval is that of a mean.
    error = accuracies.std(ddof=0) / np.sqrt(len(accuracies))
    assert row["ci_high"] - row["ci_low"] == pytest.approx(2 * 1.96 * error, rel=0.1)


@pytest.mark.parametrize("sizes", [[1] * 30, [1, 2, 3, 4, 5, 6, 9]])
def test_the_interval_resamples_clusters_of_scenes(monkeypatch, sizes):
    result, scenes = run_recorded(monkeypatch, np.repeat([f"t{n}" for n in range(len(sizes))], sizes))
    accuracies = result.tables["targets"].set_index("id")["extrinsic"].loc[scenes["id"]].to_numpy()
    draws = result.tables["draws"].query("kind == 'bootstrap'")["accuracy"].to_numpy()
    names = scenes["cluster"].to_numpy()
    # Repeat each scene as often as its cluster was drawn.
    distinct = sorted(set(names))
    weights = draw_weights(pd.DataFrame({"name": distinct}), len(draws), 0)
    expected = [
        np.mean([accuracies[names == name][i] for name, count in zip(distinct, row, strict=True)
                 for _ in range(count) for i in range((names == name).sum())])
        for row in weights
    ]  # fmt: skip
    assert draws == pytest.approx(expected, abs=1e-12)
    row = result.analyses.iloc[0]
    assert [row["ci_low"], row["ci_high"]] == pytest.approx([*np.percentile(expected, [2.5, 97.5])])


def test_scenes_without_clusters_have_the_interval_of_single_scenes(monkeypatch):
    single, scenes = run_recorded(monkeypatch, None)
    by_id, _ = run_recorded(monkeypatch, scenes["id"].to_numpy())
    pd.testing.assert_frame_equal(single.analyses, by_id.analyses, check_exact=True)
    draws = single.tables["draws"].query("kind == 'bootstrap'")["accuracy"]
    weights = draw_weights(pd.DataFrame({"name": scenes["id"]}), len(draws), 0)
    accuracies = single.tables["targets"]["extrinsic"].to_numpy()
    assert draws.tolist() == ((weights @ accuracies) / weights.sum(axis=1)).tolist()


def run_recorded(monkeypatch, clusters):
    """Run the recorded experiment with clusters of its scenes; return its result and the scenes."""
    inputs = studies.tables()
    scenes = inputs["scenes"].frame
    if clusters is not None:
        scenes = scenes.assign(cluster=clusters)
    inputs["scenes"] = Table("scenes", scenes, len(scenes))
    monkeypatch.setattr(studies, "tables", lambda: inputs)
    return studies.run_experiment("scenes_zero_shot"), scenes


def test_without_draws_there_is_no_interval(folder, job, tracker):
    zero_shot_job = job(*overrides(folder, "scenes_zero_shot", placebo=0, bootstrap=0))
    (row,) = perform(zero_shot_job, tracker).to_dict("records")
    assert np.isnan([row["ci_low"], row["p_placebo"], row["placebo_q95"]]).all()
    assert len(pd.read_parquet(zero_shot_job.output / "results" / "draws.parquet")) == 0


@pytest.mark.parametrize("change", ["exp.targets=faces", "exp.corpus=labels"])
def test_zero_shot_accuracy_needs_scenes_and_words(folder, job, change):
    with pytest.raises(InputError, match="zero-shot accuracy needs scenes and words"):
        encoder_job.prepare(job(*overrides(folder, "scenes_zero_shot"), change))
