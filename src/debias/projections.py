"""Compute projections (docs/methods.md, section 3) and apply them to stimuli and their vectors."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from src.configs import DebiasConfig
from src.debias.phrases import Prompts
from src.errors import InputError
from src.stimuli import IMAGE_ROLES, TEXT_ROLES, Table

# Directions whose singular value is below this fraction of the largest are dropped as rounding errors.
MIN_RELATIVE_SINGULAR_VALUE = 1e-6
# A unit vector whose projection has a norm below this contains only float32 rounding errors.
MIN_NORM = 1e-6
# Value of `debias.side` (besides "both") -> roles whose vectors are projected.
ROLES_BY_SIDE = {"texts": (*TEXT_ROLES, "prompts"), "images": IMAGE_ROLES}


def select_projected_roles(config: DebiasConfig) -> frozenset[str]:
    """Return the roles whose vectors a method projects; empty if it projects nothing."""
    if not config.spurious:
        return frozenset()
    return frozenset(
        role for side, roles in ROLES_BY_SIDE.items() if config.side in (side, "both") for role in roles
    )


def compute_projection(
    config: DebiasConfig, prompts: Prompts, vectors: Float[Tensor, "n width"]
) -> Float[Tensor, "width width"]:
    """Compute the projection matrix P of a debiasing method, x' = P x; return it as float64, [D, D].

    P0 = I - M M⁺ removes the span of the spurious prompts, the columns of M. Without pairs, P = P0. With
    pairs S, P is the unique minimum of ‖P - P0‖²_F + λ/|S| Σ ‖P z‖² over the differences z of the pairs
    (Chuang et al. 2023), at which the gradient 2 (P - P0) + 2 λ/|S| P Σ z zᵀ is zero:
    P = P0 (I + λ/|S| Σ z zᵀ)⁻¹. `vectors` has a row per sentence of `prompts.table`, finite and not zero.

    Raises:
        InputError: there are more spurious prompts than dimensions D.
    """
    width, count = vectors.shape[1], len(prompts.spurious)
    if width < count:
        raise InputError(
            f"debias={config.name}: the directions of {count} prompts cannot be removed from vectors of "
            f"width {width}. Choose a model of a larger width, or fewer groups."
        )
    rows = {sentence: row for row, sentence in enumerate(prompts.table.frame["sentence"])}
    unit = torch.nn.functional.normalize(vectors.double(), dim=-1)
    # M M⁺ follows from the left singular vectors: the pseudo-inverse would divide by small singular values.
    columns = unit[[rows[sentence] for sentence in prompts.spurious]].T
    left_vectors, singular_values, _ = torch.linalg.svd(columns, full_matrices=False)
    basis = left_vectors[:, singular_values > MIN_RELATIVE_SINGULAR_VALUE * singular_values.max()]
    identity = torch.eye(width, dtype=torch.float64)
    uncalibrated: Tensor = identity - basis @ basis.T
    if not prompts.pairs:
        return uncalibrated
    first, second = ([rows[a] for a, _ in prompts.pairs], [rows[b] for _, b in prompts.pairs])
    differences = unit[first] - unit[second]
    calibration = identity + config.strength / len(differences) * differences.T @ differences
    # Both are symmetric: the transposed solution of calibration · X = P0 is P0 · calibration⁻¹.
    calibrated: Tensor = torch.linalg.solve(calibration, uncalibrated).T
    return calibrated


def project(
    table: Table, vectors: Float[Tensor, "n *q width"], projection: Float[Tensor, "width width"]
) -> tuple[Table, Float[Tensor, "m *q width"], list[str]]:
    """Project the vectors of stimuli, x' = P x, normalise them, and remove stimuli whose vectors vanish.

    A vector vanishes if the norm of P x is below `MIN_NORM`. A word or label is removed with all its
    sentences, so that each word occurs in every template; an image is removed if any of its vectors vanishes.

    Returns:
        Table and vectors of the remaining stimuli, and notes on removed stimuli. Vectors are float64, as
        rounding to float32 would break ties between cosines at random.

    Raises:
        InputError: the widths differ, or all stimuli vanish, or a prompt (audits need all prompts).
    """
    if vectors.shape[-1] != len(projection):
        raise InputError(
            f"{table.role}: expected vectors of width {len(projection)}, as the prompts have, got width "
            f"{vectors.shape[-1]}. Use vectors of the same model."
        )
    projected = vectors.double() @ projection.double().T
    norms = projected.norm(dim=-1, keepdim=True)
    is_removed = (norms < MIN_NORM).flatten(1).any(dim=1)
    if table.role in TEXT_ROLES and is_removed.any():
        words = table.frame["word"]
        is_removed = torch.tensor(words.isin(words[is_removed.numpy()]).to_numpy())
    projected /= norms
    if not is_removed.any():
        return table, projected, []
    is_remaining = ~is_removed
    remaining_table = replace(table, frame=table.frame[is_remaining.numpy()].reset_index(drop=True))
    column = "word" if table.role in TEXT_ROLES else "id"
    first = table.frame[column][is_removed.numpy()].iloc[0]
    if table.role == "prompts":
        raise InputError(
            f"prompts: the projection removes {first!r} completely. Leave it out of the texts of "
            "the experiment (such as exp.sets, taxonomy or classes), or choose another debias."
        )
    if not remaining_table.n_items:
        raise InputError(
            f"{table.role}: the projection removes all {table.n_items} completely. Choose a model of a "
            "larger width, or another debias."
        )
    counts = f"{table.n_items - remaining_table.n_items} of {table.n_items} {table.role}"
    note = f"{counts} removed, first {first!r}: their vectors vanish under the projection"
    return replace(remaining_table, notes=(*table.notes, note)), projected[is_remaining], [note]
