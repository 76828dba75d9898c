"""Check the number of models and the minimum detectable effect against powers of the tests."""

import numpy as np
import pytest
from scipy import stats

from src.metrics.power import detectable, models_needed


def test_models_needed_are_those_of_the_normal_approximation():
    assert [models_needed(rho) for rho in (0.48, 0.7, -0.7, 0.3)] == [32, 14, 14, 85]
    for rho in (0.2, 0.5, 0.9):
        power = [
            stats.norm.sf(1.96 - np.sqrt(n - 3) * np.arctanh(rho))
            for n in (models_needed(rho), models_needed(rho) - 1)
        ]
        assert power[1] < 0.8 <= power[0] + 0.001


@pytest.mark.parametrize("df", [4, 9, 99])
def test_the_detectable_effect_has_a_power_of_80_percent(df):
    power = stats.nct.sf(stats.t.ppf(0.975, df), df, detectable(1.0, df))
    assert power == pytest.approx(0.8, abs=0.025)
    assert detectable(0.3, df) == pytest.approx(0.3 * detectable(1.0, df))
    assert detectable(1.0) == pytest.approx(2.8, abs=0.002)
