"""Check reliabilities and corrected correlations against simulated tests whose truth is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.metrics import disattenuate, noise_ceiling, spearman_brown

RELIABILITIES = st.floats(0.01, 1)


def test_a_test_of_both_halves_has_the_reliability_of_spearman_and_brown():
    rng = np.random.default_rng(0)
    truth, errors = rng.normal(size=(1, 200_000)), rng.normal(size=(4, 200_000))
    halves = truth + errors
    half = np.corrcoef(halves[:2])[0, 1]
    repetition = np.corrcoef(halves[:2].sum(axis=0), halves[2:].sum(axis=0))[0, 1]
    assert float(spearman_brown(half)) == pytest.approx(repetition, abs=0.005)


def test_a_corrected_correlation_is_that_of_the_true_scores():
    rng = np.random.default_rng(1)
    x, y = rng.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], 200_000).T
    xs, ys = x + rng.normal(size=(2, len(x))), y + 0.5 * rng.normal(size=(2, len(x)))
    reliabilities = np.corrcoef(xs)[0, 1], np.corrcoef(ys)[0, 1]
    across = np.corrcoef(xs[0], ys[1])[0, 1]
    assert across == pytest.approx(0.6 * np.sqrt(0.5 * 0.8), abs=0.01)
    assert float(disattenuate(across, *reliabilities)) == pytest.approx(0.6, abs=0.01)


@given(RELIABILITIES, RELIABILITIES, st.floats(-1, 1))
def test_a_correction_inverts_the_attenuation(first, second, rho):
    ceiling = float(noise_ceiling(first, second))
    assert ceiling == pytest.approx((first * second) ** 0.5)
    assert float(disattenuate(rho * ceiling, first, second)) == pytest.approx(rho)
    assert float(noise_ceiling(second, first)) == ceiling


def test_undefined_values():
    assert np.isnan(spearman_brown([-1.0, np.nan])).all()
    assert spearman_brown(-0.5) == -2
    assert np.isnan(noise_ceiling([0, -0.1, 0.5, np.nan], [0.5, -0.1, 0, 0.5])).all()
    assert np.isnan(disattenuate(0.5, -0.1, 0.5))
