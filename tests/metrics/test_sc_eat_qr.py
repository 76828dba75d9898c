"""SC-EAT of vectors alone, against that of their similarities."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from src.metrics import cosines, factors, sc_eat, sc_eats_by, unit


def of_similarities(near, a, b, ddof=1):
    return torch.stack([sc_eat(near[:, o], near[:, p], ddof) for o, p in zip(a, b, strict=True)], dim=1)


@pytest.mark.parametrize("ddof", [0, 1])
@given(seed=st.integers(0, 2**32 - 1), width=st.integers(1, 150), contents=st.integers(1, 4))
def test_it_is_sc_eat_of_the_similarities(seed, width, contents, ddof):
    rng = np.random.default_rng(seed)
    # Fewer items than the width and more; sets overlap, and lie in any order.
    count = int(rng.integers(4, 200))
    x, items = (unit(torch.from_numpy(rng.normal(size=(n, width)) + 0.5)) for n in (6, count))
    a, b = ([rng.permutation(count)[: rng.integers(2, count + 1)] for _ in range(contents)] for _ in "ab")
    found = sc_eats_by(x, factors(items, a, b, ddof))
    expected = of_similarities(cosines(x, items), a, b, ddof)
    told = ~found.isnan()
    assert found[told].numpy() == pytest.approx(expected[told].numpy(), rel=1e-8, abs=1e-10)
    # In one dimension all cosines may be equal.
    assert told.all() or width < 3


def test_deviations_of_real_cosines_are_told_to_rounding():
    rng = np.random.default_rng(0)
    # Cosines of 0.2 that differ by 0.02, as CLIP's do.
    x, items = (torch.from_numpy(rng.normal(size=(n, 512))) for n in (40, 900))
    items[:, 0] += 60
    x[:, 0] += 4.7
    x, items = unit(x), unit(items)
    assert cosines(x, items).std(dim=1).max() < 0.04
    a, b = [np.arange(300), np.arange(200, 700)], [np.arange(600, 900)] * 2
    found = sc_eats_by(x, factors(items, a, b)).numpy()
    # Cosines are rounded to 12 decimals, which is their error here; these are not.
    assert found == pytest.approx(of_similarities(x @ items.T, a, b).numpy(), rel=0, abs=2e-13)
    assert found == pytest.approx(of_similarities(cosines(x, items), a, b).numpy(), rel=0, abs=1e-11)


@pytest.mark.parametrize(("apart", "told"), [(0.0, False), (1e-9, False), (3e-4, False), (3e-2, True)])
def test_a_deviation_near_that_of_rounding_is_not_told(apart, told):
    items = torch.zeros(40, 5, dtype=torch.float64)
    items[:, 0], items[:20, 1] = 1, apart
    x = torch.tensor([[0.6, 0.8, 0.0, 0.0, 0.0]]).double()
    found = sc_eats_by(unit(x), factors(unit(items), [np.arange(20)], [np.arange(20, 40)]))
    assert math.isnan(found.item()) != told


def test_it_refuses_what_has_no_deviation():
    items = torch.zeros(3, 2, dtype=torch.float64)
    with pytest.raises(ValueError, match="A and B need at least one item each"):
        factors(items, [np.array([0]), np.array([], dtype=int)], [np.array([1])] * 2)
    with pytest.raises(ValueError, match="2 similarities leave no deviation with ddof=2"):
        factors(items, [np.array([0])], [np.array([1])], ddof=2)
