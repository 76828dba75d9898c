"""Check SC-EAT (from similarities, from vectors) and EAT against loops, enumerations, published values."""

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from src.metrics import cosines, eat, factorise, normalise, sc_eat, sc_eats, sc_eats_qr
from tests import reference
from tests.paths import SHARED

seeds = st.integers(0, 2**32 - 1)


def naive_sc_eat(to_a, to_b, ddof):
    sets = range(to_a.shape[1]), range(to_a.shape[1], to_a.shape[1] + to_b.shape[1])
    return [reference.effect(row, *sets, ddof) for row in torch.cat([to_a, to_b], dim=1).tolist()]


@pytest.mark.parametrize("ddof", [0, 1])
@given(seed=seeds)
def test_sc_eat_is_the_naive_loop_in_float64(seed, ddof):
    rng = np.random.default_rng(seed)
    a, b = (torch.from_numpy(rng.uniform(-1, 1, (5, size))).float() for size in (4, 7))
    assert sc_eat(a, b, ddof).tolist() == pytest.approx(naive_sc_eat(a, b, ddof), rel=1e-12)


@pytest.mark.parametrize("value", [0.1, 1 / 3, -0.7])
def test_sc_eat_without_deviation_is_nan(value):
    assert sc_eat(torch.full((2, 25), value), torch.full((2, 25), value)).isnan().all()
    assert sc_eat(torch.full((2, 3), value).double(), torch.full((2, 4), value).double()).isnan().all()


@pytest.mark.parametrize("ddof", [0, 1])
@given(seed=seeds, n_sets=st.integers(1, 3))
def test_sc_eats_is_sc_eat_of_each_set(seed, n_sets, ddof):
    rng = np.random.default_rng(seed)
    similarities = torch.from_numpy(rng.uniform(-1, 1, (4, 12)))
    # Sets may overlap, in any order.
    *a, b = (rng.permutation(12)[: rng.integers(2, 9)] for _ in range(n_sets + 1))
    expected = torch.stack([sc_eat(similarities[:, items], similarities[:, b], ddof) for items in a], dim=1)
    assert sc_eats(similarities, a, b, ddof).numpy() == pytest.approx(expected.numpy(), rel=1e-10, abs=1e-12)


def test_sc_eats_is_undefined_for_equal_similarities_and_exact_for_close_ones():
    similarities = torch.full((2, 60), 0.7, dtype=torch.float64)
    similarities[:, 59], similarities[1, 0] = 0.1, 0.7 + 1e-12
    result = sc_eats(similarities, [np.arange(30), np.arange(1, 30)], np.arange(30, 59))
    assert result.isnan().tolist() == [[True, True], [False, True]]
    # One of 59 cosines differs: the effect does not depend on the size of that difference.
    expected = naive_sc_eat(torch.eye(1, 30), torch.zeros(1, 29), 1)[0]
    assert result[1, 0].item() == pytest.approx(expected, rel=1e-12)


def test_sets_without_deviation_are_refused():
    with pytest.raises(ValueError, match="A and B need at least one item"):
        sc_eat(torch.zeros(3, 0), torch.zeros(3, 2))
    similarities = torch.zeros(1, 3, dtype=torch.float64)
    with pytest.raises(ValueError, match="A and B need at least one item each"):
        sc_eats(similarities, [np.array([0]), np.array([], dtype=int)], np.array([1]))
    with pytest.raises(ValueError, match="2 similarities have no standard deviation with ddof=2"):
        sc_eats(similarities, [np.array([0])], np.array([1]), ddof=2)


# SC-EAT from vectors, by a QR decomposition, against SC-EAT from their similarities.


def effects_of(similarities, a, b, ddof=1):
    effects = [sc_eat(similarities[:, i], similarities[:, j], ddof) for i, j in zip(a, b, strict=True)]
    return torch.stack(effects, dim=1)


@pytest.mark.parametrize("ddof", [0, 1])
@given(seed=seeds, width=st.integers(1, 150), n_sets=st.integers(1, 4))
def test_sc_eats_by_is_sc_eat_of_the_similarities(seed, width, n_sets, ddof):
    rng = np.random.default_rng(seed)
    # Fewer and more items than dimensions; sets overlap, in any order.
    count = int(rng.integers(4, 200))
    x, items = (normalise(torch.from_numpy(rng.normal(size=(n, width)) + 0.5)) for n in (6, count))
    a, b = ([rng.permutation(count)[: rng.integers(2, count + 1)] for _ in range(n_sets)] for _ in "ab")
    result = sc_eats_qr(x, factorise(items, a, b, ddof))
    expected = effects_of(cosines(x, items), a, b, ddof)
    defined = ~result.isnan()
    assert result[defined].numpy() == pytest.approx(expected[defined].numpy(), rel=1e-8, abs=1e-10)
    # In one dimension all cosines may be equal.
    assert defined.all() or width < 3


def test_deviations_of_real_cosines_are_exact_to_rounding():
    rng = np.random.default_rng(0)
    # Cosines of 0.2 that differ by 0.02, as CLIP's do.
    x, items = (torch.from_numpy(rng.normal(size=(n, 512))) for n in (40, 900))
    items[:, 0] += 60
    x[:, 0] += 4.7
    x, items = normalise(x), normalise(items)
    assert cosines(x, items).std(dim=1).max() < 0.04
    a, b = [np.arange(300), np.arange(200, 700)], [np.arange(600, 900)] * 2
    result = sc_eats_qr(x, factorise(items, a, b)).numpy()
    # `x @ items.T` is not rounded; `cosines` rounds to 12 decimals, hence the larger tolerance.
    assert result == pytest.approx(effects_of(x @ items.T, a, b).numpy(), rel=0, abs=2e-13)
    assert result == pytest.approx(effects_of(cosines(x, items), a, b).numpy(), rel=0, abs=1e-11)


@pytest.mark.parametrize(("gap", "is_defined"), [(0.0, False), (1e-9, False), (3e-4, False), (3e-2, True)])
def test_a_deviation_near_rounding_is_undefined(gap, is_defined):
    items = torch.zeros(40, 5, dtype=torch.float64)
    items[:, 0], items[:20, 1] = 1, gap
    x = torch.tensor([[0.6, 0.8, 0.0, 0.0, 0.0]]).double()
    result = sc_eats_qr(normalise(x), factorise(normalise(items), [np.arange(20)], [np.arange(20, 40)]))
    assert math.isnan(result.item()) != is_defined


def draw_vectors(seed: int, *sizes: int, width: int = 5) -> list[torch.Tensor]:
    rng = np.random.default_rng(seed)
    return [torch.nn.functional.normalize(torch.from_numpy(rng.normal(size=(n, width)))) for n in sizes]


def naive_eat(x, y, a, b) -> tuple[float, float]:
    values = [np.mean([float(w @ v) for v in a]) - np.mean([float(w @ v) for v in b]) for w in (*x, *y)]
    positions = range(len(values))
    permuted = [
        np.mean([values[i] for i in chosen]) - np.mean([values[i] for i in positions if i not in chosen])
        for chosen in combinations(positions, len(x))
    ]
    observed = permuted[0]
    p = np.mean([value >= observed - 1e-12 for value in permuted])
    return observed / np.std(values, ddof=1), float(p)


@pytest.mark.parametrize(("n_x", "n_y"), [(4, 4), (3, 6), (5, 2), (1, 1)])
@pytest.mark.parametrize("seed", range(3))
def test_eat_is_exact_where_partitions_are_few(seed, n_x, n_y):
    x, y, a, b = draw_vectors(seed, n_x, n_y, 4, 3)
    result = eat(x, y, a, b)
    d, p = naive_eat(x, y, a, b)
    assert result.d == pytest.approx(d, rel=1e-12)
    assert result.p == pytest.approx(p, abs=1e-12)


def test_eat_counts_ties_as_reached_and_a_drawn_p_is_never_zero():
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    assert eat(x, x, torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])).p == pytest.approx(5 / 6)
    a, b = torch.tensor([[1.0, 0.0]]), torch.tensor([[-1.0, 0.0]])
    rng = np.random.default_rng(0)
    spread = torch.from_numpy(rng.uniform(0.5, 1, (15, 1)))
    x, y = torch.cat([spread, 0 * spread], 1), torch.cat([-spread, 0 * spread], 1)
    assert eat(x, y, a, b).p == pytest.approx(1 / 10_001)


def test_eat_draws_true_permutations_where_partitions_are_many():
    x, y, a, b = draw_vectors(1, 12, 12, 4, 4)  # 2,704,156 partitions
    result = eat(x, y, a, b, seed=3)
    values = ((torch.cat([x, y]) @ a.T).mean(1) - (torch.cat([x, y]) @ b.T).mean(1)).numpy()
    rng = np.random.default_rng(99)
    sums = np.array([rng.permutation(values)[:12].sum() for _ in range(20_000)])
    p = (sums >= values[:12].sum()).mean()
    # Two independent estimates of one p: within 5 standard errors.
    assert result.p == pytest.approx(p, abs=5 * math.sqrt(p * (1 - p) * (1 / 1e4 + 1 / 2e4)))
    assert result == eat(x, y, a, b, seed=3)
    assert result.p != eat(x, y, a, b, seed=4).p
    assert (result.p * 10_001) == pytest.approx(round(result.p * 10_001))


def load_ieat(name: str) -> torch.Tensor:
    table = pd.read_csv(SHARED / "ieat" / f"{name}.csv.gz", index_col=0)
    return torch.nn.functional.normalize(torch.from_numpy(table.drop(columns="img").to_numpy(dtype=float)))


@pytest.mark.skipif(not (SHARED / "ieat").is_dir(), reason="needs the iEAT vectors in shared/data/ieat")
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
    assert eat(*map(load_ieat, names.split())).d == pytest.approx(d, abs=1e-4)
