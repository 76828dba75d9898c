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
PERMUTATION_STREAM = 1


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
    chunks = []
    for start in range(0, len(caption_vectors), step):
        observed, standardised = _associate(faces, face_vectors, caption_vectors[start : start + step])
        resampled = _resample(standardised, faces, protocol.bootstrap, seed)
        p_and_q95 = _null_tests(standardised, observed, faces, protocol.permutations, seed)
        chunks.append((observed, *_intervals(resampled), *p_and_q95, _largest(resampled, faces.axes)))
    names = ("association", "association_low", "association_high", "p", "null_q95", "largest")
    return dict(zip(names, map(np.concatenate, zip(*chunks, strict=True)), strict=True))


def _associate(faces: Faces, face_vectors: Tensor, caption_vectors: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Compute associations, [W, groups], and standardised cosines in float32, [W, N].

    Draws use float32: its rounding error in sums over all faces is about a millionth.
    """
    members = faces.members[faces.cell]
    observed = np.empty((len(caption_vectors), members.shape[1]))
    all_standardised = np.empty((len(caption_vectors), len(face_vectors)), dtype=np.float32)
    for rows, block in cosines(caption_vectors, face_vectors):
        standardised = metrics.standardise(block)
        observed[rows] = standardised @ members * metrics.association_factors(members)
        all_standardised[rows] = standardised
    return observed, all_standardised


def largest_association(faces: Faces, face_vectors: Tensor, caption_vectors: Tensor) -> np.ndarray:
    """Compute the largest absolute association of each caption per axis, [W, axes], without draws."""
    members = faces.members[faces.cell]
    blocks = (metrics.group_association(x, members) for _, x in cosines(caption_vectors, face_vectors))
    magnitudes = np.abs(np.concatenate([np.empty((0, members.shape[1])), *blocks]))
    return np.stack([magnitudes[:, axis.columns].max(axis=1) for axis in faces.axes], axis=1)


def _null_tests(
    standardised: np.ndarray, observed: np.ndarray, faces: Faces, draws: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Compute `p` and `null_q95` of each association; NaN without permutations."""
    p, q95 = np.full_like(observed, np.nan), np.full_like(observed, np.nan)
    if not draws:
        return p, q95
    groups = [axis.members for axis in faces.axes]
    blocks = (
        metrics.permuted_association(standardised, cells, groups) for cells in _permute(faces, draws, seed)
    )
    nulls = [np.concatenate(axis_blocks) for axis_blocks in zip(*blocks, strict=True)]
    for axis, axis_null in zip(faces.axes, nulls, strict=True):
        error = np.sqrt(1 / axis.sizes + 1 / (len(faces.cell) - axis.sizes))  # standard error of C
        exceeds = axis_null[:, :, None] >= np.abs(observed[:, axis.columns]) / error - TOLERANCE
        p[:, axis.columns] = (1 + exceeds.sum(axis=0)) / (1 + draws)
        q95[:, axis.columns] = np.quantile(axis_null, 0.95, axis=0)[:, None] * error
    undefined = np.isnan(observed)
    p[undefined] = q95[undefined] = np.nan
    return p, q95


def _permute(faces: Faces, draws: int, seed: int) -> Iterator[np.ndarray]:
    """Yield blocks of permuted cells, [block, N]; the same at every call."""
    rng = generator(faces.ids, seed, PERMUTATION_STREAM)
    step = max(1, MAX_LABELS // (len(faces.cell) * len(faces.cells)))
    cells = faces.cell.astype(np.int16)
    for start in range(0, draws, step):
        yield rng.permuted(np.broadcast_to(cells, (min(step, draws - start), len(cells))), axis=1)


def _resample(standardised: np.ndarray, faces: Faces, draws: int, seed: int) -> np.ndarray:
    """Compute associations of bootstrap samples, [draws, W, groups]; NaN where a group has no face."""
    counts = np.empty((len(faces.cells), draws), dtype=np.float32)
    sums = np.empty((*counts.shape, len(standardised)), dtype=np.float32)
    squares = np.zeros(sums.shape[1:], dtype=np.float32)
    for cell, (rows, cell_weights) in enumerate(faces.weights(draws, seed)):
        cell_cosines, draw_weights = standardised[:, rows].T, cell_weights.astype(np.float32)
        counts[cell], sums[cell] = draw_weights.sum(axis=1), draw_weights @ cell_cosines
        squares += draw_weights @ cell_cosines**2
    resampled = np.empty((draws, len(standardised), faces.members.shape[1]), dtype=np.float32)
    for start in range(0, draws, DRAW_CHUNK):
        block = slice(start, start + DRAW_CHUNK)
        resampled[block] = _from_sums(counts[:, block], sums[:, block], squares[block], faces.members)
    return resampled


def _from_sums(counts: np.ndarray, sums: np.ndarray, squares: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Compute associations, [draws, W, groups], from the sums of each cell.

    Sums of weights are [cells, draws], sums of cosines [cells, draws, W].
    """
    face_counts, cosine_sums = counts.sum(axis=0)[:, None], sums.sum(axis=0)
    group_counts = np.einsum("cd,cg->dg", counts, members)[:, None]
    group_sums = np.einsum("cdw,cg->dwg", sums, members)
    with np.errstate(divide="ignore", invalid="ignore"):
        deviation = np.sqrt((squares - cosine_sums**2 / face_counts) / (face_counts - 1))
        other_counts = face_counts[:, :, None] - group_counts
        difference = group_sums / group_counts - (cosine_sums[:, :, None] - group_sums) / other_counts
        standardised: np.ndarray = difference / deviation[:, :, None]
    return standardised


def _intervals(resampled: np.ndarray) -> np.ndarray:
    empty = np.full((2, *resampled.shape[1:]), np.nan)
    return np.apply_along_axis(metrics.interval, 0, resampled) if len(resampled) else empty


def _largest(resampled: np.ndarray, axes: tuple[Axis, ...]) -> np.ndarray:
    magnitudes = np.abs(resampled)
    return np.stack([magnitudes[..., axis.columns].max(axis=2).T for axis in axes], axis=1)
