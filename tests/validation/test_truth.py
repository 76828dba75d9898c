"""Check that planted bias is measured, and that violated claims are detected."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from tests.conftest import SHRUNK, store_overrides
from validation.truth.__main__ import main
from validation.truth.caption_associations import associations, separation
from validation.truth.claims import BASELINES, GROUP_EXPERIMENTS, Results, claims
from validation.truth.experiments import SECOND_PATH_EXPERIMENTS, shuffle
from validation.truth.output import parse


@pytest.mark.thorough
def test_planted_bias_is_measured_in_the_shrunk_world(stores, sweeps, tmp_path, capsys):
    """Run two strengths of bias and one seed, which is too little for some claims."""
    arguments = ["--seeds", "0", "--biases", "0,1", "--output", str(tmp_path / "out")]
    overrides = [*SHRUNK, *store_overrides(stores)]
    overrides = [override for override in overrides if not override.startswith(("tracking.", "report="))]
    main([*arguments, *overrides])
    claims = pd.read_json(tmp_path / "out" / "claims.json").set_index("claim")
    must_hold = claims[claims.index.str.contains("Pearson|rises|slope|Spearman|CLES|AUC|remains")]
    assert len(must_hold) >= 7
    assert must_hold["holds"].all(), must_hold[~must_hold["holds"]].to_string()
    assert (~claims["refuted"]).sum() <= 2, claims["shuffled"].to_string()
    assert "What was planted" in capsys.readouterr().out
    groups = pd.read_csv(tmp_path / "out" / "groups.csv")
    assert groups.groupby("bias").size().to_dict() == {0.0: 6, 1.0: 6}
    assert (tmp_path / "out" / "planted.png").stat().st_size > 10_000


def test_a_single_bias_is_refused_before_any_work(monkeypatch, capsys):
    monkeypatch.setattr("validation.truth.__main__.run_entry", lambda _: 0)
    with pytest.raises(SystemExit):
        main(["--biases", "1,1", "model=toy_s"])
    assert "--biases: expected at least two different numbers" in capsys.readouterr().err


def test_options_may_stand_between_overrides():
    options = parse("validation.truth", "", ["model=toy_m", "--seeds", "0", "protocol.k=60"])
    assert (options.seeds, options.overrides) == ([0], ["model=toy_m", "protocol.k=60"])
    assert parse("validation.truth", "", ["--seeds", "0,1"]).overrides == []


PLANTED_LEVELS = pd.Series({"A": -0.3, "B": -0.1, "C": 0.0, "D": 0.4})


def example_results(toys=None, analyses=None, draws=None, interventions=None):
    """Return results that fulfil every claim, with changes of the frames."""
    rng = np.random.default_rng(0)
    rows, levels, permuted, removed = [], [], [], []
    for bias in (0.0, 0.25, 0.5, 1.0):
        for seed in range(3):
            about = {"bias": bias, "seed": seed}
            rows.append(about | {"spearman": 0.95, "pearson": 0.97, "slope": 6 * bias + 0.1 * seed})
            rows[-1] |= {"cles_gap": 0.05 + 0.3 * bias + 0.01 * seed, "auc_both": 0.97}
            rows[-1] |= {"auc_race": 0.5 + 0.48 * bias, "auc_gender": 0.52 + 0.46 * bias}
            for exp in (*GROUP_EXPERIMENTS, *BASELINES):
                removed.append(about | {"exp": exp, "left": 0.1, "left_p": 0.01})
                for stratum, planted in PLANTED_LEVELS.items():
                    of_null = rng.normal(0, 0.01, 200)
                    level = 0.2 if exp in BASELINES else bias * planted + of_null[0] * (1 - bias)
                    row = about | {"exp": exp, "stratum": stratum, "level": level, "level_p": 0.01}
                    levels.append(row | {"rho": 0.9, "placebo_q95": 0.8})
                    frame = pd.DataFrame({"draw": range(200), "level": np.append(level, of_null[1:])})
                    permuted.append(frame.assign(**about, exp=exp, stratum=stratum))
    frames = pd.DataFrame(rows), pd.DataFrame(levels), pd.concat(permuted), pd.DataFrame(removed)
    for frame, change in zip(frames, (toys, analyses, draws, interventions), strict=True):
        if change:
            change(frame)
    second_path = pd.DataFrame({"exp": SECOND_PATH_EXPERIMENTS, "left": 0.25})
    return Results(PLANTED_LEVELS, *frames, second_path)


def changed(column, change, **conditions):
    """Return a function that changes a column in the rows that fulfil conditions."""

    def apply(frame):
        rows = np.logical_and.reduce([frame[name] == value for name, value in conditions.items()])
        frame.loc[rows, column] = change(frame.loc[rows, column])

    return apply


OBSERVED = {"draw": 0, "exp": "words_to_faces"}
LEFT = {"exp": "faces_to_words"}


@pytest.mark.parametrize(
    ("changes", "violated"),
    [
        ({}, []),
        ({"draws": changed("level", lambda level: level + 0.2, bias=0.0, stratum="B", **OBSERVED)}, [0]),
        ({"draws": changed("level", lambda level: 0 * level, bias=0.0, exp="scenes_to_words")}, [0]),
        ({"draws": changed("level", lambda level: level + 0.5, bias=1.0, stratum="A", **OBSERVED)}, [1, 2]),
        ({"draws": changed("level", lambda level: -level, bias=0.5, **OBSERVED)}, [2]),
        ({"analyses": changed("level_p", lambda p: p + 0.1, bias=0.5, exp="words_to_faces")}, [3]),
        ({"analyses": changed("rho", lambda rho: rho - 0.2, bias=1.0, exp="scenes_to_words")}, [4]),
        ({"interventions": changed("left", lambda left: left + 0.25, bias=1.0, **LEFT)}, [5]),
        ({"interventions": changed("left", lambda left: left + 0.16, bias=1.0, **LEFT)}, [5]),
        ({"interventions": changed("left", lambda left: left * np.nan, bias=1.0, seed=1, **LEFT)}, [5]),
        ({"interventions": changed("left_p", lambda p: p + 0.05, bias=1.0, seed=1, **LEFT)}, [5]),
        ({"interventions": changed("left_p", lambda p: p + 0.05, bias=1.0, exp="words_to_faces")}, [5]),
        ({"interventions": changed("left_p", lambda p: p * np.nan, bias=1.0, exp="words_to_faces")}, []),
        ({"interventions": changed("left_p", lambda p: p * np.nan, bias=1.0, seed=1, **LEFT)}, []),
        ({"interventions": changed("left_p", lambda p: p * np.nan, bias=1.0, **LEFT)}, [5]),
        ({"toys": changed("pearson", lambda r: r - 0.1, bias=1.0)}, [6]),
        ({"toys": changed("slope", lambda slope: -slope, bias=0.5)}, [7]),
        ({"toys": changed("spearman", lambda rho: rho - 0.2, bias=0.0, seed=2)}, [8]),
        ({"toys": changed("cles_gap", lambda gap: gap + 0.3, bias=0.25)}, [9]),
        ({"toys": changed("cles_gap", lambda gap: gap - 0.12, bias=1.0)}, [9]),
        ({"toys": changed("auc_race", lambda auc: auc - 0.05, bias=1.0)}, [10]),
    ],
)
def test_a_violated_claim_is_detected(changes, violated):
    results = list(claims(example_results(**changes)))
    assert len(results) == 11
    assert [number for number, claim in enumerate(results) if not claim.holds] == violated


def test_shuffled_items_keep_their_sentences_together():
    frame = pd.DataFrame({"word": np.repeat(list("abcde"), 2), "template": [0, 1] * 5})
    rows = torch.arange(10.0)[:, None]
    shuffled = shuffle(SimpleNamespace(frame=frame), rows, seed=0)[:, 0].reshape(5, 2)
    assert (shuffled[:, 1] == shuffled[:, 0] + 1).all()
    assert sorted(shuffled[:, 0].tolist()) == [0, 2, 4, 6, 8]
    assert shuffled[:, 0].tolist() != [0, 2, 4, 6, 8]


def test_planted_words_have_larger_associations_than_unplanted_words(monkeypatch):
    probes = {"lake": ["a", "b"], "Alpha": ["c"], "Men": ["d"], "Alpha Men": ["e"]}
    faces = pd.DataFrame({"race": ["Alpha", "Alpha", "Beta", "Beta"], "gender": ["Men", "Women"] * 2})
    faces["group"] = faces["race"] + " " + faces["gender"]
    vectors = np.random.default_rng(0).normal(size=(4, 3))
    texts = np.random.default_rng(1).normal(size=(5, 3))
    monkeypatch.setattr(
        "validation.truth.caption_associations.embed_captions", lambda *_: torch.tensor(texts)
    )
    cfg = SimpleNamespace(demo=SimpleNamespace(probes=probes))
    captions = associations(cfg, faces, torch.tensor(vectors)).set_index("caption")
    assert captions["axis"].fillna("").tolist() == ["", "", "race", "gender", "both"]
    for caption, text in zip("abcde", texts, strict=True):
        cosines = [text @ face / np.linalg.norm(text) / np.linalg.norm(face) for face in vectors]
        for axis, labels in (("race", faces["race"]), ("gender", faces["gender"]), ("both", faces["group"])):
            largest = 0.0
            for label in set(labels):
                inside = [cosine for cosine, other in zip(cosines, labels, strict=True) if other == label]
                outside = [cosine for cosine, other in zip(cosines, labels, strict=True) if other != label]
                largest = max(largest, abs(np.mean(inside) - np.mean(outside)) / np.std(cosines, ddof=1))
            assert captions.loc[caption, axis] == pytest.approx(largest, abs=1e-9)


def test_each_axis_is_scored_by_the_words_planted_on_it():
    captions = pd.DataFrame({"whose": ["lake", "lake", "Alpha", "Men", "Alpha Men"]})
    captions["axis"] = [None, None, "race", "gender", "both"]
    captions = captions.assign(race=[1, 3, 2, 0, 0], gender=[1, 3, 0, 4, 0], both=[1, 3, 9, 9, 0])
    # One planted word and two unplanted: the rank is 1, 2 or 3, the AUC (rank - 1) / 2.
    assert separation(captions) == pytest.approx({"auc_race": 0.5, "auc_gender": 1.0, "auc_both": 0.0})
