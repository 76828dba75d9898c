"""SC-EAT and EAT against naive loops, enumerations and published figures."""

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ortho_group

from src.metrics import eat, sc_eat, sc_eats, similarity
from tests.paths import SHARED

seeds = st.integers(0, 2**32 - 1)


def cosines(seed: int, n: int = 5, a: int = 4, b: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.uniform(-1, 1, (n, a))), torch.from_numpy(rng.uniform(-1, 1, (n, b)))


def naive_sc_eat(to_a, to_b, ddof: int) -> list[float]:
    found = []
    for a, b in zip(to_a.tolist(), to_b.tolist(), strict=True):
        both = a + b
        mean = sum(both) / len(both)
        deviation = math.sqrt(sum((value - mean) ** 2 for value in both) / (len(both) - ddof))
        found.append((sum(a) / len(a) - sum(b) / len(b)) / deviation)
    return found


@pytest.mark.parametrize("ddof", [0, 1])
@given(seed=seeds)
def test_sc_eat_is_the_naive_loop(seed, ddof):
    a, b = cosines(seed)
    assert sc_eat(a, b, ddof).tolist() == pytest.approx(naive_sc_eat(a, b, ddof), rel=1e-12)


@given(seed=seeds)
def test_sc_eat_is_antisymmetric_and_blind_to_scale_and_shift(seed):
    a, b = cosines(seed)
    found = sc_eat(a, b)
    assert torch.allclose(found, -sc_eat(b, a), rtol=1e-12)
    assert torch.allclose(found, sc_eat(3.7 * a + 0.2, 3.7 * b + 0.2), rtol=1e-9)


@settings(max_examples=20)
@given(seed=seeds)
def test_sc_eat_is_blind_to_rotation(seed):
    rng = np.random.default_rng(seed)
    vectors = torch.from_numpy(rng.normal(size=(12, 6)))
    turned = vectors @ torch.from_numpy(ortho_group.rvs(6, random_state=rng))
    found = [sc_eat(similarity(v[:4], v[4:8]), similarity(v[:4], v[8:])) for v in (vectors, turned)]
    assert torch.allclose(found[0], found[1], rtol=1e-8)


@given(seed=seeds, n=st.integers(1, 40))
def test_sc_eat_saturates_at_its_bound(seed, n):
    a, b = cosines(seed, n=3, a=n, b=n)
    bound = 2 * math.sqrt((2 * n - 1) / (2 * n))
    assert sc_eat(a, b).abs().max() <= bound + 1e-12
    apart = sc_eat(torch.ones(1, n), -torch.ones(1, n))
    assert apart.item() == pytest.approx(bound)


@pytest.mark.parametrize("value", [0.1, 1 / 3, -0.7])
def test_sc_eat_without_deviation_is_nan(value):
    assert sc_eat(torch.full((2, 25), value), torch.full((2, 25), value)).isnan().all()
    assert sc_eat(torch.full((2, 3), value).double(), torch.full((2, 4), value).double()).isnan().all()


def test_sc_eat_refuses_empty_sets():
    with pytest.raises(ValueError, match="A and B need at least one item"):
        sc_eat(torch.zeros(3, 0), torch.zeros(3, 2))


def test_sc_eat_of_float32_is_computed_in_float64():
    a, b = cosines(0)
    assert sc_eat(a.float(), b.float()).dtype == torch.float64
    assert sc_eat(a.float(), b.float()).tolist() == pytest.approx(
        naive_sc_eat(a.float(), b.float(), 1), rel=1e-12
    )


@pytest.mark.parametrize("ddof", [0, 1])
@given(seed=seeds, contents=st.integers(1, 3))
def test_sc_eats_is_sc_eat_of_each_set(seed, contents, ddof):
    rng = np.random.default_rng(seed)
    near = torch.from_numpy(rng.uniform(-1, 1, (4, 12)))
    # Sets may overlap, and lie in any order.
    *a, b = (rng.permutation(12)[: rng.integers(2, 9)] for _ in range(contents + 1))
    expected = torch.stack([sc_eat(near[:, one], near[:, b], ddof) for one in a], dim=1)
    assert sc_eats(near, a, b, ddof).numpy() == pytest.approx(expected.numpy(), rel=1e-10, abs=1e-12)


def test_sc_eats_of_equal_similarities_is_undefined_and_of_hardly_different_ones_exact():
    near = torch.full((2, 60), 0.7, dtype=torch.float64)
    near[:, 59], near[1, 0] = 0.1, 0.7 + 1e-12
    found = sc_eats(near, [np.arange(30), np.arange(1, 30)], np.arange(30, 59))
    assert found.isnan().tolist() == [[True, True], [False, True]]
    # One of 59 differs: the size of the difference leaves the effect.
    assert found[1, 0].item() == pytest.approx(naive_sc_eat(*ones(30, 29), 1)[0], rel=1e-12)


def ones(a: int, b: int) -> tuple[torch.Tensor, torch.Tensor]:
    to_a = torch.zeros(1, a)
    to_a[0, 0] = 1
    return to_a, torch.zeros(1, b)


def test_sc_eats_refuses_what_has_no_deviation():
    near = torch.zeros(1, 3, dtype=torch.float64)
    with pytest.raises(ValueError, match="A and B need at least one item each"):
        sc_eats(near, [np.array([0]), np.array([], dtype=int)], np.array([1]))
    with pytest.raises(ValueError, match="2 similarities leave no deviation with ddof=2"):
        sc_eats(near, [np.array([0])], np.array([1]), ddof=2)


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
    found = eat(x, y, a, b)
    d, p = naive_eat(x, y, a, b)
    assert found.d == pytest.approx(d, rel=1e-12)
    assert found.p == pytest.approx(p, abs=1e-12)


def test_eat_counts_ties_as_reached():
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    assert eat(x, x, torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])).p == pytest.approx(5 / 6)


def test_eat_draws_true_permutations_where_partitions_are_many():
    x, y, a, b = vectors(1, 12, 12, 4, 4)  # 2,704,156 partitions
    found = eat(x, y, a, b, seed=3)
    values = ((torch.cat([x, y]) @ a.T).mean(1) - (torch.cat([x, y]) @ b.T).mean(1)).numpy()
    rng = np.random.default_rng(99)
    drawn = np.array([rng.permutation(values)[:12].sum() for _ in range(20_000)])
    share = (drawn >= values[:12].sum()).mean()
    # Two independent estimates of one share: within 5 standard errors.
    assert found.p == pytest.approx(share, abs=5 * math.sqrt(share * (1 - share) * (1 / 1e4 + 1 / 2e4)))
    assert found == eat(x, y, a, b, seed=3)
    assert found.p != eat(x, y, a, b, seed=4).p
    assert (found.p * 10_001) == pytest.approx(round(found.p * 10_001))


def test_eat_p_is_never_zero_when_drawn():
    a, b = torch.tensor([[1.0, 0.0]]), torch.tensor([[-1.0, 0.0]])
    rng = np.random.default_rng(0)
    spread = torch.from_numpy(rng.uniform(0.5, 1, (15, 1)))
    x, y = torch.cat([spread, 0 * spread], 1), torch.cat([-spread, 0 * spread], 1)
    assert eat(x, y, a, b).p == pytest.approx(1 / 10_001)


@given(seed=seeds)
@settings(max_examples=25)
def test_eat_is_antisymmetric(seed):
    x, y, a, b = vectors(seed, 3, 4, 3, 3)
    assert eat(x, y, a, b).d == pytest.approx(-eat(x, y, b, a).d, rel=1e-9)
    assert eat(x, y, a, b).d == pytest.approx(-eat(y, x, a, b).d, rel=1e-9)


def ieat(name: str) -> torch.Tensor:
    table = pd.read_csv(SHARED / "ieat" / f"{name}.csv.gz", index_col=0)
    return torch.nn.functional.normalize(torch.from_numpy(table.drop(columns="img").to_numpy(dtype=float)))


@pytest.mark.skipif(not (SHARED / "ieat").is_dir(), reason="the recorded iEAT vectors are not here")
@pytest.mark.parametrize(
    ("names", "d"),
    [
        (
            "insect-flower_flower insect-flower_insect valence_pleasant valence_unpleasant",
            1.68869,
        ),
        ("weapon_white weapon_black weapon_tool weapon_weapon", 1.37585),
        (
            "race_european-american race_african-american valence_pleasant valence_unpleasant",
            -0.57121,
        ),
    ],
)
def test_eat_gives_the_published_effect_sizes(names, d):
    # Steed & Caliskan 2021, simclr.
    assert eat(*map(ieat, names.split())).d == pytest.approx(d, abs=1e-4)
