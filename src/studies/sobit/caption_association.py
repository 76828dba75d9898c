"""Which groups' faces a caption is nearer to (docs/methods.md, section 4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from src import metrics
from src.configs import ProtocolConfig
from src.studies.shared.resampling import generator
from src.studies.sobit.axes import Axis, Faces
from src.studies.sobit.prompts import cosines

# Standardised cosines in memory at a time, and numbers of one array of permuted labels, 4 bytes each.
NUMBERS, BLOCK = 4 * 10**7, 10**7
# Bootstrap draws that become associations at a time.
DRAWS = 500
# Standardised associations that differ by less are equal: those of permuted labels are float32.
TOLERANCE = 1e-5
# Of generators: bootstrap draws are stream 0.
PERMUTED = 1


@dataclass(frozen=True)
class Associations:
    """What captions associate, axis after axis.

    Attributes:
        observed: [W, groups of all axes].
        low, high: likewise, 95% of the bootstrap.
        p: likewise, corrected over the groups of their axis; NaN without permutations.
        null_q95: likewise, in the units of `observed`.
        largest: [W, axes, draws], float32: bootstrap of the largest absolute association of each axis.
    """

    observed: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p: np.ndarray
    null_q95: np.ndarray
    largest: np.ndarray


def associations(
    faces: Faces, seen: Tensor, said: Tensor, protocol: ProtocolConfig, seed: int
) -> Associations:
    """Association of each caption with each group.

    Args:
        faces: the faces and their groups.
        seen: their vectors, [N, D] or [N, Q, D].
        said: vectors of the captions, [W, D].
        protocol: permutations of labels and bootstrap samples.
        seed: of both.
    """
    step = max(1, NUMBERS // len(seen))
    parts = []
    for start in range(0, len(said), step):
        observed, standardised = _observed(faces, seen, said[start : start + step])
        drawn = _resampled(standardised, faces, protocol.bootstrap, seed)
        held = _against_null(standardised, observed, faces, protocol.permutations, seed)
        parts.append((observed, *_interval(drawn), *held, _largest(drawn, faces.axes)))
    return Associations(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _observed(faces: Faces, seen: Tensor, said: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """[W, groups] associations, and [W, N] standardised cosines in float32.

    What is drawn is drawn in float32: of sums of that many cosines it is off by a millionth.
    """
    members = faces.members[faces.cell]
    observed = np.empty((len(said), members.shape[1]))
    kept = np.empty((len(said), len(seen)), dtype=np.float32)
    for chosen, block in cosines(said, seen):
        standardised = metrics.standardised(block)
        observed[chosen] = standardised @ members * metrics.gaps(members)
        kept[chosen] = standardised
    return observed, kept


def largest(faces: Faces, seen: Tensor, said: Tensor) -> np.ndarray:
    """[W, axes]: largest absolute association of each caption over the groups of each axis; nothing drawn."""
    members = faces.members[faces.cell]
    found = [metrics.group_association(block, members) for _, block in cosines(said, seen)]
    sizes = np.abs(np.concatenate([np.empty((0, members.shape[1])), *found]))
    return np.stack([sizes[:, axis].max(axis=1) for axis in slices(faces.axes)], axis=1)


def slices(axes: tuple[Axis, ...]) -> Iterator[slice]:
    """Where each axis stands among the groups of all."""
    start = 0
    for axis in axes:
        yield slice(start, start + len(axis.groups))
        start += len(axis.groups)


def _against_null(
    cosines: np.ndarray, observed: np.ndarray, faces: Faces, draws: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """`p` and `null_q95` of each association; NaN without permutations."""
    p, q95 = np.full_like(observed, np.nan), np.full_like(observed, np.nan)
    if not draws:
        return p, q95
    groups = [axis.cells for axis in faces.axes]
    blocks = (metrics.permuted_association(cosines, cells, groups) for cells in _permuted(faces, draws, seed))
    null = [np.concatenate(parts) for parts in zip(*blocks, strict=True)]
    for axis, where, drawn in zip(faces.axes, slices(faces.axes), null, strict=True):
        error = np.sqrt(1 / axis.sizes + 1 / (len(faces.cell) - axis.sizes))
        reached = drawn[:, :, None] >= np.abs(observed[:, where]) / error - TOLERANCE
        p[:, where] = (1 + reached.sum(axis=0)) / (1 + draws)
        q95[:, where] = np.quantile(drawn, 0.95, axis=0)[:, None] * error
    undefined = np.isnan(observed)
    p[undefined] = q95[undefined] = np.nan
    return p, q95


def _permuted(faces: Faces, draws: int, seed: int) -> Iterator[np.ndarray]:
    """[some, N] permuted cells; the same at every call."""
    rng = generator(faces.ids, seed, PERMUTED)
    step = max(1, BLOCK // (len(faces.cell) * len(faces.cells)))
    cells = faces.cell.astype(np.int16)
    for start in range(0, draws, step):
        yield rng.permuted(np.broadcast_to(cells, (min(step, draws - start), len(cells))), axis=1)


def _resampled(cosines: np.ndarray, faces: Faces, draws: int, seed: int) -> np.ndarray:
    """[draws, W, groups] associations of bootstrap samples; NaN where a group has no face."""
    count = np.empty((len(faces.cells), draws), dtype=np.float32)
    total = np.empty((*count.shape, len(cosines)), dtype=np.float32)
    squared = np.zeros(total.shape[1:], dtype=np.float32)
    for cell, (rows, drawn) in enumerate(faces.weights(draws, seed)):
        own, often = cosines[:, rows].T, drawn.astype(np.float32)
        count[cell], total[cell] = often.sum(axis=1), often @ own
        squared += often @ own**2
    found = np.empty((draws, len(cosines), faces.members.shape[1]), dtype=np.float32)
    for start in range(0, draws, DRAWS):
        some = slice(start, start + DRAWS)
        found[some] = _from_sums(count[:, some], total[:, some], squared[some], faces.members)
    return found


def _from_sums(count: np.ndarray, total: np.ndarray, squared: np.ndarray, members: np.ndarray) -> np.ndarray:
    """[draws, W, groups] from each cell's sums: weights [cells, draws], cosines [cells, draws, W]."""
    every, whole = count.sum(axis=0)[:, None], total.sum(axis=0)
    inside = np.einsum("cd,cg->dg", count, members)[:, None]
    summed = np.einsum("cdw,cg->dwg", total, members)
    with np.errstate(divide="ignore", invalid="ignore"):
        deviation = np.sqrt((squared - whole**2 / every) / (every - 1))
        rest = every[:, :, None] - inside
        gap = summed / inside - (whole[:, :, None] - summed) / rest
        found: np.ndarray = gap / deviation[:, :, None]
    return found


def _interval(drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    ends = (
        np.apply_along_axis(metrics.interval, 0, drawn)
        if len(drawn)
        else np.full((2, *drawn.shape[1:]), np.nan)
    )
    return ends[0], ends[1]


def _largest(drawn: np.ndarray, axes: tuple[Axis, ...]) -> np.ndarray:
    size = np.abs(drawn)
    return np.stack([size[..., where].max(axis=2).T for where in slices(axes)], axis=1)
