"""Check eta squared, least squares and averaged orders of entry against brute force and properties."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from src.metrics import average_orders, draw_orders, fit_coefficients, permuted_eta_squared, permuted_spearman


def draw_data(seed, count=14, numbers=2, categories=3):
    """Draw a design of numbers and a category's columns, the predictor of each column, and an outcome."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % categories
    design = np.hstack([rng.normal(size=(count, numbers)), np.eye(categories)[labels][:, 1:]])
    predictors = np.array([*range(numbers), *[numbers] * (categories - 1)])
    return design, predictors, rng.normal(size=count) + design[:, 0] + labels


def compute_r2(columns, outcome):
    design = np.column_stack([np.ones(len(outcome)), columns])
    fitted = design @ np.linalg.lstsq(design, outcome, rcond=None)[0]
    return 1 - ((outcome - fitted) ** 2).sum() / ((outcome - outcome.mean()) ** 2).sum()


def enumerate_orders(design, predictors, outcome):
    """Enter predictors in each order, one after the other; return the mean of what each adds to R²."""
    count = predictors.max() + 1
    added = np.zeros(count)
    orders = [*itertools.permutations(range(count))]
    for order in orders:
        entered, before = [], 0.0
        for predictor in order:
            entered.append(predictor)
            after = compute_r2(design[:, np.isin(predictors, entered)], outcome)
            added[predictor] += (after - before) / len(orders)
            before = after
    return added


def all_units(outcome):
    return np.ones((1, len(outcome)), dtype=bool)


@pytest.mark.parametrize(("numbers", "categories"), [(1, 2), (2, 3), (3, 4)])
def test_shares_are_those_of_all_orders(numbers, categories):
    design, predictors, outcome = draw_data(numbers, numbers=numbers, categories=categories)
    masks = np.concatenate([all_units(outcome), ~np.eye(len(outcome), dtype=bool)])
    shares = average_orders(design, predictors, np.stack([outcome, -2 * outcome[::-1]], axis=1), masks)
    for mask, (first, second) in zip(masks, shares, strict=True):
        expected = enumerate_orders(design[mask], predictors, outcome[mask])
        assert first == pytest.approx(expected, abs=1e-12)
        expected = enumerate_orders(design[mask], predictors, outcome[::-1][mask])
        assert second == pytest.approx(expected, abs=1e-12)


def test_coefficients_are_those_of_lstsq():
    design, _, outcome = draw_data(3)
    masks = np.concatenate([all_units(outcome), ~np.eye(len(outcome), dtype=bool)])
    for mask, coefficients in zip(masks, fit_coefficients(design, outcome, masks), strict=True):
        columns = np.column_stack([np.ones(mask.sum()), design[mask]])
        expected = np.linalg.lstsq(columns, outcome[mask], rcond=None)[0][1:]
        assert coefficients == pytest.approx(expected, abs=1e-12)
    line = stats.linregress(design[:, 0], outcome)
    assert fit_coefficients(design[:, :1], outcome, masks)[0] == pytest.approx(line.slope)


@given(
    seed=st.integers(0, 10_000),
    numbers=st.integers(1, 3),
    scale=st.floats(1e-3, 1e3),
    shift=st.floats(-1e3, 1e3),
)
def test_shares_sum_to_r2_and_do_not_depend_on_units(seed, numbers, scale, shift):
    design, predictors, outcome = draw_data(seed, numbers=numbers)
    mask = all_units(outcome)
    shares = average_orders(design, predictors, outcome[:, None], mask)[0, 0]
    assert shares.sum() == pytest.approx(compute_r2(design, outcome))
    assert (shares >= -1e-12).all()
    rescaled = design.copy()
    rescaled[:, 0] = rescaled[:, 0] * scale + shift
    for columns, values in ((rescaled, outcome), (design, scale * outcome + shift)):
        again = average_orders(columns, predictors, values[:, None], mask)[0, 0]
        assert again == pytest.approx(shares, abs=1e-6)
    order = np.random.default_rng(seed).permutation(len(outcome))
    again = average_orders(design[order], predictors, outcome[order, None], mask)[0, 0]
    assert again == pytest.approx(shares, abs=1e-9)
    # Other values of a predictor's columns that span the same space.
    rotated = design.copy()
    rotated[:, -2:] = design[:, -2:] @ [[1.0, 2.0], [0.5, -1.0]]
    again = average_orders(rotated, predictors, outcome[:, None], mask)[0, 0]
    assert again == pytest.approx(shares, abs=1e-9)


def test_an_orthogonal_predictor_explains_its_squared_correlation():
    x = np.array([-1.0, -1, 1, 1, -1, -1, 1, 1])
    z = np.array([-1.0, 1, -1, 1, -1, 1, -1, 1])
    y = 2 * x + z + np.array([0.5, 0.1, -0.3, 0, 0, 0.2, -0.1, 0.4])
    shares = average_orders(np.column_stack([x, z]), np.array([0, 1]), y[:, None], all_units(y))[0, 0]
    assert shares == pytest.approx([np.corrcoef(each, y)[0, 1] ** 2 for each in (x, z)])


def test_what_is_not_identified_is_undefined():
    design, predictors, outcome = draw_data(4)
    collinear = np.column_stack([design[:, 0], design[:, 0] * 1000 + 7])
    mask = all_units(outcome)
    assert np.isnan(fit_coefficients(collinear, outcome, mask)).all()
    assert np.isnan(average_orders(collinear, np.array([0, 1]), outcome[:, None], mask)).all()
    # Constant within a subsample only: the other subsample is defined.
    flag = (np.arange(len(outcome)) == 0).astype(float)
    masks = np.stack([mask[0], flag == 0])
    assert np.isnan(fit_coefficients(flag[:, None], outcome, masks))[:, 0].tolist() == [False, True]
    # An outcome that is constant in a subsample, or everywhere, has no variance to explain.
    values = np.random.default_rng(0).normal(size=(2, 50))
    outliers = np.where(flag[:, None] == 1, values[0], values[1])
    undefined = np.isnan(average_orders(design[:, :1], np.array([0]), outliers, masks))
    assert (undefined[:, :, 0] == [[False], [True]]).all()
    constant = np.full((len(outcome), 1), 0.1)
    assert np.isnan(average_orders(design, predictors, constant, mask)).all()


def test_eta_squared_is_that_of_anova_and_its_p_of_all_permutations():
    values, categories = np.array([3.0, 1, 4, 1, 5, 9]), np.array([*"aabbca"])

    def between(order):
        groups = [order[categories == name] for name in "abc"]
        return sum(len(group) * (group.mean() - order.mean()) ** 2 for group in groups)

    total = ((values - values.mean()) ** 2).sum()
    share, p = permuted_eta_squared(values, categories, seed=0)
    assert share == pytest.approx(between(values) / total)
    shares = [between(np.array(order)) / total for order in itertools.permutations(values)]
    assert p == np.mean(np.array(shares) >= share - 1e-9)
    assert np.mean(shares) == pytest.approx((3 - 1) / (6 - 1))
    # With two categories, the share is the squared correlation with membership.
    share, _ = permuted_eta_squared(values, categories == "a", seed=0)
    assert share == pytest.approx(np.corrcoef(values, categories == "a")[0, 1] ** 2)
    assert np.isnan(permuted_eta_squared([1, 1, 1, 1], [*"aabb"], seed=0)).all()


def test_orders_are_all_or_random_ones_and_the_observed():
    assert len(draw_orders(7, 0)) == 5040
    orders = draw_orders(8, 0)
    assert orders.shape == (10_001, 8)
    assert orders[0].tolist() == [*range(8)]
    assert (np.sort(orders, axis=1) == np.arange(8)).all()
    assert (draw_orders(8, 0) == orders).all()
    assert (draw_orders(8, 1) != orders).any()


@pytest.mark.thorough
def test_p_is_uniform_on_noise():
    rng = np.random.default_rng(0)
    categories = np.repeat([*"abcd"], 3)
    p_values = []
    for _ in range(400):
        values, x = rng.normal(size=(2, 12))
        p_values.append([permuted_eta_squared(values, categories, 0)[1], permuted_spearman(x, values, 0)[1]])
    for p in np.array(p_values).T:
        assert stats.kstest(p, "uniform").pvalue > 0.001
