"""SC-EAT as intrinsic measure (docs/methods.md, section 1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from src.configs import ProtocolConfig
from src.metrics import factors, sc_eats, sc_eats_by
from src.studies.propagation.measures import IntrinsicMeasure, Sums

# A variance below this share of the mean square is rounding.
FLAT = 1e-12


def score(near: Tensor, a: Sequence[np.ndarray], b: np.ndarray, protocol: ProtocolConfig) -> Tensor:
    """Return effect sizes [N, S]; NaN where all of a target's similarities with A and B are equal."""
    return sc_eats(near, a, b, protocol.ddof)


def by_sums(sums: Sums, protocol: ProtocolConfig) -> Tensor:
    """Return effect sizes [R, N] from sums; NaN where a deviation is 0."""
    n, squares = sums.n_a + sums.n_b, sums.squares()
    spread = squares - (sums.to_a + sums.to_b).square() / n
    spread = spread.masked_fill(spread <= FLAT * squares, torch.nan)
    return (sums.to_a / sums.n_a - sums.to_b / sums.n_b) / (spread / (n - protocol.ddof)).sqrt()


def by_vectors(
    items: Tensor, a: Sequence[np.ndarray], b: Sequence[np.ndarray], protocol: ProtocolConfig
) -> Callable[[Tensor], Tensor]:
    """Return the QR shortcut: deviations of similarities that are not computed."""
    return partial(sc_eats_by, known=factors(items, a, b, protocol.ddof))


SC_EAT = IntrinsicMeasure(
    label="SC-EAT effect size",
    score=score,
    by_sums=by_sums,
    by_vectors=by_vectors,
    fields=frozenset({"ddof"}),
    undefined="no effect size (zero deviation)",
    metric="effect_size",
)
