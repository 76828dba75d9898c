"""Check which units are drawn together, against counts by hand."""

import numpy as np
import pandas as pd
import pytest

from src.studies.shared.resampling import weights

MORPHS = pd.DataFrame(
    {
        "name": ["a~b", "a~c", "b~c", "c~d", "d"],
        "parent_a": ["a", "a", "b", "c", None],
        "parent_b": ["b", "c", "c", "d", None],
    }
)


def test_a_sample_has_as_many_units_as_there_are():
    drawn = weights(pd.DataFrame({"name": [f"u{i}" for i in range(50)]}), 4000, seed=1)
    assert (drawn.sum(axis=1) == 50).all()
    # Binomial(50, 1/50) of each unit, and a covariance of -1/50 of any two.
    assert drawn.mean() == 1
    assert drawn.var(axis=0).mean() == pytest.approx(1 - 1 / 50, abs=0.02)
    assert np.cov(drawn[:, 0], drawn[:, 1])[0, 1] == pytest.approx(-1 / 50, abs=0.07)
    assert len(np.unique(drawn, axis=0)) > 3990


def test_a_morph_has_the_product_of_the_counts_of_its_parents():
    drawn = weights(MORPHS, 500, seed=0)
    # The weight of d, which has no parents, is its count; the others follow from four counts that sum to 4.
    d = drawn[:, 4]
    for ab, ac, bc, cd, count_d in drawn:
        solutions = [
            (a, b, c, count_d)
            for a in range(5)
            for b in range(5)
            for c in range(5)
            if a + b + c + count_d == 4 and (a * b, a * c, b * c, c * count_d) == (ab, ac, bc, cd)
        ]
        assert solutions
    assert d.mean() == pytest.approx(1, abs=0.12)


@pytest.mark.parametrize("frame", [MORPHS, MORPHS[["name"]]], ids=["morphs", "single"])
def test_the_draw_depends_on_seed_and_names_alone(frame):
    shuffled = frame.sample(frac=1, random_state=0)
    assert (weights(shuffled, 60, seed=3) == weights(frame, 60, seed=3)[:, shuffled.index]).all()
    assert (weights(frame, 60, seed=3) != weights(frame, 60, seed=4)).any()
    other = frame.assign(name=frame["name"].str.upper())
    assert (weights(other, 60, seed=3) != weights(frame, 60, seed=3)).any()
