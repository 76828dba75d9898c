"""Compute projections (docs/methods.md, section 3) and apply them to stimuli and their vectors."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from src.configs import DebiasConfig
from src.debias.phrases import Prompts
from src.errors import InputError
from src.stimuli import IMAGE_ROLES, TEXT_ROLES, Table

# Singular values below this share of the largest are rounding errors: their directions are dropped.
MIN_RELATIVE_VALUE = 1e-6
# A projected unit vector with a norm below this holds only float32 rounding errors.
MIN_NORM = 1e-6
# Value of `debias.side` (besides "both") -> roles whose vectors are projected.
SIDES = {"texts": (*TEXT_ROLES, "prompts"), "images": IMAGE_ROLES}


def projected_roles(config: DebiasConfig) -> frozenset[str]:
    """Return the roles whose vectors a method projects; none where it projects nothing."""
    if not config.spurious:
        return frozenset()
    return frozenset(role for side, roles in SIDES.items() if config.side in (side, "both") for role in roles)


def projection(
    config: DebiasConfig, prompts: Prompts, vectors: Float[Tensor, "n width"]
) -> Float[Tensor, "width width"]:
    """Compute the matrix P of a method, [D, D] in float64, x' = P x; without pairs it is symmetric.

    P0 = I - M M⁺ removes the span of the spurious prompts, the columns of M. Calibrated, P is the unique
    minimum of ‖P - P0‖²_F + λ/|S| Σ ‖P z‖² over the differences z of the pairs in S (Chuang et
    al. 2023): its gradient 2 (P - P0) + 2 λ/|S| P Σ z zᵀ is zero at P0 (I + λ/|S| Σ z zᵀ)⁻¹.
    `vectors` are those of `prompts.table`, in its order, finite and of nonzero length.

    Raises:
        InputError: there are more spurious prompts than dimensions.
    """
    width, count = vectors.shape[1], len(prompts.spurious)
    if width < count:
        raise InputError(
            f"debias={config.name}: vectors of width {width} have no room for the directions of {count} "
            "prompts. Choose a model of a larger width, or fewer groups."
        )
    rows = {sentence: row for row, sentence in enumerate(prompts.table.frame["sentence"])}
    unit = torch.nn.functional.normalize(vectors.double(), dim=-1)
    # M M⁺ from the left singular vectors only: the pseudo-inverse would divide by small values.
    columns = unit[[rows[sentence] for sentence in prompts.spurious]].T
    left, values, _ = torch.linalg.svd(columns, full_matrices=False)
    basis = left[:, values > MIN_RELATIVE_VALUE * values.max()]
    identity = torch.eye(width, dtype=torch.float64)
    uncalibrated: Tensor = identity - basis @ basis.T
    if not prompts.pairs:
        return uncalibrated
    first, second = ([rows[a] for a, _ in prompts.pairs], [rows[b] for _, b in prompts.pairs])
    z = unit[first] - unit[second]
    calibration = identity + config.strength / len(z) * z.T @ z
    # Both are symmetric: the transposed solution of calibration · X = P0 is P0 · calibration⁻¹.
    calibrated: Tensor = torch.linalg.solve(calibration, uncalibrated).T
    return calibrated


def project(
    table: Table, vectors: Float[Tensor, "n *q width"], projection: Float[Tensor, "width width"]
) -> tuple[Table, Float[Tensor, "m *q width"], list[str]]:
    """Project stimuli and their vectors, x' = P x, and normalise them again.

    A stimulus is removed where the norm of P x is below 1e-6: words and labels with all their sentences, so
    that each word occurs in every template; an image if any of its vectors vanishes.

    Returns:
        Table and vectors of the remaining stimuli, in float64 (in float32, equal cosines would differ by
        rounding and ties be broken at random), and notes on the removed stimuli.

    Raises:
        InputError: the widths differ, nothing remains of any stimulus, or nothing of a prompt, since an audit
            needs all of its prompts.
    """
    if vectors.shape[-1] != len(projection):
        raise InputError(
            f"{table.role} have vectors of width {vectors.shape[-1]}, the prompts of width "
            f"{len(projection)}. Use vectors of the same model."
        )
    projected = vectors.double() @ projection.double().T
    norms = projected.norm(dim=-1, keepdim=True)
    removed = (norms < MIN_NORM).flatten(1).any(dim=1)
    if table.role in TEXT_ROLES and removed.any():
        words = table.frame["word"]
        removed = torch.tensor(words.isin(words[removed.numpy()]).to_numpy())
    projected /= norms
    if not removed.any():
        return table, projected, []
    remains = ~removed
    remaining = replace(table, frame=table.frame[remains.numpy()].reset_index(drop=True))
    column = "word" if table.role in TEXT_ROLES else "id"
    first = table.frame[column][removed.numpy()].iloc[0]
    if table.role == "prompts":
        raise InputError(
            f"prompts: nothing is left of {first!r} after the projection, which removes its direction. "
            "Leave its word out of exp.sets, or choose another debias."
        )
    if not remaining.items:
        raise InputError(
            f"{table.role}: nothing is left of any of {table.items} after the projection. "
            "Choose a model of a larger width, or another debias."
        )
    counts = f"{table.items - remaining.items} of {table.items} {table.role}"
    note = f"{counts} removed, first {first!r}: the projection leaves nothing of them"
    return replace(remaining, notes=(*table.notes, note)), projected[remains], [note]
