"""Measure the association of captions with groups of faces (docs/methods.md, section 4)."""

from collections.abc import Iterator

import numpy as np
from torch import Tensor

from src import metrics
from src.configs import ProtocolConfig
from src.studies.shared.resampling import generator
from src.studies.sobit.axes import Axis, Faces
from src.studies.sobit.prompts import cosines

# Maximum numbers of standardised cosines in memory and of permuted labels in an array, 4 bytes each.
MAX_COSINES, MAX_LABELS = 4 * 10**7, 10**7
# Number of bootstrap draws that are converted to associations at a time.
DRAW_CHUNK = 500
# Differences below this count as ties: associations with permuted labels are float32.
TOLERANCE = 1e-5
# Random stream of the permutations; bootstrap draws use stream 0.
PERMUTED = 1


def associations(
    faces: Faces, face_vectors: Tensor, caption_vectors: Tensor, protocol: ProtocolConfig, seed: int
) -> dict[str, np.ndarray]:
    """Compute the association of each caption with each group.

    Returns:
        [captions W, groups of all axes] each: `association` with its 95% bootstrap interval,
        `association_low` to `association_high`; `p`, corrected over the groups of the axis, and `null_q95`,
        NaN without permutations. `largest`: [W, axes, draws], float32, bootstrap of the largest absolute
        association of each axis.
    """
    step = max(1, MAX_COSINES // len(face_vectors))
    parts = []
    for start in range(0, len(caption_vectors), step):
        observed, standardised = _observed(faces, face_vectors, caption_vectors[start : start + step])
        drawn = _resampled(standardised, faces, protocol.bootstrap, seed)
        p_and_q95 = _against_null(standardised, observed, faces, protocol.permutations, seed)
        parts.append((observed, *_interval(drawn), *p_and_q95, _largest(drawn, faces.axes)))
    names = ("association", "association_low", "association_high", "p", "null_q95", "largest")
    return dict(zip(names, map(np.concatenate, zip(*parts, strict=True)), strict=True))


def _observed(faces: Faces, face_vectors: Tensor, caption_vectors: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Compute associations, [W, groups], and standardised cosines in float32, [W, N].

    Draws use float32: its rounding error in sums over all faces is about a millionth.
    """
    members = faces.members[faces.cell]
    observed = np.empty((len(caption_vectors), members.shape[1]))
    all_standardised = np.empty((len(caption_vectors), len(face_vectors)), dtype=np.float32)
    for chosen, block in cosines(caption_vectors, face_vectors):
        standardised = metrics.standardised(block)
        observed[chosen] = standardised @ members * metrics.association_factors(members)
        all_standardised[chosen] = standardised
    return observed, all_standardised


def largest_association(faces: Faces, face_vectors: Tensor, caption_vectors: Tensor) -> np.ndarray:
    """Compute the largest absolute association of each caption per axis, [W, axes], without draws."""
    members = faces.members[faces.cell]
    blocks = (metrics.group_association(x, members) for _, x in cosines(caption_vectors, face_vectors))
    magnitudes = np.abs(np.concatenate([np.empty((0, members.shape[1])), *blocks]))
    return np.stack([magnitudes[:, axis.place].max(axis=1) for axis in faces.axes], axis=1)


def _against_null(
    standardised: np.ndarray, observed: np.ndarray, faces: Faces, draws: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Compute `p` and `null_q95` of each association; NaN without permutations."""
    p, q95 = np.full_like(observed, np.nan), np.full_like(observed, np.nan)
    if not draws:
        return p, q95
    groups = [axis.members for axis in faces.axes]
    blocks = (
        metrics.permuted_association(standardised, cells, groups) for cells in _permuted(faces, draws, seed)
    )
    null = [np.concatenate(parts) for parts in zip(*blocks, strict=True)]
    for axis, drawn in zip(faces.axes, null, strict=True):
        error = np.sqrt(1 / axis.sizes + 1 / (len(faces.cell) - axis.sizes))  # standard error of C
        exceeds = drawn[:, :, None] >= np.abs(observed[:, axis.place]) / error - TOLERANCE
        p[:, axis.place] = (1 + exceeds.sum(axis=0)) / (1 + draws)
        q95[:, axis.place] = np.quantile(drawn, 0.95, axis=0)[:, None] * error
    undefined = np.isnan(observed)
    p[undefined] = q95[undefined] = np.nan
    return p, q95


def _permuted(faces: Faces, draws: int, seed: int) -> Iterator[np.ndarray]:
    """Yield blocks of permuted cells, [block, N]; the same at every call."""
    rng = generator(faces.ids, seed, PERMUTED)
    step = max(1, MAX_LABELS // (len(faces.cell) * len(faces.cells)))
    cells = faces.cell.astype(np.int16)
    for start in range(0, draws, step):
        yield rng.permuted(np.broadcast_to(cells, (min(step, draws - start), len(cells))), axis=1)


def _resampled(standardised: np.ndarray, faces: Faces, draws: int, seed: int) -> np.ndarray:
    """Compute associations of bootstrap samples, [draws, W, groups]; NaN where a group has no face."""
    count = np.empty((len(faces.cells), draws), dtype=np.float32)
    total = np.empty((*count.shape, len(standardised)), dtype=np.float32)
    squared = np.zeros(total.shape[1:], dtype=np.float32)
    for cell, (rows, drawn) in enumerate(faces.weights(draws, seed)):
        cell_cosines, draw_weights = standardised[:, rows].T, drawn.astype(np.float32)
        count[cell], total[cell] = draw_weights.sum(axis=1), draw_weights @ cell_cosines
        squared += draw_weights @ cell_cosines**2
    resampled = np.empty((draws, len(standardised), faces.members.shape[1]), dtype=np.float32)
    for start in range(0, draws, DRAW_CHUNK):
        block = slice(start, start + DRAW_CHUNK)
        resampled[block] = _from_sums(count[:, block], total[:, block], squared[block], faces.members)
    return resampled


def _from_sums(count: np.ndarray, total: np.ndarray, squared: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Compute associations, [draws, W, groups], from the sums of each cell.

    Sums of weights are [cells, draws], sums of cosines [cells, draws, W].
    """
    face_counts, cosine_sums = count.sum(axis=0)[:, None], total.sum(axis=0)
    inside = np.einsum("cd,cg->dg", count, members)[:, None]
    summed = np.einsum("cdw,cg->dwg", total, members)
    with np.errstate(divide="ignore", invalid="ignore"):
        deviation = np.sqrt((squared - cosine_sums**2 / face_counts) / (face_counts - 1))
        rest = face_counts[:, :, None] - inside
        gap = summed / inside - (cosine_sums[:, :, None] - summed) / rest
        standardised_gap: np.ndarray = gap / deviation[:, :, None]
    return standardised_gap


def _interval(drawn: np.ndarray) -> np.ndarray:
    empty = np.full((2, *drawn.shape[1:]), np.nan)
    return np.apply_along_axis(metrics.interval, 0, drawn) if len(drawn) else empty


def _largest(drawn: np.ndarray, axes: tuple[Axis, ...]) -> np.ndarray:
    magnitudes = np.abs(drawn)
    return np.stack([magnitudes[..., axis.place].max(axis=2).T for axis in axes], axis=1)
