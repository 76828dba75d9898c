"""Measure the association of captions with groups of faces (docs/methods.md, section 4)."""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from torch import Tensor

from src import metrics
from src.configs import ProtocolConfig
from src.studies.shared.cosine_blocks import compute_cosines
from src.studies.shared.jackknife_table import Block
from src.studies.sobit.axes import Axis, Faces, explain_missing_p, permute_cells

# Maximum number of standardised cosines in memory, and of elements of an array of permuted labels.
MAX_COSINES, MAX_LABELS = 4 * 10**7, 10**7
# Number of bootstrap draws that are converted to associations at a time.
DRAW_CHUNK = 500
# Scores that differ by less than this are ties: they come from sums in float32.
TOLERANCE = 1e-5


def compute_associations(
    faces: Faces, face_vectors: Tensor, caption_vectors: Tensor, protocol: ProtocolConfig, seed: int
) -> dict[str, np.ndarray]:
    """Compute the association of each caption with each group.

    Returns:
        Arrays [W captions, groups of all axes]: `association` and its 95% bootstrap interval,
        `association_low` and `association_high`; `p`, corrected over the groups of the axis; `null_q95`, the
        |C| whose score is the 95th percentile of the largest score over the groups. `p` and `null_q95` are
        NaN without permutations, and for groups of `explain_missing_p`. Array [W, axes, draws], float32:
        `largest`, the largest |C| of each axis in each bootstrap sample.
    """
    step = max(1, MAX_COSINES // len(face_vectors))
    chunks = []
    for start in range(0, len(caption_vectors), step):
        observed, standardised = _associate(faces, face_vectors, caption_vectors[start : start + step])
        resampled = _resample(standardised, faces, faces.draw_weights(protocol.bootstrap, seed))
        intervals = np.full((2, *observed.shape), np.nan)
        if len(resampled):
            intervals = np.apply_along_axis(metrics.interval, 0, resampled)
        p_and_q95 = _test_by_permutation(standardised, faces, protocol.permutations, seed)
        chunks.append((observed, *intervals, *p_and_q95, _find_largest(resampled, faces.axes)))
    names = ("association", "association_low", "association_high", "p", "null_q95", "largest")
    return dict(zip(names, map(np.concatenate, zip(*chunks, strict=True)), strict=True))


def _associate(faces: Faces, face_vectors: Tensor, caption_vectors: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Compute associations, [W, groups], and standardised cosines in float32, [W, N].

    Draws use float32, whose rounding error in sums over all faces is about a millionth.
    """
    is_member = faces.is_member[faces.cell_of_face]
    observed = np.empty((len(caption_vectors), is_member.shape[1]))
    all_standardised = np.empty((len(caption_vectors), len(face_vectors)), dtype=np.float32)
    for rows, block in compute_cosines(caption_vectors, face_vectors):
        standardised = metrics.standardise(block)
        observed[rows] = standardised @ is_member * metrics.association_factors(is_member)
        all_standardised[rows] = standardised
    return observed, all_standardised


def compute_largest_associations(faces: Faces, face_vectors: Tensor, caption_vectors: Tensor) -> np.ndarray:
    """Compute the largest |C| of each caption on each axis, [W, axes], without draws."""
    is_member = faces.is_member[faces.cell_of_face]
    blocks = [np.empty((0, is_member.shape[1]))]
    for _, cosines in compute_cosines(caption_vectors, face_vectors):
        blocks.append(metrics.group_association(cosines, is_member))
    return _find_largest(np.concatenate(blocks), faces.axes)


def _test_by_permutation(
    standardised: np.ndarray, faces: Faces, draws: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Compute `p` and `null_q95` of each association, see `compute_associations`."""
    p, q95 = np.full((2, len(standardised), faces.is_member.shape[1]), np.nan)
    if not draws:
        return p, q95
    tested = [np.array([not reason for reason in explain_missing_p(faces, axis)]) for axis in faces.axes]
    groups = [axis.is_member[:, is_tested] for axis, is_tested in zip(faces.axes, tested, strict=True)]
    welch_tests = partial(metrics.welch_tests, standardised, standardised**2, groups=groups)
    step = max(1, MAX_LABELS // (max(standardised.shape) * len(faces.cell_names)))
    blocks = [
        [test.score().max(axis=2, initial=0).T for test in welch_tests(cells)]
        for cells in permute_cells(faces, draws, seed, step)
    ]
    nulls = [np.concatenate(axis_blocks)[:, :, None] for axis_blocks in zip(*blocks, strict=True)]
    observed = welch_tests(faces.cell_of_face[None])
    for axis, is_tested, test, largest in zip(faces.axes, tested, observed, nulls, strict=True):
        columns = np.arange(faces.is_member.shape[1])[axis.columns][is_tested]
        score = test.score()[:, 0]
        exceeds = largest >= score - TOLERANCE
        p[:, columns] = np.where(np.isnan(score), np.nan, (1 + exceeds.sum(axis=0)) / (1 + draws))
        threshold = np.quantile(largest, 0.95, axis=0)[:, None]
        q95[:, columns] = test.difference_at(threshold)[:, 0]
    return p, q95


def build_jackknife_block(
    faces: Faces, face_vectors: Tensor, captions: Sequence[str], caption_vectors: Tensor
) -> Block:
    """Build the jackknife block of the association of each caption with each group."""
    units = faces.face_clusters.assign(id=faces.ids)
    columns = [(axis.name, group) for axis in faces.axes for group in axis.groups]
    names = [f"{caption} | {axis} | {group}" for caption in captions for axis, group in columns]
    is_member = faces.is_member[faces.cell_of_face]
    step = max(1, MAX_COSINES // len(face_vectors))

    def compute(masks: np.ndarray) -> np.ndarray:
        chunks = []
        for start in range(0, len(caption_vectors), step):
            _, standardised = _associate(faces, face_vectors, caption_vectors[start : start + step])
            rows_by_cell = (
                np.flatnonzero(faces.cell_of_face == cell) for cell in range(len(faces.cell_names))
            )
            resampled = _resample(standardised, faces, ((rows, masks[:, rows]) for rows in rows_by_cell))
            chunks.append(resampled.reshape(len(masks), -1))
        return np.concatenate(chunks, axis=1)

    return Block(units, [("association", name, 0.0) for name in names], compute, [*is_member.T])


def _resample(
    standardised: np.ndarray, faces: Faces, weights_by_cell: Iterator[tuple[np.ndarray, np.ndarray]]
) -> np.ndarray:
    """Compute associations of weighted samples, [draws, W, groups]; NaN where a group has no face.

    `weights_by_cell` yields, for each cell, the rows of its faces and their weights, [draws, rows].
    Associations are computed from sums over the faces of each cell: of weights, [cells, draws], and of
    weighted cosines, [cells, draws, W].
    """
    all_counts, all_sums, all_squares = [], [], []
    for rows, cell_weights in weights_by_cell:
        cell_cosines, weights = standardised[:, rows].T, cell_weights.astype(np.float32)
        all_counts.append(weights.sum(axis=1))
        all_sums.append(weights @ cell_cosines)
        all_squares.append(weights @ cell_cosines**2)
    counts, sums, squares = np.stack(all_counts), np.stack(all_sums), sum(all_squares[1:], all_squares[0])
    draws = counts.shape[1]
    resampled = np.empty((draws, len(standardised), faces.is_member.shape[1]), dtype=np.float32)
    for start in range(0, draws, DRAW_CHUNK):
        block = slice(start, start + DRAW_CHUNK)
        face_counts, cosine_sums = counts[:, block].sum(axis=0)[:, None], sums[:, block].sum(axis=0)
        group_counts = np.einsum("cd,cg->dg", counts[:, block], faces.is_member)[:, None]
        group_sums = np.einsum("cdw,cg->dwg", sums[:, block], faces.is_member)
        with np.errstate(divide="ignore", invalid="ignore"):
            deviation = np.sqrt((squares[block] - cosine_sums**2 / face_counts) / (face_counts - 1))
            other_counts = face_counts[:, :, None] - group_counts
            difference = group_sums / group_counts - (cosine_sums[:, :, None] - group_sums) / other_counts
            resampled[block] = difference / deviation[:, :, None]
    return resampled


def _find_largest(associations: np.ndarray, axes: tuple[Axis, ...]) -> np.ndarray:
    """Find the largest |C| per axis: [W, axes], or [W, axes, draws] of [draws, W, groups]."""
    magnitudes = np.abs(associations)
    return np.stack([magnitudes[..., axis.columns].max(axis=-1).T for axis in axes], axis=1)
