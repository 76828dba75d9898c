"""Measure the association of captions with groups of faces (docs/methods.md, section 4)."""

from functools import partial

import numpy as np
from torch import Tensor

from src import metrics
from src.configs import ProtocolConfig
from src.studies.sobit.axes import Axis, Faces, permuted_cells, reasons_without_p
from src.studies.sobit.prompts import cosines

# Maximum numbers of standardised cosines in memory and of values of permuted labels in an array.
MAX_COSINES, MAX_LABELS = 4 * 10**7, 10**7
# Number of bootstrap draws that are converted to associations at a time.
DRAW_CHUNK = 500
# Differences below this count as ties: scores come from sums in float32.
TOLERANCE = 1e-5


def associations(
    faces: Faces, face_vectors: Tensor, caption_vectors: Tensor, protocol: ProtocolConfig, seed: int
) -> dict[str, np.ndarray]:
    """Compute the association of each caption with each group.

    Returns:
        [captions W, groups of all axes] each: `association` with its 95% bootstrap interval,
        `association_low` to `association_high`; `p`, corrected over the groups of the axis, and `null_q95`,
        the |C| with the 95th percentile of the largest score, NaN without permutations or with one of
        `reasons_without_p`. `largest`: [W, axes, draws], float32, bootstrap of the largest absolute
        association of each axis.
    """
    step = max(1, MAX_COSINES // len(face_vectors))
    chunks = []
    for start in range(0, len(caption_vectors), step):
        observed, standardised = _associate(faces, face_vectors, caption_vectors[start : start + step])
        resampled = _resample(standardised, faces, protocol.bootstrap, seed)
        intervals = np.full((2, *observed.shape), np.nan)
        if len(resampled):
            intervals = np.apply_along_axis(metrics.interval, 0, resampled)
        p_and_q95 = _null_tests(standardised, faces, protocol.permutations, seed)
        chunks.append((observed, *intervals, *p_and_q95, _largest(resampled, faces.axes)))
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
    return _largest(np.concatenate([np.empty((0, members.shape[1])), *blocks]), faces.axes)


def _null_tests(
    standardised: np.ndarray, faces: Faces, draws: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Compute `p` and `null_q95` of each association; NaN without permutations."""
    p, q95 = np.full((2, len(standardised), faces.members.shape[1]), np.nan)
    if not draws:
        return p, q95
    tested = [np.array([not reason for reason in reasons_without_p(faces, axis)]) for axis in faces.axes]
    groups = [axis.members[:, is_tested] for axis, is_tested in zip(faces.axes, tested, strict=True)]
    welch_tests = partial(metrics.welch_tests, standardised, standardised**2, groups=groups)
    step = max(1, MAX_LABELS // (max(standardised.shape) * len(faces.cells)))
    blocks = [
        [test.score().max(axis=2, initial=0).T for test in welch_tests(cells)]
        for cells in permuted_cells(faces, draws, seed, step)
    ]
    nulls = [np.concatenate(axis_blocks)[:, :, None] for axis_blocks in zip(*blocks, strict=True)]
    observed = welch_tests(faces.cell[None])
    for axis, is_tested, test, largest in zip(faces.axes, tested, observed, nulls, strict=True):
        columns = np.arange(faces.members.shape[1])[axis.columns][is_tested]
        score = test.score()[:, 0]
        exceeds = largest >= score - TOLERANCE
        p[:, columns] = np.where(np.isnan(score), np.nan, (1 + exceeds.sum(axis=0)) / (1 + draws))
        threshold = np.quantile(largest, 0.95, axis=0)[:, None]
        q95[:, columns] = test.difference_at(threshold)[:, 0]
    return p, q95


def _resample(standardised: np.ndarray, faces: Faces, draws: int, seed: int) -> np.ndarray:
    """Compute associations of bootstrap samples, [draws, W, groups]; NaN where a group has no face.

    They come from sums of each cell: of weights [cells, draws], and of weighted cosines [cells, draws, W].
    """
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
        face_counts, cosine_sums = counts[:, block].sum(axis=0)[:, None], sums[:, block].sum(axis=0)
        group_counts = np.einsum("cd,cg->dg", counts[:, block], faces.members)[:, None]
        group_sums = np.einsum("cdw,cg->dwg", sums[:, block], faces.members)
        with np.errstate(divide="ignore", invalid="ignore"):
            deviation = np.sqrt((squares[block] - cosine_sums**2 / face_counts) / (face_counts - 1))
            other_counts = face_counts[:, :, None] - group_counts
            difference = group_sums / group_counts - (cosine_sums[:, :, None] - group_sums) / other_counts
            resampled[block] = difference / deviation[:, :, None]
    return resampled


def _largest(associations: np.ndarray, axes: tuple[Axis, ...]) -> np.ndarray:
    """Return the largest absolute association of each axis: [W, axes] from [W, groups], with draws last."""
    magnitudes = np.abs(associations)
    return np.stack([magnitudes[..., axis.columns].max(axis=-1).T for axis in axes], axis=1)
