"""Retrieve the faces nearest to captions and measure their groups (docs/methods.md, section 4)."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from src import metrics
from src.configs import ProtocolConfig
from src.studies.shared.cosine_blocks import compute_cosines
from src.studies.shared.resampling import create_generator
from src.studies.sobit.axes import Axis, Faces, permute_cells

# Number of candidate faces per caption, in multiples of k: enough for bootstrap samples to draw k of them.
CANDIDATES = 4
# Statistics that differ by less than this are ties.
TOLERANCE = 1e-12
# Maximum number of permuted labels of faces in memory.
MAX_LABELS = 10**7
# Stream of random numbers of the rankings; bootstrap draws use stream 0, permutations of associations 1.
RANKING_STREAM = 2


@dataclass(frozen=True)
class Nearest:
    """The faces nearest to each caption (a row of the arrays), in descending order of their cosine."""

    rows: np.ndarray  # [W captions, candidates], rows of the faces; ties in order of position
    cosines: np.ndarray  # [W captions, candidates], cosines of these faces with the caption
    k: int  # number of faces that count as retrieved; further candidates are for the bootstrap

    @property
    def mean_cosines(self) -> np.ndarray:
        """Return the mean cosine of each caption with its k nearest faces, [W]."""
        means: np.ndarray = self.cosines[:, : self.k].mean(axis=1)
        return means


def find_nearest(face_vectors: Tensor, caption_vectors: Tensor, k: int, candidates: int) -> Nearest:
    """Find the `candidates` (k or more) faces nearest to each caption; the first k are retrieved."""
    rows, cosines = [], []
    for _, block in compute_cosines(caption_vectors, face_vectors):
        top_faces = metrics.top_k(torch.from_numpy(block), min(candidates, len(face_vectors))).numpy()
        rows.append(top_faces)
        cosines.append(np.take_along_axis(block, top_faces, axis=1))
    return Nearest(np.concatenate(rows), np.concatenate(cosines), k)


def resample_top(top: Nearest, faces: Faces, draws: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Compute the groups' shares and the mean cosine of the top k in bootstrap samples of the faces.

    Returns:
        Shares [W captions, draws, groups of all axes], and mean cosines [W captions, draws].
    """
    weights = np.empty((len(faces.cell_of_face), draws), dtype=np.int16)
    for cell_rows, cell_weights in faces.draw_weights(draws, seed):
        weights[cell_rows] = cell_weights.T
    shares = np.empty((len(top.rows), draws, faces.is_member.shape[1]), dtype=np.float32)
    mean_cosines = np.empty((len(top.rows), draws))
    for caption, (rows, top_cosines) in enumerate(zip(top.rows, top.cosines, strict=True)):
        # Each face counts as often as it was drawn, in order of rank, until k are retrieved.
        cumulative = np.minimum(weights[rows].cumsum(axis=0, dtype=np.int64), top.k)
        counts = np.diff(cumulative, axis=0, prepend=0).T
        face_shares = counts / np.maximum(cumulative[-1], 1)[:, None]
        shares[caption] = face_shares @ faces.is_member[faces.cell_of_face[rows]]
        mean_cosines[caption] = face_shares @ top_cosines
    return shares, mean_cosines


def standardise_deviations(shares: np.ndarray, base: np.ndarray) -> np.ndarray:
    """Compute |share - base| / sqrt(base (1 - base)), whose null variance is the same for all groups.

    `base` is the share of each group among all faces.
    """
    standardised: np.ndarray = np.abs(shares - base) / np.sqrt(base * (1 - base))
    return standardised


def simulate_nulls(
    axis: Axis, faces: Faces, k: int, protocol: ProtocolConfig, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Simulate three statistics of a top k under random labels of the faces.

    k faces are drawn without replacement, in random order; the same draws are used for all captions.

    Returns:
        Arrays [draws]: largest standardised deviation of a share from the base, MaxSkew, NDKL.
    """
    rng = create_generator(faces.ids, seed, RANKING_STREAM)
    cells = [rng.choice(faces.cell_of_face, k, replace=False) for _ in range(protocol.permutations)]
    is_member = axis.is_member[np.array(cells, dtype=int).reshape(-1, k)]
    shares = is_member.mean(axis=1)
    largest = standardise_deviations(shares, axis.base).max(axis=1)
    return largest, metrics.max_skew(shares, axis.base, k), metrics.ndkl(is_member, axis.base)


@dataclass(frozen=True)
class PermutedFaces:
    """Labels of the retrieved faces after people exchanged them."""

    cells: np.ndarray  # [R draws, U distinct retrieved faces], cell of each face
    positions: np.ndarray  # [W captions, k], position of each retrieved face among the U


def permute_retrieved(
    faces: Faces, retrieved: np.ndarray, protocol: ProtocolConfig, seed: int
) -> PermutedFaces:
    """Draw permutations of the labels of people; return those of the retrieved faces.

    `retrieved` [W, k] are the rows of the faces nearest to each caption.
    """
    rows, positions = np.unique(retrieved, return_inverse=True)
    step = max(1, MAX_LABELS // len(faces.cell_of_face))
    blocks = [cells[:, rows] for cells in permute_cells(faces, protocol.permutations, seed, step)]
    cells = np.concatenate([np.empty((0, len(rows)), dtype=np.int16), *blocks])
    return PermutedFaces(cells, positions.reshape(retrieved.shape))


def permute_nulls(
    axis: Axis, permuted: PermutedFaces, tested: np.ndarray, caption: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compute the statistics of `simulate_nulls` for the retrieved faces of a caption.

    Used where several faces are of one person, or share parents or a set: drawing faces one by one would
    count them as independent. The largest deviation is that of the groups of the mask `tested`, [G].
    """
    is_member = axis.is_member[permuted.cells[:, permuted.positions[caption]]]
    shares = is_member.mean(axis=1)
    largest = standardise_deviations(shares, axis.base)[:, tested].max(axis=1, initial=0)
    return (
        largest,
        metrics.max_skew(shares, axis.base, is_member.shape[1]),
        metrics.ndkl(is_member, axis.base),
    )


def compute_p(null: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Compute p of each observed value: (1 + b)/(1 + R), NaN without draws.

    b of the R draws are at least as large as the observed value.
    """
    if not len(null):
        return np.full_like(observed, np.nan, dtype=float)
    # A binary search in the sorted draws counts the draws below the observed value.
    below = np.searchsorted(np.sort(null), observed - TOLERANCE)
    p: np.ndarray = (1 + len(null) - below) / (1 + len(null))
    return p


def compute_q95(draws: np.ndarray) -> float:
    """Compute the 95th percentile of draws; NaN without draws."""
    return float(np.quantile(draws, 0.95)) if len(draws) else np.nan
