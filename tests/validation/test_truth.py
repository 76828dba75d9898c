"""Check that planted bias is measured, and that violated claims are detected."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from tests.conftest import SHRUNK, store_overrides
from validation.truth.__main__ import main
from validation.truth.caption_associations import associations, separation
from validation.truth.claims import claims


@pytest.mark.thorough
def test_all_claims_hold_in_the_shrunk_world(stores, sweeps, tmp_path, capsys):
    """Run after the main sweep, which trains one of these toys."""
    arguments = ["--seeds", "0", "--biases", "0,1", "--untrained", "0", "--output", str(tmp_path / "out")]
    assert main([*arguments, *SHRUNK, *store_overrides(stores)]) == 0
    claims = json.loads((tmp_path / "out" / "claims.json").read_text())
    assert [claim["holds"] for claim in claims] == [True] * 7
    assert "What was planted" in capsys.readouterr().out
    groups = pd.read_csv(tmp_path / "out" / "groups.csv")
    assert groups.groupby("bias").size().to_dict() == {0.0: 6, 1.0: 6}
    assert (tmp_path / "out" / "planted.png").stat().st_size > 10_000


def toy_measurements(**changes):
    """Return measurements of toys that fulfil every claim, with columns replaced by `changes`."""
    rows = []
    for seed in range(3):
        for bias in (0.0, 0.25, 0.5, 1.0):
            rows.append({"bias": bias, "seed": seed, "steps": 9, "spearman": 0.95, "pearson": 0.97})
            rows[-1] |= {"slope": 6 * bias + 0.1 * seed, "cles_gap": 0.05 + 0.3 * bias + 0.01 * seed}
            rows[-1] |= {"auc_race": 0.5 + 0.48 * bias, "auc_gender": 0.52 + 0.46 * bias, "auc_error": 0.1}
            rows[-1] |= {"auc_both": 0.97 if bias else 0.4}
    for seed in range(20):
        rows.append({"bias": 1.0, "seed": seed, "steps": 0, "spearman": (-1) ** seed * 0.5})
    frame = pd.DataFrame(rows)
    for column, change in changes.items():
        frame[column] = change(frame)
    return frame


@pytest.mark.parametrize(
    ("changes", "violated"),
    [
        ({}, []),
        ({"pearson": lambda f: f["pearson"] - 0.1}, [0]),
        ({"slope": lambda f: f["slope"].where(f["bias"] != 0.5, 1.0)}, [1]),
        ({"slope": lambda f: -f["slope"]}, [1, 2]),
        ({"spearman": lambda f: f["spearman"].where((f["seed"] != 1) | (f["steps"] == 0), 0.7)}, [3]),
        ({"spearman": lambda f: f["spearman"].where(f["steps"] > 0, 0.4 + f["spearman"])}, [4]),
        ({"cles_gap": lambda f: f["cles_gap"] + 0.2}, [5]),
        ({"auc_race": lambda f: f["auc_race"] - 0.05}, [6]),
        ({"auc_both": lambda f: f["auc_both"].where(f["bias"] > 0, 0.1)}, [7]),
        ({"auc_error": lambda f: f["auc_error"] / 10}, [7]),
    ],
)
def test_a_violated_claim_is_detected(changes, violated):
    results = list(claims(toy_measurements(**changes)))
    assert len(results) == 8
    assert [number for number, claim in enumerate(results) if not claim.holds] == violated


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
    # One planted word and two unplanted: the rank is 1, 2 or 3 (variance 2/3), the AUC (rank - 1) / 2.
    expected = {"auc_race": 0.5, "auc_gender": 1.0, "auc_both": 0.0, "auc_error": np.sqrt(2 / 3) / 2}
    assert separation(captions) == pytest.approx(expected)
