"""Check the sentences about a sweep against counts and values chosen by hand."""

import numpy as np
import pandas as pd
import pytest

from src.studies.propagation.combined import select_distant_models
from src.studies.propagation.conclusions import conclusions, state_differing_models
from tests.report.factory import PAPER


def analyses(rows):
    frame = pd.DataFrame(rows, columns=["model", "exp", "stratum", "level", "level_q", "rho", "ceiling"])
    frame["paper"] = frame["exp"].map(PAPER)
    frame = frame.assign(level_low=frame["level"] - 0.01, level_high=frame["level"] + 0.01, n=40)
    return frame.assign(protocol="paper", seed=0, debias="none", perturb="none", placebo_q95=0.5, reason="")


ROWS = [
    ("s", "scenes_to_words", "extremes", 0.30, 0.01, 0.9, False),
    ("s", "faces_to_words", "Men", -0.20, 0.01, 0.7, True),
    ("s", "faces_to_words", "Women", 0.05, 0.20, 0.4, False),
    ("l", "faces_to_words", "Men", -0.10, 0.02, 0.8, False),
    ("l", "faces_to_words", "Women", 0.06, 0.03, np.nan, False),
    ("l", "scenes_to_labels", "Men", 0.07, 0.04, 0.6, False),
]


def test_sentences_have_counts_intervals_and_names():
    assert conclusions(analyses(ROWS)) == [
        "In 4 of 5 analyses of a group and valence, the level of carry-over differs from chance (q ≤ .05); "
        "it does not in faces_to_words of s (1 of 2).",
        "In 1 of 1 analyses of one property (baselines), the level of carry-over differs from chance "
        "(q ≤ .05).",
        "Retrieved valence differs most by group in faces_to_words of s, Men: the group's mean minus "
        "the others' is −0.200 [−0.210, −0.190] (n = 40, q = 0.010).",
        "Retrieved groups depend most on valence in scenes_to_labels of l, Men: the group's share changes by "
        "0.070 [0.060, 0.080] (n = 40, q = 0.040) per SD of the rating.",
        "Of 2 models, l has the largest |level| most often: in 2 of 3 pairs of an experiment and a group.",
        "1 of 6 analyses are at their ceiling, where ρ falls although carry-over is strong: "
        "faces_to_words of s (1 of 2).",
        "Mean ρ is 0.68 ± 0.19 (SD) over 5 analyses; 4 of 5 exceed the 95th percentile of their placebo.",
        "ρ is undefined in 1 of 6 analyses: faces_to_words of l, Women.",
    ]


def test_a_sentence_states_corrected_rho():
    rows = analyses(ROWS)
    sentences = conclusions(rows)
    known = {"rho_cross": [0.5, 0.4], "noise_ceiling": [0.6, 0.5], "rho_true": [0.9, 0.7]}
    for name, values in known.items():
        rows[name] = [*values, 0.2, *[np.nan] * 3] if name == "rho_cross" else [*values, *[np.nan] * 4]
    rows["reliability_reason"] = ["", "", "the reliability of the outcome, 0.10, is below 0.2", *[None] * 3]
    assert conclusions(rows) == [
        *sentences,
        "ρ across halves of the corpus is 0.45, with a noise ceiling of 0.55; corrected for noise it is "
        "0.80 (means over 2 of 3 analyses).",
    ]
    assert conclusions(rows.assign(rho_true=np.nan))[-1] == (
        "ρ could not be corrected for the noise of the corpus in any analysis; column "
        "reliability_reason says why."
    )


def test_other_specifications_change_no_sentence_and_without_levels_there_is_rho_alone():
    rows = analyses(ROWS)
    others = rows.assign(protocol="k_100", level=9.0, rho=-1.0)
    assert conclusions(pd.concat([others, rows], ignore_index=True)) == conclusions(rows)
    rows = analyses(ROWS[:1]).assign(level=np.nan, level_q=np.nan, placebo_q95=np.nan)
    assert conclusions(rows) == ["ρ is 0.90 in the only analysis."]
    assert conclusions(pd.DataFrame()) == []


def test_many_names_are_counted_by_experiment():
    rows = [(f"m{n}", "faces_to_words", "Men", 0.1, 0.01 if n else 0.5, 0.5, n > 1) for n in range(6)]
    rows += [(f"m{n}", "labels_to_scenes", "Men", 0.1, 0.5, 0.5, False) for n in range(6)]
    sentences = conclusions(analyses(rows))
    assert "In 5 of 12 analyses" in sentences[0]
    assert "it does not in faces_to_words (1 of 6), labels_to_scenes (6 of 6)." in sentences[0]
    assert "faces_to_words (4 of 6)" in sentences[3]


def test_an_experiment_of_another_name_is_of_no_known_kind():
    sentences = conclusions(analyses([("s", "portraits_to_words", "Men", 0.1, 0.01, 0.5, False)]))
    assert sentences[0].startswith("In 1 of 1 analyses of other experiments, the level of carry-over differs")
    assert not any("Retrieved valence" in sentence for sentence in sentences)


def test_differences_of_models_are_counted():
    (sentence,) = state_differing_models(pd.DataFrame({"level_delta_q": [0.01, 0.05, 0.06, np.nan]}))
    assert sentence.startswith("The levels of two models differ (q ≤ .05) in 2 of 3 comparisons")
    assert [*state_differing_models(pd.DataFrame({"level_delta_q": [np.nan]}))] == []


@pytest.mark.parametrize("value", ["level", "rho"])
def test_models_that_lie_furthest_apart_are_chosen(value):
    """Compare with a greedy choice in plain loops."""
    rng = np.random.default_rng(0)
    cells = [(f"m{n}", exp, group) for n in range(15) for exp in ("a", "b") for group in ("x", "y")]
    frame = pd.DataFrame(cells, columns=["model", "exp", "stratum"])
    frame["level"], frame["rho"] = rng.normal(size=(2, len(frame)))
    frame["level"] = frame["level"] if value == "level" else np.nan
    points = frame[value].to_numpy().reshape(15, 4)
    points = (points - points.mean(axis=0)) / points.std(axis=0)

    def distance(a, b):
        return sum((points[a] - points[b]) ** 2) ** 0.5

    pairs = [(a, b) for a in range(15) for b in range(a)]
    chosen = {*max(pairs, key=lambda pair: distance(*pair))}
    while len(chosen) < 5:
        chosen.add(max({*range(15)} - chosen, key=lambda n: min(distance(n, other) for other in chosen)))
    assert select_distant_models(frame, 5) == [f"m{n}" for n in sorted(chosen)]
    assert select_distant_models(frame, 15) == [f"m{n}" for n in range(15)]
