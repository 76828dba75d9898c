"""Whose faces are retrieved for a caption, and how similar they are (docs/methods.md, section 4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from src import metrics
from src.configs import ProtocolConfig
from src.studies.shared.resampling import generator
from src.studies.sobit.axes import Axis, Faces
from src.studies.sobit.prompts import cosines

# Faces kept of each caption for the bootstrap, in k: a sample of them must hold k.
KEPT = 4
# Shares that differ by less are equal.
TOLERANCE = 1e-12
# Of generators: bootstrap draws are stream 0, permutations of associations 1.
RANKED = 2


@dataclass(frozen=True)
class Nearest:
    """The faces that are most similar to each caption, most similar first.

    Attributes:
        rows: [W, kept], of the faces; equal ones in order of position.
        cosines: [W, kept].
        k: how many count as retrieved; further ones are for the bootstrap.
    """

    rows: np.ndarray
    cosines: np.ndarray
    k: int

    @property
    def similarity(self) -> np.ndarray:
        """[W], mean of the top-k cosines."""
        found: np.ndarray = self.cosines[:, : self.k].mean(axis=1)
        return found


@dataclass(frozen=True)
class Null:
    """What the composition of a top k is where labels lie over the faces as if by lot.

    The same for every caption: k faces are drawn without replacement, and ranked.

    Attributes:
        deviation: [draws], largest standardised deviation of a share from the base (`deviations`).
        maxskew, ndkl: [draws].
    """

    deviation: np.ndarray
    maxskew: np.ndarray
    ndkl: np.ndarray


def nearest(seen: Tensor, said: Tensor, k: int, kept: int) -> Nearest:
    """The faces most similar to each caption.

    Args:
        seen: vectors of faces, [N, D] or [N, Q, D].
        said: of captions, [W, D].
        k: how many are retrieved.
        kept: how many are found, k or more.
    """
    rows, found = [], []
    for _, block in cosines(said, seen):
        best = metrics.top_k(torch.from_numpy(block), min(kept, len(seen))).numpy()
        rows.append(best)
        found.append(np.take_along_axis(block, best, axis=1))
    return Nearest(np.concatenate(rows), np.concatenate(found), k)


def resampled(top: Nearest, faces: Faces, draws: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Composition and similarity of the top k of bootstrap samples of the faces.

    Args:
        top: with more than k faces of each caption.
        faces: the faces and their groups.
        draws: how many samples.
        seed: of these.

    Returns:
        [W, draws, groups of all axes] shares, [W, draws] mean cosines.
    """
    weights = np.empty((len(faces.cell), draws), dtype=np.int16)
    for own, drawn in faces.weights(draws, seed):
        weights[own] = drawn.T
    shares = np.empty((len(top.rows), draws, faces.members.shape[1]), dtype=np.float32)
    similar = np.empty((len(top.rows), draws))
    for number, (rows, own) in enumerate(zip(top.rows, top.cosines, strict=True)):
        # Down the ranking each face counts as often as it was drawn, until k are retrieved.
        reached = np.minimum(weights[rows].cumsum(axis=0, dtype=np.int64), top.k)
        often = np.diff(reached, axis=0, prepend=0).T.astype(float)
        often /= np.maximum(reached[-1], 1)[:, None]
        shares[number] = often @ faces.members[faces.cell[rows]]
        similar[number] = often @ own
    return shares, similar


def deviations(shares: np.ndarray, base: np.ndarray) -> np.ndarray:
    """|p - q| / sqrt(q (1 - q)): small groups do not decide alone."""
    found: np.ndarray = np.abs(shares - base) / np.sqrt(base * (1 - base))
    return found


def null(axis: Axis, faces: Faces, k: int, protocol: ProtocolConfig, seed: int) -> Null:
    """Compositions of k faces with permuted labels.

    Args:
        axis: which groups.
        faces: the faces.
        k: how many are retrieved.
        protocol: how many permutations.
        seed: of these.
    """
    rng = generator(faces.ids, seed, RANKED)
    drawn = [rng.choice(faces.cell, k, replace=False) for _ in range(protocol.permutations)]
    members = axis.cells[np.array(drawn, dtype=int).reshape(-1, k)]
    shares = members.mean(axis=1)
    return Null(
        deviations(shares, axis.base).max(axis=1),
        metrics.max_skew(shares, axis.base, k),
        metrics.ndkl(members, axis.base),
    )


def reached(drawn: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Share of draws at least as large, the observed one among them; NaN without draws."""
    if not len(drawn):
        return np.full_like(observed, np.nan, dtype=float)
    # From above, as a sorted array tells in one go.
    below = np.searchsorted(np.sort(drawn), observed - TOLERANCE)
    found: np.ndarray = (1 + len(drawn) - below) / (1 + len(drawn))
    return found


def q95(drawn: np.ndarray) -> float:
    """95th percentile; NaN without draws."""
    return float(np.quantile(drawn, 0.95)) if len(drawn) else np.nan
