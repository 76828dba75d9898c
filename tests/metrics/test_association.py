"""Check SC-EAT, also of vectors alone, and EAT against naive loops, enumerations and published figures."""

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from src.metrics import cosines as cosines_of
from src.metrics import eat, factors, sc_eat, sc_eats, sc_eats_by, unit
from tests import reference
from tests.paths import SHARED

seeds = st.integers(0, 2**32 - 1)


def cosines(seed: int, n: int = 5, a: int = 4, b: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.uniform(-1, 1, (n, a))), torch.from_numpy(rng.uniform(-1, 1, (n, b)))


def naive_sc_eat(to_a, to_b, ddof):
    sets = range(to_a.shape[1]), range(to_a.shape[1], to_a.shape[1] + to_b.shape[1])
    return [reference.effect(row, *sets, ddof) for row in torch.cat([to_a, to_b], dim=1).tolist()]


@pytest.mark.parametrize("ddof", [0, 1])
@given(seed=seeds)
def test_sc_eat_is_the_naive_loop_in_float64(seed, ddof):
    a, b = (side.float() for side in cosines(seed))
    assert sc_eat(a, b, ddof).tolist() == pytest.approx(naive_sc_eat(a, b, ddof), rel=1e-12)


@pytest.mark.parametrize("value", [0.1, 1 / 3, -0.7])
def test_sc_eat_without_deviation_is_nan(value):
    assert sc_eat(torch.full((2, 25), value), torch.full((2, 25), value)).isnan().all()
    assert sc_eat(torch.full((2, 3), value).double(), torch.full((2, 4), value).double()).isnan().all()


@pytest.mark.parametrize("ddof", [0, 1])
@given(seed=seeds, contents=st.integers(1, 3))
def test_sc_eats_is_sc_eat_of_each_set(seed, contents, ddof):
    rng = np.random.default_rng(seed)
    near = torch.from_numpy(rng.uniform(-1, 1, (4, 12)))
    # Sets may overlap, and lie in any order.
    *a, b = (rng.permutation(12)[: rng.integers(2, 9)] for _ in range(contents + 1))
    expected = torch.stack([sc_eat(near[:, item], near[:, b], ddof) for item in a], dim=1)
    assert sc_eats(near, a, b, ddof).numpy() == pytest.approx(expected.numpy(), rel=1e-10, abs=1e-12)


def test_sc_eats_is_undefined_for_equal_similarities_and_exact_for_close_ones():
    near = torch.full((2, 60), 0.7, dtype=torch.float64)
    near[:, 59], near[1, 0] = 0.1, 0.7 + 1e-12
    result = sc_eats(near, [np.arange(30), np.arange(1, 30)], np.arange(30, 59))
    assert result.isnan().tolist() == [[True, True], [False, True]]
    # One of 59 differs: the size of the difference leaves the effect.
    assert result[1, 0].item() == pytest.approx(naive_sc_eat(*ones(30, 29), 1)[0], rel=1e-12)


def ones(a: int, b: int) -> tuple[torch.Tensor, torch.Tensor]:
    to_a = torch.zeros(1, a)
    to_a[0, 0] = 1
    return to_a, torch.zeros(1, b)


def test_sets_without_deviation_are_refused():
    with pytest.raises(ValueError, match="A and B need at least one item"):
        sc_eat(torch.zeros(3, 0), torch.zeros(3, 2))
    near = torch.zeros(1, 3, dtype=torch.float64)
    with pytest.raises(ValueError, match="A and B need at least one item each"):
        sc_eats(near, [np.array([0]), np.array([], dtype=int)], np.array([1]))
    with pytest.raises(ValueError, match="2 similarities have no standard deviation with ddof=2"):
        sc_eats(near, [np.array([0])], np.array([1]), ddof=2)


# SC-EAT of vectors alone, by a QR decomposition, against that of their similarities.


def of_similarities(near, a, b, ddof=1):
    return torch.stack([sc_eat(near[:, o], near[:, p], ddof) for o, p in zip(a, b, strict=True)], dim=1)


@pytest.mark.parametrize("ddof", [0, 1])
@given(seed=seeds, width=st.integers(1, 150), contents=st.integers(1, 4))
def test_it_is_sc_eat_of_the_similarities(seed, width, contents, ddof):
    rng = np.random.default_rng(seed)
    # Fewer items than the width and more; sets overlap, and lie in any order.
    count = int(rng.integers(4, 200))
    x, items = (unit(torch.from_numpy(rng.normal(size=(n, width)) + 0.5)) for n in (6, count))
    a, b = ([rng.permutation(count)[: rng.integers(2, count + 1)] for _ in range(contents)] for _ in "ab")
    result = sc_eats_by(x, factors(items, a, b, ddof))
    expected = of_similarities(cosines_of(x, items), a, b, ddof)
    reported = ~result.isnan()
    assert result[reported].numpy() == pytest.approx(expected[reported].numpy(), rel=1e-8, abs=1e-10)
    # In one dimension all cosines may be equal.
    assert reported.all() or width < 3


def test_deviations_of_real_cosines_are_exact_to_rounding():
    rng = np.random.default_rng(0)
    # Cosines of 0.2 that differ by 0.02, as CLIP's do.
    x, items = (torch.from_numpy(rng.normal(size=(n, 512))) for n in (40, 900))
    items[:, 0] += 60
    x[:, 0] += 4.7
    x, items = unit(x), unit(items)
    assert cosines_of(x, items).std(dim=1).max() < 0.04
    a, b = [np.arange(300), np.arange(200, 700)], [np.arange(600, 900)] * 2
    result = sc_eats_by(x, factors(items, a, b)).numpy()
    # Cosines are rounded to 12 decimals, which is their error here; these are not.
    assert result == pytest.approx(of_similarities(x @ items.T, a, b).numpy(), rel=0, abs=2e-13)
    assert result == pytest.approx(of_similarities(cosines_of(x, items), a, b).numpy(), rel=0, abs=1e-11)


@pytest.mark.parametrize(("apart", "reported"), [(0.0, False), (1e-9, False), (3e-4, False), (3e-2, True)])
def test_a_deviation_near_rounding_is_undefined(apart, reported):
    items = torch.zeros(40, 5, dtype=torch.float64)
    items[:, 0], items[:20, 1] = 1, apart
    x = torch.tensor([[0.6, 0.8, 0.0, 0.0, 0.0]]).double()
    result = sc_eats_by(unit(x), factors(unit(items), [np.arange(20)], [np.arange(20, 40)]))
    assert math.isnan(result.item()) != reported


def vectors(seed: int, *sizes: int, width: int = 5) -> list[torch.Tensor]:
    rng = np.random.default_rng(seed)
    return [torch.nn.functional.normalize(torch.from_numpy(rng.normal(size=(n, width)))) for n in sizes]


def naive_eat(x, y, a, b) -> tuple[float, float]:
    def s(w):
        return np.mean([float(w @ v) for v in a]) - np.mean([float(w @ v) for v in b])

    values = [s(w) for w in x] + [s(w) for w in y]
    everything = set(range(len(values)))

    def statistic(chosen):
        rest = everything - set(chosen)
        return np.mean([values[i] for i in chosen]) - np.mean([values[i] for i in rest])

    observed = statistic(range(len(x)))
    drawn = [statistic(c) for c in combinations(range(len(values)), len(x))]
    share = np.mean([value >= observed - 1e-12 for value in drawn])
    return observed / np.std(values, ddof=1), float(share)


@pytest.mark.parametrize(("n_x", "n_y"), [(4, 4), (3, 6), (5, 2), (1, 1)])
@pytest.mark.parametrize("seed", range(3))
def test_eat_is_exact_where_partitions_are_few(seed, n_x, n_y):
    x, y, a, b = vectors(seed, n_x, n_y, 4, 3)
    result = eat(x, y, a, b)
    d, p = naive_eat(x, y, a, b)
    assert result.d == pytest.approx(d, rel=1e-12)
    assert result.p == pytest.approx(p, abs=1e-12)


def test_eat_counts_ties_as_reached():
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    assert eat(x, x, torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])).p == pytest.approx(5 / 6)


def test_eat_draws_true_permutations_where_partitions_are_many():
    x, y, a, b = vectors(1, 12, 12, 4, 4)  # 2,704,156 partitions
    result = eat(x, y, a, b, seed=3)
    values = ((torch.cat([x, y]) @ a.T).mean(1) - (torch.cat([x, y]) @ b.T).mean(1)).numpy()
    rng = np.random.default_rng(99)
    drawn = np.array([rng.permutation(values)[:12].sum() for _ in range(20_000)])
    share = (drawn >= values[:12].sum()).mean()
    # Two independent estimates of one share: within 5 standard errors.
    assert result.p == pytest.approx(share, abs=5 * math.sqrt(share * (1 - share) * (1 / 1e4 + 1 / 2e4)))
    assert result == eat(x, y, a, b, seed=3)
    assert result.p != eat(x, y, a, b, seed=4).p
    assert (result.p * 10_001) == pytest.approx(round(result.p * 10_001))


def test_eat_p_is_never_zero_when_drawn():
    a, b = torch.tensor([[1.0, 0.0]]), torch.tensor([[-1.0, 0.0]])
    rng = np.random.default_rng(0)
    spread = torch.from_numpy(rng.uniform(0.5, 1, (15, 1)))
    x, y = torch.cat([spread, 0 * spread], 1), torch.cat([-spread, 0 * spread], 1)
    assert eat(x, y, a, b).p == pytest.approx(1 / 10_001)


def ieat(name: str) -> torch.Tensor:
    table = pd.read_csv(SHARED / "ieat" / f"{name}.csv.gz", index_col=0)
    return torch.nn.functional.normalize(torch.from_numpy(table.drop(columns="img").to_numpy(dtype=float)))


@pytest.mark.skipif(not (SHARED / "ieat").is_dir(), reason="the recorded iEAT vectors are not here")
@pytest.mark.parametrize(
    ("names", "d"),
    [
        ("insect-flower_flower insect-flower_insect valence_pleasant valence_unpleasant", 1.68869),
        ("weapon_white weapon_black weapon_tool weapon_weapon", 1.37585),
        ("race_european-american race_african-american valence_pleasant valence_unpleasant", -0.57121),
    ],
)
def test_eat_gives_the_published_effect_sizes(names, d):
    # Steed & Caliskan 2021, simclr.
    assert eat(*map(ieat, names.split())).d == pytest.approx(d, abs=1e-4)
