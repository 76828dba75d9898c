"""Define SC-EAT as an intrinsic measure (docs/methods.md, section 1)."""

from functools import partial

import torch
from torch import Tensor

from src.configs import ProtocolConfig
from src.metrics import factorise, sc_eats, sc_eats_qr
from src.studies.propagation.measures import IntrinsicMeasure, Sums

# A sum of squared deviations below this share of the sum of squares is a rounding error.
MIN_RELATIVE_SPREAD = 1e-12


def by_sums(sums: Sums, protocol: ProtocolConfig) -> Tensor:
    """Return effect sizes [R, N] from sums; NaN where the standard deviation is 0."""
    n, squares = sums.n_a + sums.n_b, sums.squares()
    spread = squares - (sums.to_a + sums.to_b).square() / n
    spread = spread.masked_fill(spread <= MIN_RELATIVE_SPREAD * squares, torch.nan)
    return (sums.to_a / sums.n_a - sums.to_b / sums.n_b) / (spread / (n - protocol.ddof)).sqrt()


SC_EAT = IntrinsicMeasure(
    label="SC-EAT effect size",
    score=lambda similarities, a, b, protocol: sc_eats(similarities, a, b, protocol.ddof),
    by_sums=by_sums,
    # The QR shortcut needs no similarities.
    by_vectors=lambda x, a, b, protocol: partial(sc_eats_qr, factors=factorise(x, a, b, protocol.ddof)),
    fields=frozenset({"ddof"}),
    undefined="no effect size (zero deviation)",
    metric="effect_size",
)
