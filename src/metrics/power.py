"""Compute how many models or how large an effect a test needs for a power of 80%."""

import math

from scipy import special

ALPHA, POWER = 0.05, 0.8
# Sum of the normal quantiles of a two-sided test at 5% and of a power of 80%.
QUANTILE_SUM = 2.80


def models_needed(rho: float) -> int:
    """Compute the number of independent models needed to detect a correlation over models (Fisher's z).

    Args:
        rho: correlation over models, not 0.

    >>> models_needed(0.48), models_needed(0.7)
    (32, 14)
    """
    return math.ceil(3 + (QUANTILE_SUM / math.atanh(abs(rho))) ** 2)


def detectable(error: float, df: float = math.inf) -> float:
    """Compute the minimum detectable effect of a two-sided t-test: (t_.975 + t_.80) standard errors.

    Args:
        error: standard error of the estimate.
        df: degrees of freedom of the standard error; infinity stands for normal quantiles.

    >>> round(detectable(1.0, 9), 3), round(detectable(1.0), 2)
    (3.146, 2.8)
    """
    quantiles = (1 - ALPHA / 2, POWER)
    if math.isinf(df):
        return error * sum(float(special.ndtri(q)) for q in quantiles)
    return error * sum(float(special.stdtrit(df, q)) for q in quantiles)
