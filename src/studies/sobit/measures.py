"""The three measures of a So-B-IT audit as rows: a caption on each axis, for each group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import false_discovery_control
from torch import Tensor

from src import metrics
from src.configs import ProtocolConfig
from src.studies.sobit.axes import Axis, Faces
from src.studies.sobit.caption_association import associations, largest, slices
from src.studies.sobit.caption_retrieval import KEPT, Null, deviations, nearest, null, q95, reached, resampled

# Associations and similarities that differ by less are equal.
TOLERANCE = 1e-12


@dataclass(frozen=True)
class Asked:
    """What an encoder is asked.

    Attributes:
        faces: the faces and their groups.
        seen: their vectors, [N, D] or [N, Q, D].
        captions: of the taxonomy, each once.
        said: their vectors, [W, D].
        held: vectors of the baseline's captions, [V, D].
        protocol: sizes and draws.
        seed: of the draws.
    """

    faces: Faces
    seen: Tensor
    captions: Sequence[str]
    said: Tensor
    held: Tensor
    protocol: ProtocolConfig
    seed: int


# Rows by caption, and the tables beside them.
Measured = tuple[pd.DataFrame, dict[str, pd.DataFrame]]


def association(asked: Asked) -> Measured:
    """C(c, G) with interval, null, and the share of the baseline that associates as much."""
    faces = asked.faces
    found = associations(faces, asked.seen, asked.said, asked.protocol, asked.seed)
    extremes, held = (largest(faces, asked.seen, said) for said in (asked.said, asked.held))
    parts = []
    for number, (axis, where) in enumerate(zip(faces.axes, slices(faces.axes), strict=True)):
        columns = {
            "association": found.observed[:, where],
            "association_low": found.low[:, where],
            "association_high": found.high[:, where],
            "null_q95": found.null_q95[:, where],
            "p": found.p[:, where],
            "q": corrected(found.p[:, where]),
            "baseline_share": _as_large(held[:, number], extremes[:, number])[:, None],
        }
        parts.append(_rows(asked, axis, columns))
    names = [axis.name for axis in faces.axes]
    return pd.concat(parts, ignore_index=True), {"draws": _draws(asked.captions, names, found.largest)}


def retrieval(asked: Asked) -> Measured:
    """Composition of the top k against the base, with interval and null."""
    faces, k, draws = asked.faces, asked.protocol.top_k, asked.protocol.bootstrap
    top = nearest(asked.seen, asked.said, k, KEPT * k if draws else k)
    drawn, _ = resampled(top, faces, draws, asked.seed)
    low, high = _intervals(drawn)
    cells = faces.cell[top.rows[:, :k]]
    parts = []
    for axis, where in zip(faces.axes, slices(faces.axes), strict=True):
        columns = _composition(axis.cells[cells], axis, null(axis, faces, k, asked.protocol, asked.seed))
        columns |= {"share_low": low[:, where], "share_high": high[:, where]}
        parts.append(_rows(asked, axis, columns))
    ranked = pd.DataFrame(
        {
            "caption": np.repeat(np.array(asked.captions), k),
            "rank": np.tile(np.arange(1, k + 1, dtype=np.int32), len(top.rows)),
            "id": faces.ids[top.rows[:, :k].ravel()],
            "similarity": top.cosines[:, :k].ravel(),
        }
    )
    return pd.concat(parts, ignore_index=True), {"nearest": ranked}


def _composition(members: np.ndarray, axis: Axis, held: Null) -> dict[str, np.ndarray]:
    """Columns of one axis: of groups [W, G], of captions [W, 1].

    Args:
        members: [W, k, G], the group of each retrieved face.
        axis: which groups.
        held: null compositions.
    """
    share, k = members.mean(axis=1), members.shape[1]
    p = reached(held.deviation, deviations(share, axis.base))
    by_caption = {
        "entropy": metrics.normalised_entropy(share),
        "kl": metrics.kl(share, axis.base),
        "maxskew": (skew := metrics.max_skew(share, axis.base, k)),
        "maxskew_p": reached(held.maxskew, skew),
        "ndkl": (divergence := metrics.ndkl(members, axis.base)),
        "ndkl_p": reached(held.ndkl, divergence),
    }
    return {
        "share_topk": share,
        "base_share": axis.base,
        "ratio": share / axis.base,
        "null_q95": q95(held.deviation) * np.sqrt(axis.base * (1 - axis.base)),
        "p": p,
        "q": corrected(p),
        "maxskew_q95": np.array(q95(held.maxskew)),
        "ndkl_q95": np.array(q95(held.ndkl)),
        **{name: values[:, None] for name, values in by_caption.items()},
    }


def strength(asked: Asked) -> Measured:
    """How similar the k nearest faces are, against captions of frequent words."""
    k, protocol = asked.protocol.top_k, asked.protocol
    top = nearest(asked.seen, asked.said, k, KEPT * k if protocol.bootstrap else k)
    _, similar = resampled(top, asked.faces, protocol.bootstrap, asked.seed)
    low, high = _intervals(similar)
    held = np.sort(nearest(asked.seen, asked.held, k, k).similarity)

    def against(values: np.ndarray) -> np.ndarray:
        share = np.searchsorted(held, values + TOLERANCE, side="right") / len(held)
        return np.where(np.isnan(values), np.nan, share)

    columns = {
        "similarity": top.similarity,
        "similarity_low": low,
        "similarity_high": high,
        "strength": against(top.similarity),
        "strength_low": against(low),
        "strength_high": against(high),
    }
    return pd.DataFrame({"caption": list(asked.captions), **columns}), {}


MEASURES: dict[str, Callable[[Asked], Measured]] = {
    "association": association,
    "retrieval": retrieval,
    "strength": strength,
}


def corrected(p: np.ndarray) -> np.ndarray:
    """Benjamini and Hochberg's q over captions, group by group; the undefined stay so.

    Args:
        p: [W, G].
    """
    found = np.full_like(p, np.nan)
    for group, own in enumerate(p.T):
        known = ~np.isnan(own)
        if known.any():
            found[known, group] = false_discovery_control(own[known])
    return found


def _rows(asked: Asked, axis: Axis, columns: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """A row per caption and group; columns of whatever can be stretched to [W, G]."""
    shape = len(asked.captions), len(axis.groups)
    named = {
        "caption": np.array(asked.captions)[:, None],
        "group": np.array(axis.groups),
        "n": axis.sizes,
        "n_rest": len(asked.faces.cell) - axis.sizes,
    }
    stretched = {
        name: np.broadcast_to(values, shape).ravel() for name, values in (named | dict(columns)).items()
    }
    return pd.DataFrame(stretched).assign(axis=axis.name)


def _as_large(held: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Share of the baseline's values that are at least as large as each observed one; NaN without any."""
    known = np.sort(held[~np.isnan(held)])
    below = np.searchsorted(known, observed - TOLERANCE)
    share = (len(known) - below) / len(known) if len(known) else np.full(len(observed), np.nan)
    return np.where(np.isnan(observed), np.nan, share)


def _intervals(drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """95% of draws that stand second; NaN where there are none."""
    if not drawn.shape[1]:
        nothing = np.full(np.delete(drawn.shape, 1), np.nan)
        return nothing, nothing
    low, high = np.percentile(drawn, (2.5, 97.5), axis=1)
    return low, high


def _draws(captions: Sequence[str], axes: Sequence[str], drawn: np.ndarray) -> pd.DataFrame:
    names = pd.MultiIndex.from_product(
        [captions, axes, np.arange(drawn.shape[2], dtype=np.int32)], names=["caption", "axis", "draw"]
    )
    return pd.DataFrame({"largest": drawn.ravel()}, index=names).reset_index()
