"""Check variance components against moments of balanced data and MINQUE(0) with explicit matrices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.metrics.variance_components import SINGULAR, variance_components

SIZES = {"exp": 4, "model": 5, "group": 3}
PAIRS = (("exp", "model"), ("exp", "group"), ("model", "group"))
TERMS = ["exp", "model", "group", "exp:model", "exp:group", "model:group", "rest"]


def cells():
    """Return the levels of every cell, as names."""
    grid = np.indices([*SIZES.values()]).reshape(3, -1)
    return {
        name: np.array([f"{name[0]}{level}" for level in levels])
        for name, levels in zip(SIZES, grid, strict=True)
    }


def some_cells(seed, share=0.8):
    rng = np.random.default_rng(seed)
    filled = rng.random(np.prod([*SIZES.values()])) < share
    factors = {name: levels[filled] for name, levels in cells().items()}
    return rng.normal(size=filled.sum()) + 2 * (factors["group"] == "g1"), factors


def dummies(levels):
    return (levels[:, None] == np.unique(levels)[None]).astype(float)


def minque(values, factors, pairs):
    """Compute MINQUE(0) with explicit matrices of covariance."""
    n = len(values)
    names = factors | {f"{a}:{b}": np.char.add(factors[a], factors[b]) for a, b in pairs}
    v = [dummies(levels) @ dummies(levels).T for levels in names.values()] + [np.eye(n)]
    m = np.eye(n) - 1 / n
    system = [[np.trace(m @ a @ m @ b) for b in v] for a in v]
    quadratic = [values @ m @ a @ m @ values for a in v]
    return dict(zip([*names, "rest"], np.linalg.solve(system, quadratic), strict=True))


def anova(values):
    """Estimate the components of balanced data [exp, model, group] by mean squares."""
    sizes = np.array(values.shape)
    overall, squares = values.mean(), {}
    for axes in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2)):
        others = tuple({0, 1, 2} - {*axes})
        effect = values.mean(axis=others, keepdims=True) - overall
        for axis in axes if len(axes) == 2 else ():
            outside = tuple({0, 1, 2} - {axis})
            effect = effect - (values.mean(axis=outside, keepdims=True) - overall)
        df = np.prod([sizes[axis] - 1 for axis in axes])
        squares[axes] = np.prod([sizes[axis] for axis in others]) * (effect**2).sum() / df
    explained = sum(squares[axes] * np.prod([sizes[axis] - 1 for axis in axes]) for axes in squares)
    rest = (((values - overall) ** 2).sum() - explained) / np.prod(sizes - 1)
    pairs = {
        axes: (squares[axes] - rest) / sizes[({0, 1, 2} - {*axes}).pop()] for axes in ((0, 1), (0, 2), (1, 2))
    }
    mains = []
    for axis in range(3):
        first, second = {0, 1, 2} - {axis}
        of_pairs = sum(
            pairs[tuple(sorted((axis, other)))] * sizes[({0, 1, 2} - {axis, other}).pop()]
            for other in (first, second)
        )
        mains.append((squares[axis,] - of_pairs - rest) / (sizes[first] * sizes[second]))
    return [*mains, *pairs.values(), rest]


def test_balanced_data_have_the_moments_of_the_anova():
    values = np.random.default_rng(0).normal(size=[*SIZES.values()]) + np.arange(4)[:, None, None]
    components = variance_components(values.ravel(), cells())
    assert [*components.variances] == TERMS
    assert [*components.variances.values()] == pytest.approx(anova(values), abs=1e-12)


@pytest.mark.parametrize("share", [0.9, 0.7, 0.55])
@pytest.mark.parametrize("seed", [0, 1])
def test_missing_cells_have_the_minque_of_explicit_matrices(seed, share):
    values, factors = some_cells(seed, share)
    expected = minque(values, factors, PAIRS)
    assert dict(variance_components(values, factors).variances) == pytest.approx(expected, abs=1e-9)


@given(order=st.permutations(range(48)), seed=st.integers(0, 9))
def test_neither_order_nor_names_matter(order, seed):
    values, factors = some_cells(seed)
    expected = variance_components(values, factors)
    rows = np.array([row for row in order if row < len(values)] + [*range(48, len(values))])
    renamed = {
        name: np.array([f"{ord(level[1]) * 7 % 11}{level}" for level in levels[rows]])
        for name, levels in factors.items()
    }
    components = variance_components(values[rows], renamed)
    assert dict(components.variances) == pytest.approx(expected.variances, abs=1e-9)
    for fixed in ((), ("exp", "group")):
        assert components.generalisability("model", fixed) == pytest.approx(
            expected.generalisability("model", fixed)
        )


def test_units_and_origin_of_values():
    values, factors = some_cells(3)
    first, second = (variance_components(y, factors) for y in (values, 7 - 0.01 * values))
    assert dict(second.variances) == pytest.approx(
        {k: 1e-4 * v for k, v in first.variances.items()}, abs=1e-12
    )
    assert second.shares() == pytest.approx(first.shares())
    assert sum(first.shares().values()) == pytest.approx(1)


def test_negative_variances_are_given_and_are_no_share():
    values, factors = some_cells(0)
    components = variance_components(values, factors)
    negative = [name for name, variance in components.variances.items() if variance < 0]
    assert negative
    assert all(components.shares()[name] == 0 for name in negative)


def test_generalisability_of_full_cells_is_that_of_the_formula():
    values = np.random.default_rng(4).normal(size=[*SIZES.values()])
    values += 2 * np.arange(5)[None, :, None] + np.random.default_rng(5).normal(size=(4, 5, 1))
    components = variance_components(values.ravel(), cells())
    m, em, mg, rest = (
        max(components.variances[name], 0) for name in ("model", "exp:model", "model:group", "rest")
    )
    fixed, total = m + em / 4 + mg / 3, m + em / 4 + mg / 3 + rest / 12
    assert components.generalisability("model", ("exp", "group")) == pytest.approx(fixed / total)
    assert components.generalisability("model") == pytest.approx(m / total)


def test_checkpoints_are_nested_in_their_model():
    factors = {name: np.repeat(levels, 2) for name, levels in cells().items()}
    number = np.tile(["a", "b"], 60)
    factors["training"] = np.char.add(factors["model"], number)
    values = np.random.default_rng(6).normal(size=120) + 3 * (number == "a") * (factors["model"] == "m1")
    components = variance_components(values, factors)
    assert "model:training" not in components.variances
    pairs = [*PAIRS, ("exp", "training"), ("group", "training")]
    expected = minque(values, factors, pairs)
    assert dict(components.variances) == pytest.approx(expected, abs=1e-9)
    v = {name: max(variance, 0) for name, variance in components.variances.items()}
    true = v["model"] + v["exp:model"] / 4 + v["model:group"] / 3
    error = v["training"] / 2 + v["exp:training"] / 8 + v["group:training"] / 6 + v["rest"] / 24
    assert components.generalisability("model", ("exp", "group")) == pytest.approx(true / (true + error))
    assert components.generalisability("model") == pytest.approx(v["model"] / (true + error))


@pytest.mark.parametrize("kind", ["a single experiment", "a group for each experiment", "a cell per pair"])
def test_components_that_the_cells_cannot_tell_apart_are_refused(kind):
    values, factors = some_cells(0, 1.0)
    exp, model, group = (np.array([int(level[1:]) for level in factors[name]]) for name in SIZES)
    rows = {
        "a single experiment": exp == 0,
        "a group for each experiment": exp == group,
        # A Latin square: each pair has one observation, and its levels are those of the rest.
        "a cell per pair": (exp + model) % 3 == group,
    }[kind]
    some = {name: levels[rows] for name, levels in factors.items()}
    components = variance_components(values[rows], some)
    assert components.reason == SINGULAR
    assert np.isnan([*components.variances.values(), components.generalisability("model")]).all()


def test_equal_values_have_no_shares():
    components = variance_components(np.ones(60), cells())
    assert [*components.variances.values()] == [0] * 7
    assert np.isnan([*components.shares().values(), components.generalisability("model")]).all()
