"""The projections of docs/methods.md, section 3, and what they make of stimuli and their vectors."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from src.configs import DebiasConfig
from src.debias.phrases import Prompts
from src.errors import InputError
from src.stimuli import IMAGE_ROLES, TEXT_ROLES, Table

# Below this share of the largest singular value, prompts tell no direction of their own: rounding does.
CUT = 1e-6
# Below this norm nothing is left of a unit vector but the rounding of float32.
LEAST = 1e-6
SIDES = {"texts": (*TEXT_ROLES, "prompts"), "images": IMAGE_ROLES}


def sides(chosen: DebiasConfig) -> frozenset[str]:
    """Roles whose vectors a method projects; none where it projects nothing."""
    if not chosen.spurious:
        return frozenset()
    return frozenset(role for side, roles in SIDES.items() if chosen.side in (side, "both") for role in roles)


def projection(
    chosen: DebiasConfig, prompts: Prompts, vectors: Float[Tensor, "n width"]
) -> Float[Tensor, "width width"]:
    """The matrix P of a method, x' = P x.

    P0 = I - M M⁺ removes the span of the spurious prompts, the columns of M. Calibrated, it is the one
    minimum of ‖P - P0‖²_F + λ/|S| Σ ‖P z‖² over the differences z of the pairs in S (Chuang et
    al. 2023): its gradient 2 (P - P0) + 2 λ/|S| P Σ z zᵀ is zero at P0 (I + λ/|S| Σ z zᵀ)⁻¹.

    Args:
        chosen: the method; of it, λ.
        prompts: its sentences.
        vectors: of `prompts.table`, in its order; any length but zero.

    Returns:
        [D, D], float64. Without pairs symmetric.

    Raises:
        InputError: a vector holds NaN or infinity, or there are more spurious prompts than dimensions.
        ValueError: the vectors are not the table's.
    """
    _fit(prompts.table, vectors, dimensions=(2,))
    width, count = vectors.shape[1], len(prompts.spurious)
    if width < count:
        raise InputError(
            f"debias={chosen.name}: vectors of width {width} have no room for the directions of {count} "
            "prompts. Take a model of a larger width, or fewer groups."
        )
    rows = {sentence: row for row, sentence in enumerate(prompts.table.frame["sentence"])}
    unit = torch.nn.functional.normalize(vectors.double(), dim=-1)
    plain = _complement(unit[[rows[sentence] for sentence in prompts.spurious]].T)
    if not prompts.pairs:
        return plain
    first, second = ([rows[sentence] for sentence in side] for side in zip(*prompts.pairs, strict=True))
    z = unit[first] - unit[second]
    calibration = torch.eye(width, dtype=torch.float64) + chosen.strength / len(z) * z.T @ z
    # Both are symmetric: the transposed solution of calibration · X = P0 is P0 · calibration⁻¹.
    calibrated: Tensor = torch.linalg.solve(calibration, plain).T
    return calibrated


def _complement(columns: Float[Tensor, "width n"]) -> Float[Tensor, "width width"]:
    # M M⁺ from the left singular vectors alone: the pseudo-inverse itself would divide by small values.
    left, values, _ = torch.linalg.svd(columns, full_matrices=False)
    basis = left[:, values > CUT * values.max()]
    complement: Tensor = torch.eye(len(columns), dtype=torch.float64) - basis @ basis.T
    return complement


def project(
    table: Table, vectors: Float[Tensor, "n *q width"], projection: Float[Tensor, "width width"]
) -> tuple[Table, Float[Tensor, "m *q width"], list[str]]:
    """Stimuli and their vectors after a projection, x' = P x, of unit length again.

    Where the norm of P x is under 1e-6, nothing is left of a stimulus and it leaves: of words and labels
    with all its sentences, for each stands in each template; an image if one of its vectors does.

    Args:
        table: the stimuli.
        vectors: unit vectors in the order of the table, [N, D] or [N, Q, D].
        projection: [D, D].

    Returns:
        The table and the vectors of what stays, in float64 (in float32, equal cosines would differ by
        rounding, and ties be broken by chance); and what there is to say about what left.

    Raises:
        InputError: the widths differ, a vector holds NaN or infinity, nothing is left of any stimulus, or
            nothing of a prompt: an audit without one of its prompts would be another audit.
        ValueError: the vectors are not the table's.
    """
    _fit(table, vectors, dimensions=(2, 3))
    if vectors.shape[-1] != len(projection):
        raise InputError(
            f"{table.role} have vectors of width {vectors.shape[-1]}, the prompts of width "
            f"{len(projection)}. Take both from one model."
        )
    moved = vectors.double() @ projection.double().T
    norms = moved.norm(dim=-1, keepdim=True)
    leaves = _leaves(table, (norms < LEAST).flatten(1).any(dim=1))
    moved /= norms
    if not leaves.any():
        return table, moved, []
    stays = ~leaves
    kept = replace(table, frame=table.frame[stays.numpy()].reset_index(drop=True))
    note = _said(table, kept, leaves)
    return replace(kept, notes=(*table.notes, note)), moved[stays], [note]


def _leaves(table: Table, gone: Bool[Tensor, " n"]) -> Bool[Tensor, " n"]:
    if table.role not in TEXT_ROLES or not gone.any():
        return gone
    words = table.frame["word"]
    return torch.tensor(words.isin(words[gone.numpy()]).to_numpy())


def _said(table: Table, kept: Table, leaves: Bool[Tensor, " n"]) -> str:
    column = "word" if table.role in TEXT_ROLES else "id"
    first = table.frame[column][leaves.numpy()].iloc[0]
    if table.role == "prompts":
        raise InputError(
            f"prompts: nothing is left of {first!r} after the projection, which removes its direction. "
            "Leave its word out of exp.sets, or choose another debias."
        )
    if not kept.items:
        raise InputError(
            f"{table.role}: nothing is left of any of {table.items} after the projection. "
            "Take a model of a larger width, or another debias."
        )
    left = table.items - kept.items
    return (
        f"{left} {table.role} of {table.items} leave, first {first!r}: the projection leaves nothing of them"
    )


def _fit(table: Table, vectors: Tensor, dimensions: tuple[int, ...]) -> None:
    rows = len(table.frame)
    if vectors.ndim not in dimensions or len(vectors) != rows:
        raise ValueError(f"{table.role}: vectors of shape {list(vectors.shape)} for {rows} rows")
    finite = torch.isfinite(vectors).flatten(1).all(dim=1)
    if not finite.all():
        first = table.frame["id"].iloc[int((~finite).nonzero()[0])]
        raise InputError(
            f"{table.role}: {int((~finite).sum())} vectors hold NaN or infinity, first that of {first!r}. "
            "Embed them anew."
        )
