"""Compute the three measures of a So-B-IT audit as rows per caption, axis and group."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from torch import Tensor

from src import metrics
from src.configs import ProtocolConfig
from src.studies.sobit.axes import Axis, Faces
from src.studies.sobit.caption_association import associations, largest_association
from src.studies.sobit.caption_retrieval import CANDIDATES, deviations, nearest, nulls, p_value, q95, resample

# Differences of associations and similarities below this count as ties.
TOLERANCE = 1e-12


@dataclass(frozen=True)
class Inputs:
    """The inputs of a measure."""

    faces: Faces  # faces and their groups
    face_vectors: Tensor  # vectors of the faces, [N, D] or [N, Q, D]
    captions: Sequence[str]  # distinct captions of the taxonomy
    caption_vectors: Tensor  # vectors of the captions, [W, D]
    baseline_vectors: Tensor  # vectors of the baseline's captions, [V, D]
    protocol: ProtocolConfig  # sizes and numbers of draws
    seed: int  # random seed of the draws


# Rows of analyses.csv per caption, and further tables by name.
Result = tuple[pd.DataFrame, dict[str, pd.DataFrame]]


def association(inputs: Inputs) -> Result:
    """Compute C(c, G), its interval, its null, and the share of baseline captions with as large a |C|."""
    faces = inputs.faces
    measures = associations(faces, inputs.face_vectors, inputs.caption_vectors, inputs.protocol, inputs.seed)
    resampled = measures.pop("largest")
    baseline = largest_association(faces, inputs.face_vectors, inputs.baseline_vectors)
    axis_rows = []
    for number, axis in enumerate(faces.axes):
        columns = {name: values[:, axis.columns] for name, values in measures.items()}
        largest = np.abs(columns["association"]).max(axis=1)
        columns["q"] = adjust_p(columns["p"])
        columns["baseline_share"] = _share_as_large(baseline[:, number], largest)[:, None]
        axis_rows.append(_rows(inputs, axis, columns))
    names = [axis.name for axis in faces.axes]
    return pd.concat(axis_rows, ignore_index=True), {"draws": _draw_table(inputs.captions, names, resampled)}


def retrieval(inputs: Inputs) -> Result:
    """Compute the composition of the top k against the base, with interval and null."""
    faces, k, draws = inputs.faces, inputs.protocol.top_k, inputs.protocol.bootstrap
    top = nearest(inputs.face_vectors, inputs.caption_vectors, k, CANDIDATES * k if draws else k)
    shares, _ = resample(top, faces, draws, inputs.seed)
    low, high = _intervals(shares)
    cells = faces.cell[top.rows[:, :k]]
    axis_rows = []
    for axis in faces.axes:
        drawn_nulls = nulls(axis, faces, k, inputs.protocol, inputs.seed)
        columns = _composition(axis.members[cells], axis, *drawn_nulls)
        columns |= {"share_low": low[:, axis.columns], "share_high": high[:, axis.columns]}
        axis_rows.append(_rows(inputs, axis, columns))
    nearest_faces = pd.DataFrame(
        {
            "caption": np.repeat(np.array(inputs.captions), k),
            "rank": np.tile(np.arange(1, k + 1, dtype=np.int32), len(top.rows)),
            "id": faces.ids[top.rows[:, :k].ravel()],
            "similarity": top.cosines[:, :k].ravel(),
        }
    )
    return pd.concat(axis_rows, ignore_index=True), {"nearest": nearest_faces}


def _composition(
    members: np.ndarray, axis: Axis, null_deviation: np.ndarray, null_skew: np.ndarray, null_ndkl: np.ndarray
) -> dict[str, np.ndarray]:
    """Compute the columns of one axis: [W, G] for groups, [W, 1] for captions; nulls: see `nulls`.

    `members` are [W, k, G], true if a retrieved face belongs to a group.
    """
    share = members.mean(axis=1)
    skew = metrics.max_skew(share, axis.base, members.shape[1])[:, None]
    ndkl = metrics.ndkl(members, axis.base)[:, None]
    p = p_value(null_deviation, deviations(share, axis.base))
    return {
        "share_topk": share,
        "base_share": axis.base,
        "ratio": share / axis.base,
        "null_q95": q95(null_deviation) * np.sqrt(axis.base * (1 - axis.base)),
        "p": p,
        "q": adjust_p(p),
        "entropy": metrics.normalised_entropy(share)[:, None],
        "kl": metrics.kl(share, axis.base)[:, None],
        "maxskew": skew,
        "maxskew_q95": q95(null_skew),
        "maxskew_p": p_value(null_skew, skew),
        "ndkl": ndkl,
        "ndkl_q95": q95(null_ndkl),
        "ndkl_p": p_value(null_ndkl, ndkl),
    }


def strength(inputs: Inputs) -> Result:
    """Compute the similarity of the k nearest faces relative to captions of frequent words."""
    k, draws = inputs.protocol.top_k, inputs.protocol.bootstrap
    top = nearest(inputs.face_vectors, inputs.caption_vectors, k, CANDIDATES * k if draws else k)
    _, means = resample(top, inputs.faces, draws, inputs.seed)
    low, high = _intervals(means)
    baseline = np.sort(nearest(inputs.face_vectors, inputs.baseline_vectors, k, k).similarity)

    def to_strength(values: np.ndarray) -> np.ndarray:
        share = np.searchsorted(baseline, values + TOLERANCE, side="right") / len(baseline)
        return np.where(np.isnan(values), np.nan, share)

    columns = {"similarity": top.similarity, "similarity_low": low, "similarity_high": high}
    columns |= {name.replace("similarity", "strength"): to_strength(value) for name, value in columns.items()}
    return pd.DataFrame({"caption": list(inputs.captions), **columns}), {}


MEASURES: dict[str, Callable[[Inputs], Result]] = {
    "association": association,
    "retrieval": retrieval,
    "strength": strength,
}


def adjust_p(p: np.ndarray) -> np.ndarray:
    """Compute Benjamini and Hochberg's q of [W, G] p values over captions, group by group; NaN stays NaN."""
    return pd.DataFrame(p).apply(metrics.benjamini_hochberg).to_numpy()


def _rows(inputs: Inputs, axis: Axis, columns: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Return a row per caption and group; columns broadcast to [W, G]."""
    shape = len(inputs.captions), len(axis.groups)
    arrays = {
        "caption": np.array(inputs.captions)[:, None],
        "group": np.array(axis.groups),
        "n": axis.sizes,
        "n_rest": len(inputs.faces.cell) - axis.sizes,
        **columns,
    }
    columns = {name: np.broadcast_to(values, shape).ravel() for name, values in arrays.items()}
    return pd.DataFrame(columns).assign(axis=axis.name)


def _share_as_large(baseline: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Compute the share of baseline values at least as large as each observed one; NaN without any."""
    known = np.sort(baseline[~np.isnan(baseline)])
    below = np.searchsorted(known, observed - TOLERANCE)
    share = (len(known) - below) / len(known) if len(known) else np.full(len(observed), np.nan)
    return np.where(np.isnan(observed), np.nan, share)


def _intervals(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute 95% intervals over the draws of the second dimension; NaN without draws."""
    if not draws.shape[1]:
        undefined = np.full(np.delete(draws.shape, 1), np.nan)
        return undefined, undefined
    low, high = np.percentile(draws, (2.5, 97.5), axis=1)
    return low, high


def _draw_table(captions: Sequence[str], axes: Sequence[str], largest: np.ndarray) -> pd.DataFrame:
    index = pd.MultiIndex.from_product(
        [captions, axes, np.arange(largest.shape[2], dtype=np.int32)], names=["caption", "axis", "draw"]
    )
    return pd.DataFrame({"largest": largest.ravel()}, index=index).reset_index()
