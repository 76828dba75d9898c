"""Groups compared by scores of poems, held against pairs counted one by one."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from src.errors import InputError, NotApplicable
from src.stimuli import Table
from src.studies.poems import comparison

SIZES = {("positive", "removed"): 4, ("positive", "kept"): 6, ("negative", "removed"): 0}


@pytest.fixture
def scores():
    rng = np.random.default_rng(0)
    groups = np.repeat(["x", "y", "z"], [9, 7, 8])
    found = pd.DataFrame(
        {"id": [f"{n:02}" for n in range(24)], "group": groups, "tokens": rng.integers(3, 9, 24)}
    )
    shift = {"x": 0.0, "y": 1.5, "z": 0.2}
    found["positive_removed"] = [round(rng.normal(shift[group]), 1) for group in groups]  # with ties
    found["positive_kept"] = rng.normal(size=24)
    return found.assign(negative_removed=np.nan)


def naive(a, b):
    return np.mean([1.0 if x > y else 0.5 if x == y else 0.0 for x, y in itertools.product(a, b)])


def compared(scores, **changes):
    how = {"permutations": 400, "bootstrap": 300, "seed": 0, **changes}
    return comparison.compare(scores[["id"]], scores, SIZES, **how)


def test_cles_and_its_worth_are_those_of_pairs(scores):
    found = compared(scores)
    assert list(found) == [name for name in comparison.COLUMNS if name != "most"]
    assert len(found) == 9
    for row in found[found["pool_size"] > 0].to_dict("records"):
        column = f"{row['pool']}_{row['shared']}"
        a, b = (scores[scores["group"] == row[f"group_{side}"]] for side in "ab")
        assert (row["n_a"], row["n_b"]) == (len(a), len(b))
        assert (row["tokens_a"], row["tokens_b"]) == (a["tokens"].mean(), b["tokens"].mean())
        assert row["cles"] == pytest.approx(naive(a[column], b[column]))
        assert row["cles_gap"] == pytest.approx(abs(row["cles"] - 0.5))
        rng, both = np.random.default_rng(1), np.concatenate([a[column], b[column]])
        null, drawn = [], []
        for _ in range(2000):
            mixed = rng.permutation(both)
            null.append(abs(naive(mixed[: len(a)], mixed[len(a) :]) - 0.5))
            drawn.append(naive(rng.choice(a[column], len(a)), rng.choice(b[column], len(b))))
        assert row["p"] == pytest.approx(np.mean(np.array(null) >= row["cles_gap"] - 1e-12), abs=0.07)
        assert row["p"] * 401 == pytest.approx(round(row["p"] * 401))
        assert [row["cles_low"], row["cles_high"]] == pytest.approx(
            np.percentile(drawn, [2.5, 97.5]), abs=0.05
        )
    known = found[found["p"].notna()]
    assert known["q"].to_numpy() == pytest.approx(stats.false_discovery_control(known["p"]))


def test_an_empty_pool_has_no_figures(scores):
    empty = compared(scores).query("pool_size == 0")
    assert len(empty) == 3
    assert empty[["cles", "cles_gap", "cles_low", "p", "q"]].isna().all(axis=None)
    assert empty["n_a"].notna().all()


def test_draws_hang_on_names_and_the_seed_alone(scores):
    pd.testing.assert_frame_equal(compared(scores), compared(scores))
    assert (compared(scores)["p"] != compared(scores, seed=1)["p"]).any()
    none = compared(scores, permutations=0, bootstrap=0)
    assert none[["p", "q", "cles_low"]].isna().all(axis=None)
    assert none["cles"].tolist() == pytest.approx(compared(scores)["cles"].tolist(), nan_ok=True)


def table(*groups):
    return Table("faces", pd.DataFrame({"id": [f"{n:02}" for n in range(len(groups))], "group": groups}), 0)


def test_so_many_faces_of_each_group_are_drawn():
    shown = table(*"xxxxxxyyyzz")
    assert len(comparison.chosen(shown, None, 0)) == 11
    found = comparison.chosen(shown, 3, 0)
    assert found["group"].tolist() == list("xxxyyyzz")
    assert found["id"].is_unique
    pd.testing.assert_frame_equal(found, comparison.chosen(shown, 3, 0))
    assert any(
        found["id"].tolist() != comparison.chosen(shown, 3, seed)["id"].tolist() for seed in range(1, 4)
    )


def test_too_few_groups_or_faces_are_said():
    with pytest.raises(NotApplicable, match="there is 'x' alone"):
        comparison.chosen(table(*"xx"), None, 0)
    with pytest.raises(InputError, match="1 face of 'y'"):
        comparison.chosen(table(*"xxy"), None, 0)
