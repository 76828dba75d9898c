"""Check erasers against loops, against a general optimiser, and by their defining properties."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from src.metrics import erasure

WIDTHS = st.integers(3, 9)
SEEDS = st.integers(0, 10**6)


def draw_vectors(seed, count, width):
    rng = np.random.default_rng(seed)
    mixed = rng.normal(size=(count, width)) @ rng.normal(size=(width, width))
    return torch.from_numpy(mixed + rng.normal(size=width))


def basis_of(seed, width, rank):
    return erasure.span(torch.from_numpy(np.random.default_rng([seed, 1]).normal(size=(width, rank))))


def covariance_of(vectors):
    return torch.from_numpy(np.cov(vectors.numpy().T, ddof=0))


@given(SEEDS, WIDTHS, st.integers(1, 3), st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]))
def test_a_projection_is_that_of_loops(seed, width, rank, share):
    x = draw_vectors(seed, 7, width)
    basis = basis_of(seed, width, rank)
    eraser = erasure.projection(basis, x.mean(dim=0), share)
    means = [math.fsum(column) / 7 for column in x.T.tolist()]
    for row, erased in zip(x.tolist(), erasure.erase(x, eraser).tolist(), strict=True):
        expected = list(row)
        for axis in basis.T.tolist():
            component = math.fsum(a * (value - mean) for a, value, mean in zip(axis, row, means, strict=True))
            expected = [value - share * component * a for value, a in zip(expected, axis, strict=True)]
        assert erased == pytest.approx(expected, abs=1e-9)


@given(SEEDS, WIDTHS, st.integers(1, 3))
def test_a_projection_is_idempotent_and_0_of_it_is_the_identity(seed, width, rank):
    x, basis = draw_vectors(seed, 7, width), basis_of(seed, width, rank)
    full = erasure.projection(basis, x.mean(dim=0))
    once = erasure.erase(x, full)
    torch.testing.assert_close(erasure.erase(once, full), once)
    torch.testing.assert_close(once @ basis, (x.mean(dim=0) @ basis).expand(7, -1))
    assert torch.equal(erasure.erase(x, erasure.projection(basis, x.mean(dim=0), 0.0)), x)


def test_the_span_of_dependent_columns_has_their_rank():
    columns = draw_vectors(0, 8, 3)
    basis = erasure.span(torch.cat([columns, columns @ torch.ones(3, 2).double()], dim=1))
    assert basis.shape == (8, 3)
    torch.testing.assert_close(basis.T @ basis, torch.eye(3).double())
    torch.testing.assert_close(basis @ (basis.T @ columns), columns)
    assert erasure.span(torch.zeros(4, 2).double()).shape == (4, 0)


@given(SEEDS, st.integers(4, 9), st.integers(1, 3))
@settings(max_examples=60)
def test_random_subspaces_are_orthogonal_to_the_basis_and_of_equal_variance_or_missing(seed, width, rank):
    covariance = covariance_of(draw_vectors(seed, 30, width))
    basis = basis_of(seed, width, rank)
    variances, axes = erasure.complement(covariance, basis)
    wanted = (basis * (covariance @ basis)).sum(dim=0)
    subspace = erasure.random_subspace(variances, axes, wanted, np.random.default_rng(seed))
    if subspace is None:
        return
    torch.testing.assert_close(subspace.T @ subspace, torch.eye(rank).double(), atol=1e-9, rtol=0)
    torch.testing.assert_close(basis.T @ subspace, torch.zeros(rank, rank).double(), atol=1e-9, rtol=0)
    torch.testing.assert_close((subspace * (covariance @ subspace)).sum(dim=0), wanted, rtol=1e-6, atol=0)


def test_subspaces_of_ordinary_variance_exist_and_are_random():
    variances, axes = torch.linspace(0.1, 3, 20).double(), torch.eye(20).double()
    rngs = map(np.random.default_rng, range(50))
    drawn = [erasure.random_subspace(variances, axes, torch.tensor([1.0, 0.5]), rng) for rng in rngs]
    assert all(each is not None for each in drawn)
    squares = torch.stack(drawn) ** 2
    assert squares.mean(dim=0).amax() < 1 / 2
    assert torch.stack(drawn).mean(dim=0).abs().amax() < 1 / 3


@pytest.mark.parametrize("wanted", [[0.05], [3.1], [2.9, 2.9], [1.0] * 6])
def test_a_variance_out_of_reach_gives_no_subspace(wanted):
    variances, axes = torch.tensor([0.1, 0.5, 1.0, 2.0, 3.0]).double(), torch.eye(5).double()
    assert erasure.random_subspace(variances, axes, torch.tensor(wanted), np.random.default_rng(0)) is None


def test_the_complement_leaves_out_axes_without_variance():
    x = draw_vectors(0, 30, 4)
    x = torch.cat([x, x @ torch.ones(4, 2).double()], dim=1)  # of rank 4
    variances, axes = erasure.complement(covariance_of(x), basis_of(0, 6, 1))
    assert len(variances) == axes.shape[1] == 4
    torch.testing.assert_close(axes.T @ covariance_of(x) @ axes, torch.diag(variances))


def test_a_basis_that_fills_the_space_has_no_complement():
    variances, axes = erasure.complement(covariance_of(draw_vectors(0, 30, 3)), basis_of(0, 3, 3))
    assert (variances.shape, axes.shape) == ((0,), (3, 0))
    assert erasure.random_subspace(variances, axes, torch.ones(3), np.random.default_rng(0)) is None


def groups(count, number):
    return torch.nn.functional.one_hot(torch.arange(count) % number).double()


CONCEPTS = {
    "ratings": lambda rng: torch.from_numpy(rng.normal(size=(40, 1))),
    "groups": lambda _: groups(40, 3),
}


def cross_covariance(x, z):
    return (x - x.mean(dim=0)).T @ (z - z.mean(dim=0)) / len(x)


@pytest.mark.parametrize("concept", CONCEPTS)
@pytest.mark.parametrize("seed", range(3))
def test_leace_is_the_affine_eraser_that_moves_vectors_the_smallest_distance(concept, seed):
    """Solve for the best affine map as a quadratic programme with constraints, without any closed form."""
    rng = np.random.default_rng(seed)
    z = CONCEPTS[concept](rng)
    x = draw_vectors(seed, 40, 4) + z @ torch.from_numpy(rng.normal(size=(z.shape[1], 4)))
    erased = erasure.erase(x, erasure.leace(x, z))
    assert cross_covariance(erased, z).abs().max() < 1e-10

    # Unknowns: the 4 x 5 matrix of x' = M [x, 1]. Minimise the mean of |x - x'|² under cov(x', z) = 0.
    inputs = np.column_stack([x.numpy(), np.ones(40)])
    centred = (z - z.mean(dim=0)).numpy()
    size = 4 * 5
    hessian = np.kron(np.eye(4), inputs.T @ inputs)
    gradient = np.concatenate([inputs.T @ x.numpy()[:, row] for row in range(4)])
    constraints = np.kron(np.eye(4), centred.T @ inputs)
    system = np.block([[hessian, constraints.T], [constraints, np.zeros([len(constraints)] * 2)]])
    solution = np.linalg.lstsq(system, np.concatenate([gradient, np.zeros(len(constraints))]), rcond=None)[0]
    expected = inputs @ solution[:size].reshape(4, 5).T
    np.testing.assert_allclose(erased.numpy(), expected, atol=1e-8)


@pytest.mark.parametrize("concept", CONCEPTS)
def test_after_leace_no_linear_function_tells_the_concept(concept):
    rng = np.random.default_rng(5)
    z = CONCEPTS[concept](rng)
    x = draw_vectors(5, 40, 6) + 3 * z @ torch.from_numpy(rng.normal(size=(z.shape[1], 6)))
    before, after = (
        np.linalg.lstsq(np.column_stack([vectors.numpy(), np.ones(40)]), z.numpy(), rcond=None)[0][:-1]
        for vectors in (x, erasure.erase(x, erasure.leace(x, z)))
    )
    assert np.abs(before).max() > 0.01
    predicted = erasure.erase(x, erasure.leace(x, z)).numpy() @ after
    assert np.ptp(predicted, axis=0).max() < 1e-8


def test_leace_of_fewer_vectors_than_dimensions_removes_the_groups_means():
    x, z = draw_vectors(0, 12, 30), groups(12, 3)
    erased = erasure.erase(x, erasure.leace(x, z))
    for group in range(3):
        torch.testing.assert_close(erased[group::3].mean(dim=0), x.mean(dim=0))


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_remaining_share_and_the_slope_of_proportional_doses(share):
    reference = np.array([0.2, -0.1, 0.4])
    doses = np.array([0.75, 0.5, 0.0])
    values = (share + (1 - share) * doses)[:, None] * reference
    level = erasure.remaining_share(values, reference)
    assert level == pytest.approx(share + (1 - share) * doses)
    assert erasure.dose_slope(doses, level) == pytest.approx(1 - share)
