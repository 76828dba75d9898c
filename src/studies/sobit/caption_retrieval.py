"""Retrieve the faces nearest to captions and measure their groups (docs/methods.md, section 4)."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from src import metrics
from src.configs import ProtocolConfig
from src.studies.shared.resampling import generator
from src.studies.sobit.axes import Axis, Faces
from src.studies.sobit.prompts import cosines

# Number of candidate faces per caption for the bootstrap, in multiples of k: a sample must contain k of them.
CANDIDATES = 4
# Differences of shares below this count as ties.
TOLERANCE = 1e-12
# Random stream of the rankings; bootstrap draws use stream 0, permutations of associations 1.
RANKING_STREAM = 2


@dataclass(frozen=True)
class Nearest:
    """The faces most similar to each caption, in descending order of similarity."""

    rows: np.ndarray  # [W, candidates], rows of the faces; ties in order of position
    cosines: np.ndarray  # [W, candidates], cosines of these faces with the caption
    k: int  # number of faces that count as retrieved; further ones serve the bootstrap

    @property
    def similarity(self) -> np.ndarray:
        """Return the mean of the top-k cosines, [W]."""
        means: np.ndarray = self.cosines[:, : self.k].mean(axis=1)
        return means


def nearest(face_vectors: Tensor, caption_vectors: Tensor, k: int, candidates: int) -> Nearest:
    """Find the `candidates` (k or more) faces most similar to each caption; the first k are retrieved."""
    rows, similarities = [], []
    for _, block in cosines(caption_vectors, face_vectors):
        top_faces = metrics.top_k(torch.from_numpy(block), min(candidates, len(face_vectors))).numpy()
        rows.append(top_faces)
        similarities.append(np.take_along_axis(block, top_faces, axis=1))
    return Nearest(np.concatenate(rows), np.concatenate(similarities), k)


def resample(top: Nearest, faces: Faces, draws: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Compute the composition and similarity of the top k in bootstrap samples of the faces.

    Returns:
        [W, draws, groups of all axes] shares, [W, draws] mean cosines.
    """
    weights = np.empty((len(faces.cell), draws), dtype=np.int16)
    for cell_rows, cell_weights in faces.weights(draws, seed):
        weights[cell_rows] = cell_weights.T
    shares = np.empty((len(top.rows), draws, faces.members.shape[1]), dtype=np.float32)
    mean_cosines = np.empty((len(top.rows), draws))
    for number, (rows, top_cosines) in enumerate(zip(top.rows, top.cosines, strict=True)):
        # Each face counts as often as it was drawn, in order of rank, until k are retrieved.
        cumulative = np.minimum(weights[rows].cumsum(axis=0, dtype=np.int64), top.k)
        counts = np.diff(cumulative, axis=0, prepend=0).T.astype(float)
        counts /= np.maximum(cumulative[-1], 1)[:, None]
        shares[number] = counts @ faces.members[faces.cell[rows]]
        mean_cosines[number] = counts @ top_cosines
    return shares, mean_cosines


def deviations(shares: np.ndarray, base: np.ndarray) -> np.ndarray:
    """Compute |share - base| / sqrt(base (1 - base)), so that small groups do not dominate the maximum."""
    standardised: np.ndarray = np.abs(shares - base) / np.sqrt(base * (1 - base))
    return standardised


def nulls(
    axis: Axis, faces: Faces, k: int, protocol: ProtocolConfig, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Simulate three statistics of a top k under random labels of faces.

    k faces are drawn without replacement, in random order; the draws are the same for every caption.

    Returns:
        [draws] each: largest standardised deviation of a share from the base (`deviations`), MaxSkew, NDKL.
    """
    rng = generator(faces.ids, seed, RANKING_STREAM)
    cells = [rng.choice(faces.cell, k, replace=False) for _ in range(protocol.permutations)]
    members = axis.members[np.array(cells, dtype=int).reshape(-1, k)]
    shares = members.mean(axis=1)
    largest = deviations(shares, axis.base).max(axis=1)
    return largest, metrics.max_skew(shares, axis.base, k), metrics.ndkl(members, axis.base)


def p_value(null: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Return the permutation p, (1 + number of draws that reach the value)/(1 + R); NaN without draws."""
    if not len(null):
        return np.full_like(observed, np.nan, dtype=float)
    # A binary search in the sorted draws counts those below the observed value.
    below = np.searchsorted(np.sort(null), observed - TOLERANCE)
    p: np.ndarray = (1 + len(null) - below) / (1 + len(null))
    return p


def q95(drawn: np.ndarray) -> float:
    """Return the 95th percentile; NaN without draws."""
    return float(np.quantile(drawn, 0.95)) if len(drawn) else np.nan
