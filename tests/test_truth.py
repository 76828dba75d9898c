"""What is planted is what is measured, and an instrument that does not is found out."""

import json

import pandas as pd
import pytest

from src import truth
from tests.conftest import SHRUNK, places


def test_the_shrunk_world_without_and_with_its_bias(kept, tmp_path, capsys):
    arguments = ["--seeds", "0", "--biases", "0,1", "--untrained", "0", "--output", str(tmp_path / "out")]
    assert truth.main([*arguments, *SHRUNK, *places(kept)]) == 0
    claims = json.loads((tmp_path / "out" / "claims.json").read_text())
    assert [claim["holds"] for claim in claims] == [True] * 5
    assert "What was planted" in capsys.readouterr().out
    groups = pd.read_csv(tmp_path / "out" / "groups.csv")
    assert groups.groupby("bias").size().to_dict() == {0.0: 6, 1.0: 6}
    assert (tmp_path / "out" / "planted.png").stat().st_size > 10_000


def toys(**changes):
    """Toys of which every claim holds."""
    rows = []
    for seed in range(3):
        for bias in (0.0, 0.25, 0.5, 1.0):
            rows.append({"bias": bias, "seed": seed, "steps": 9, "spearman": 0.95, "pearson": 0.97})
            rows[-1] |= {"slope": 6 * bias + 0.1 * seed, "cles_gap": 0.05 + 0.3 * bias + 0.01 * seed}
    for seed in range(20):
        rows.append({"bias": 1.0, "seed": seed, "steps": 0, "spearman": (-1) ** seed * 0.5})
    frame = pd.DataFrame(rows)
    for column, change in changes.items():
        frame[column] = change(frame)
    return frame


@pytest.mark.parametrize(
    ("changes", "broken"),
    [
        ({}, []),
        ({"pearson": lambda f: f["pearson"] - 0.1}, [0]),
        ({"slope": lambda f: f["slope"].where(f["bias"] != 0.5, 1.0)}, [1]),
        ({"slope": lambda f: f["slope"] + 5}, [2]),
        ({"slope": lambda f: -f["slope"]}, [1, 2]),
        ({"spearman": lambda f: f["spearman"].where((f["seed"] != 1) | (f["steps"] == 0), 0.7)}, [3]),
        ({"spearman": lambda f: f["spearman"].where(f["steps"] > 0, 0.4 + f["spearman"])}, [4]),
        ({"cles_gap": lambda f: f["cles_gap"] + 0.2}, [5]),
    ],
)
def test_a_claim_that_does_not_hold_is_found_out(changes, broken):
    found = list(truth.claims(toys(**changes)))
    assert [number for number, claim in enumerate(found) if not claim.holds] == broken


def test_an_unknown_model_is_an_error_without_a_traceback(capsys, tmp_path):
    assert truth.main(["--seeds", "0", "--output", str(tmp_path), "model=toy_x"]) == 1
    assert "toy_x" in capsys.readouterr().err
