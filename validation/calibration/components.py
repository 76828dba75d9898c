"""Compare variance components with planted ones, where cells are missing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from src.metrics import variance_components
from validation.calibration import bounds
from validation.calibration.bounds import generator

SIZES = {"exp": 4, "model": 8, "group": 6}
CHECKPOINTS = 2
PLANTED = {"exp": 0.25, "model": 1.0, "group": 0.1, "exp:model": 0.25, "exp:group": 0.36}
PLANTED |= {"model:group": 0.09, "rest": 0.25}
# Beside these, of checkpoints, which are nested in their model.
OF_CHECKPOINTS = {"training": 0.2, "exp:training": 0.1, "group:training": 0.05}

Factors = dict[str, np.ndarray]


@dataclass(frozen=True)
class Design:
    """Design of an analysis of variance."""

    name: str  # description of the filled cells
    # (rng, level of each factor in each cell) -> whether the cell is filled.
    is_filled: Callable[[np.random.Generator, Factors], np.ndarray]
    has_checkpoints: bool = False  # whether each model has `CHECKPOINTS`

    @property
    def planted(self) -> dict[str, float]:
        """Return the planted variance of each component."""
        return PLANTED | (OF_CHECKPOINTS if self.has_checkpoints else {})


def designs() -> list[Design]:
    """Return the designs of the worlds."""
    return [
        Design("all cells", lambda _, factors: np.ones(len(factors["exp"]), dtype=bool)),
        Design("15% missing", lambda rng, factors: rng.random(len(factors["exp"])) > 0.15),
        Design("half missing", lambda rng, factors: rng.random(len(factors["exp"])) > 0.5),
        Design("experiments of other groups", _of_other_groups),
        Design("two checkpoints of a model", _of_other_groups, has_checkpoints=True),
    ]


def _of_other_groups(_: np.random.Generator, factors: Factors) -> np.ndarray:
    """Fill the first four groups in half of the experiments, and the last four in the others."""
    return np.where(factors["exp"] < 2, factors["group"] < 4, factors["group"] > 1)


def estimates_of(design: Design, number: int) -> dict[str, float]:
    """Draw the values of a world and estimate its variance components."""
    rng = generator(f"components, {design.name}", number)
    sizes = SIZES | ({"training": CHECKPOINTS} if design.has_checkpoints else {})
    grid = np.indices([*sizes.values()]).reshape(len(sizes), -1)
    factors = dict(zip(sizes, grid, strict=True))
    if design.has_checkpoints:
        factors["training"] = factors["model"] * CHECKPOINTS + factors["training"]
    filled = design.is_filled(rng, factors)
    factors = {name: levels[filled] for name, levels in factors.items()}
    values = np.zeros(filled.sum())
    for name, variance in design.planted.items():
        levels = [factors.get(factor, np.arange(len(values))) for factor in name.split(":")]
        _, cells = np.unique(levels, axis=1, return_inverse=True)
        effects = rng.standard_normal(int(cells.max()) + 1)
        values += np.sqrt(variance) * effects[cells.reshape(-1)]
    return dict(variance_components(values, factors).variances)


def tabulate(measured: Sequence[tuple[Design, Sequence[dict[str, float]]]]) -> pd.DataFrame:
    """Summarise estimates by design and component: their mean must be the planted variance.

    The mean's bounds, `mean_low` and `mean_high`, are the 99.9% interval of Student's t around the planted
    variance.
    """
    rows: list[dict[str, Any]] = []
    for design, estimates in measured:
        frame = pd.DataFrame(estimates)
        count = len(frame)
        for component, planted in design.planted.items():
            mean, sd = frame[component].mean(), frame[component].std(ddof=1)
            half = float(stats.t.ppf((1 + bounds.CERTAINTY) / 2, count - 1)) * sd / np.sqrt(count)
            row = {"world": design.name, "component": component, "worlds": count, "planted": planted}
            row |= {"mean_low": planted - half, "mean_high": planted + half, "mean": mean, "sd": sd}
            rows.append(row | {"holds": bool(abs(mean - planted) <= half)})
    return pd.DataFrame(rows)
