"""Sums over attribute sets, by whichever product takes least: against sums that are written out."""

import numpy as np
import pytest
import torch

from src.studies.propagation.set_sums import Sets, added, indicator, summed


@pytest.mark.parametrize("n", [2, 60])
@pytest.mark.parametrize("width", [8, 300])
@pytest.mark.parametrize("single", [True, False])
def test_sums_are_those_written_out(n, width, single):
    rng = np.random.default_rng(5)
    items, targets = (torch.from_numpy(rng.standard_normal((count, width))) for count in (200, 7))
    a, b = (np.stack([rng.permutation(200)[:n] for _ in range(11)]) for _ in "ab")
    near = items @ targets.T
    vectors = items if single else None
    ones_b = indicator(b, 200)
    sets = Sets.of(a, b, {id(b): (ones_b, summed(ones_b, vectors))}, vectors)
    for chosen, sums in ((a, sets.a), (b, sets.b)):
        written = [[near[row, target].sum() for target in range(7)] for row in chosen]
        found = added(sums, near, targets.T if single else None)
        np.testing.assert_allclose(found, written, rtol=0, atol=1e-11)
    # Vectors are summed only where sets are dense and vectors narrow.
    assert (sets.a.shape[1] == width) == (single and n == 60 and width == 8)
    counted = (sets.both @ torch.ones(200, 1, dtype=torch.float64)).squeeze(1)
    assert (counted == 2 * n).all()
