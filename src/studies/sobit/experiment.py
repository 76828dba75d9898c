"""Audit an encoder's retrieval of faces for loaded words of a taxonomy (So-B-IT, Hamidieh et al. 2024)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from torch import Tensor

from src import metrics
from src.configs import ProtocolConfig, RunConfig
from src.errors import InputError, NotApplicable
from src.stimuli import PROMPTS
from src.studies.protocol import AnalysisTables, Tables, Vectors
from src.studies.shared.jackknife_table import TABLE, build_jackknife_table
from src.studies.sobit.axes import Axis, Faces, describe_missing_p, explain_missing_p, group_faces
from src.studies.sobit.caption_association import (
    build_jackknife_block,
    compute_associations,
    compute_largest_associations,
)
from src.studies.sobit.caption_retrieval import (
    CANDIDATES,
    PermutedFaces,
    compute_p,
    compute_q95,
    find_nearest,
    permute_nulls,
    permute_retrieved,
    resample_top,
    simulate_nulls,
    standardise_deviations,
)
from src.studies.sobit.config import SobitConfig
from src.studies.sobit.prompts import compose_baseline, load_words

# Columns of analyses.csv.
COLUMNS = (
    *("taxonomy", "category", "word", "type", "caption", "axis", "group", "n", "n_rest"),
    *("association", "association_low", "association_high"),
    *("share_topk", "base_share", "ratio", "share_low", "share_high"),
    *("null_q95", "p", "q", "baseline_share"),
    *("entropy", "kl", "maxskew", "ndkl", "maxskew_q95", "maxskew_p", "ndkl_q95", "ndkl_p"),
    *("similarity", "similarity_low", "similarity_high", "strength", "strength_low", "strength_high"),
)
INTEGERS = ("n", "n_rest")
# Associations, or similarities, that differ by less than this are ties.
TOLERANCE = 1e-12


@dataclass(frozen=True)
class Inputs:
    """Inputs of a measure."""

    faces: Faces  # faces and their groups
    face_vectors: Tensor  # vectors of the faces, [N, D] or [N, Q, D]
    captions: Sequence[str]  # distinct captions of the taxonomy
    caption_vectors: Tensor  # vectors of the captions, [W, D]
    baseline_vectors: Tensor  # vectors of the baseline's captions, [V, D]
    protocol: ProtocolConfig  # size of the top k, numbers of draws
    seed: int  # random seed of the draws


# Rows of analyses.csv without the words' columns, keyed by `caption`; further tables by name.
Result = tuple[pd.DataFrame, dict[str, pd.DataFrame]]


def measure_association(inputs: Inputs) -> Result:
    """Compute C of each caption and group, its interval and null, and how many baseline captions reach it."""
    faces = inputs.faces
    measures = compute_associations(
        faces, inputs.face_vectors, inputs.caption_vectors, inputs.protocol, inputs.seed
    )
    resampled = measures.pop("largest")
    baseline = compute_largest_associations(faces, inputs.face_vectors, inputs.baseline_vectors)
    axis_rows = []
    for axis_index, axis in enumerate(faces.axes):
        columns = {name: values[:, axis.columns] for name, values in measures.items()}
        columns["q"] = adjust_p(columns["p"])
        # Share of baseline captions whose largest |C| is at least as large; NaN without a baseline.
        largest = np.abs(columns["association"]).max(axis=1)
        axis_baseline = baseline[:, axis_index]
        axis_baseline = np.sort(axis_baseline[~np.isnan(axis_baseline)])
        count = len(axis_baseline) - np.searchsorted(axis_baseline, largest - TOLERANCE)
        share = count / len(axis_baseline) if len(axis_baseline) else np.nan
        columns["baseline_share"] = np.where(np.isnan(largest), np.nan, share)[:, None]
        axis_rows.append(_build_rows(inputs, axis, columns))
    names = [axis.name for axis in faces.axes]
    levels = [inputs.captions, names, np.arange(resampled.shape[2], dtype=np.int32)]
    index = pd.MultiIndex.from_product(levels, names=["caption", "axis", "draw"])
    draws = pd.DataFrame({"largest": resampled.ravel()}, index=index).reset_index()
    block = build_jackknife_block(faces, inputs.face_vectors, inputs.captions, inputs.caption_vectors)
    further = {"draws": draws, TABLE: build_jackknife_table([block])}
    return pd.concat(axis_rows, ignore_index=True), further


def measure_retrieval(inputs: Inputs) -> Result:
    """Compare the groups' shares of each caption's k nearest faces with the base; add intervals and nulls."""
    faces, k, draws = inputs.faces, inputs.protocol.top_k, inputs.protocol.bootstrap
    top = find_nearest(inputs.face_vectors, inputs.caption_vectors, k, CANDIDATES * k if draws else k)
    shares, _ = resample_top(top, faces, draws, inputs.seed)
    low, high = _compute_intervals(shares)
    cells = faces.cell_of_face[top.rows[:, :k]]
    axis_rows = []
    permuted = None
    if faces.has_linked and inputs.protocol.permutations:
        permuted = permute_retrieved(faces, top.rows[:, :k], inputs.protocol, inputs.seed)
    for axis in faces.axes:
        if permuted is None:
            nulls = simulate_nulls(axis, faces, k, inputs.protocol, inputs.seed)
            columns = _measure_composition(axis.is_member[cells], axis, *nulls)
        else:
            columns = _compare_permuted(axis.is_member[cells], axis, faces, permuted)
        columns["q"] = adjust_p(columns["p"])
        columns |= {"share_low": low[:, axis.columns], "share_high": high[:, axis.columns]}
        axis_rows.append(_build_rows(inputs, axis, columns))
    nearest_faces = pd.DataFrame(
        {
            "caption": np.repeat(np.array(inputs.captions), k),
            "rank": np.tile(np.arange(1, k + 1, dtype=np.int32), len(top.rows)),
            "id": faces.ids[top.rows[:, :k].ravel()],
            "similarity": top.cosines[:, :k].ravel(),
        }
    )
    return pd.concat(axis_rows, ignore_index=True), {"nearest": nearest_faces}


def _measure_composition(
    is_member: np.ndarray,
    axis: Axis,
    null_deviation: np.ndarray,
    null_skew: np.ndarray,
    null_ndkl: np.ndarray,
) -> dict[str, np.ndarray]:
    """Compute the columns of one axis: [W, G] for groups, [W, 1] for captions.

    Args:
        is_member: [W, k, G], true if a retrieved face belongs to a group.
        axis: the axis.
        null_deviation: first result of `simulate_nulls`.
        null_skew: second result.
        null_ndkl: third result.
    """
    share = is_member.mean(axis=1)
    skew = metrics.max_skew(share, axis.base, is_member.shape[1])[:, None]
    ndkl = metrics.ndkl(is_member, axis.base)[:, None]
    p = compute_p(null_deviation, standardise_deviations(share, axis.base))
    return {
        "share_topk": share,
        "base_share": axis.base,
        "ratio": share / axis.base,
        "null_q95": compute_q95(null_deviation) * np.sqrt(axis.base * (1 - axis.base)),
        "p": p,
        "entropy": metrics.normalised_entropy(share)[:, None],
        "kl": metrics.kl(share, axis.base)[:, None],
        "maxskew": skew,
        "maxskew_q95": compute_q95(null_skew),
        "maxskew_p": compute_p(null_skew, skew),
        "ndkl": ndkl,
        "ndkl_q95": compute_q95(null_ndkl),
        "ndkl_p": compute_p(null_ndkl, ndkl),
    }


def _compare_permuted(
    is_member: np.ndarray, axis: Axis, faces: Faces, permuted: PermutedFaces
) -> dict[str, np.ndarray]:
    """Compute `_measure_composition` with nulls of each caption; groups of `explain_missing_p` have no p."""
    tested = np.array([not reason for reason in explain_missing_p(faces, axis)])
    by_caption = []
    for caption, members in enumerate(is_member):
        nulls = permute_nulls(axis, permuted, tested, caption)
        by_caption.append(_measure_composition(members[None], axis, *nulls))
    columns = {
        name: np.concatenate([np.atleast_2d(columns[name]) for columns in by_caption])
        for name in by_caption[0]
    }
    for name in ("p", "null_q95"):
        columns[name] = np.where(tested, columns[name], np.nan)
    if not tested.any():
        for name in ("maxskew_q95", "maxskew_p", "ndkl_q95", "ndkl_p"):
            columns[name] = np.full_like(columns[name], np.nan)
    return columns


def measure_strength(inputs: Inputs) -> Result:
    """Compare the mean cosine of each caption with its k nearest faces to that of baseline captions."""
    k, draws = inputs.protocol.top_k, inputs.protocol.bootstrap
    top = find_nearest(inputs.face_vectors, inputs.caption_vectors, k, CANDIDATES * k if draws else k)
    _, means = resample_top(top, inputs.faces, draws, inputs.seed)
    low, high = _compute_intervals(means)
    baseline = np.sort(find_nearest(inputs.face_vectors, inputs.baseline_vectors, k, k).mean_cosines)

    def to_strength(similarities: np.ndarray) -> np.ndarray:
        share = np.searchsorted(baseline, similarities + TOLERANCE, side="right") / len(baseline)
        return np.where(np.isnan(similarities), np.nan, share)

    columns = {"similarity": top.mean_cosines, "similarity_low": low, "similarity_high": high}
    columns |= {name.replace("similarity", "strength"): to_strength(value) for name, value in columns.items()}
    return pd.DataFrame({"caption": list(inputs.captions), **columns}), {}


def adjust_p(p: np.ndarray) -> np.ndarray:
    """Compute Benjamini and Hochberg's q over captions, for each group, of p [W, G]; NaN stays NaN."""
    return pd.DataFrame(p).apply(metrics.benjamini_hochberg).to_numpy()


def _build_rows(inputs: Inputs, axis: Axis, columns: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Build a row per caption and group from columns that broadcast to [W, G]."""
    shape = len(inputs.captions), len(axis.groups)
    arrays = {
        "caption": np.array(inputs.captions)[:, None],
        "group": np.array(axis.groups),
        "n": axis.sizes,
        "n_rest": len(inputs.faces.cell_of_face) - axis.sizes,
        **columns,
    }
    columns = {name: np.broadcast_to(values, shape).ravel() for name, values in arrays.items()}
    return pd.DataFrame(columns).assign(axis=axis.name)


def _compute_intervals(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute 95% percentile intervals over draws, the second dimension: low and high; NaN without draws."""
    if not draws.shape[1]:
        undefined = np.full(np.delete(draws.shape, 1), np.nan)
        return undefined, undefined
    low, high = np.percentile(draws, (2.5, 97.5), axis=1)
    return low, high


MEASURES: dict[str, Callable[[Inputs], Result]] = {
    "association": measure_association,
    "retrieval": measure_retrieval,
    "strength": measure_strength,
}


def check_faces(cfg: RunConfig, tables: Tables) -> Faces:
    """Check that the faces can be grouped, and that they are more than are retrieved; return them grouped.

    Raises:
        InputError: the faces or axes are invalid.
        NotApplicable: other faces, or a smaller `protocol.top_k`, might be suitable.
    """
    assert isinstance(cfg.exp, SobitConfig)
    faces = group_faces(tables["faces"], cfg.exp.axes)
    if cfg.exp.measure != "association" and cfg.protocol.top_k >= (face_count := len(faces.frame)):
        raise NotApplicable(
            f"protocol.top_k={cfg.protocol.top_k} of {face_count} faces: every caption would retrieve all. "
            f"Set it to {face_count - 1} or less."
        )
    return faces


def run(cfg: RunConfig, tables: Tables, vectors: Vectors) -> AnalysisTables:
    """Compute the measure `cfg.exp.measure` of each word of a taxonomy.

    Vectors are unit-length, in the order of the tables; those of faces are [N, D] or [N, Q, D].

    Returns:
        Analyses: `COLUMNS`, one row per word, axis and group; for strength one row per word. Tables:
        `attributes` (`group`, `template`, `set`, `id`), the faces; for association, `draws` (`caption`,
        `axis`, `draw`, `largest`), the largest |C| of the axis in each bootstrap sample, and `jackknife`; for
        retrieval, `nearest` (`caption`, `rank`, `id`, `similarity`), the retrieved faces.

    Raises:
        InputError: see `check_faces`; or the widths of the vectors differ.
    """
    assert isinstance(cfg.exp, SobitConfig)
    faces, face_vectors, prompt_vectors = check_faces(cfg, tables), vectors["faces"], vectors[PROMPTS]
    if face_vectors.shape[-1] != prompt_vectors.shape[-1]:
        raise InputError(
            f"faces have vectors of width {face_vectors.shape[-1]}, prompts of width "
            f"{prompt_vectors.shape[-1]}. Use vectors of the same model."
        )
    word_rows = load_words(cfg)
    captions = list(dict.fromkeys(word_rows["caption"]))
    sentences = pd.Index(tables[PROMPTS].frame["sentence"])
    inputs = Inputs(
        faces=faces,
        face_vectors=metrics.pool_vectors(face_vectors) if cfg.protocol.pooling == "mean" else face_vectors,
        captions=captions,
        caption_vectors=prompt_vectors[sentences.get_indexer(pd.Index(captions))],
        baseline_vectors=prompt_vectors[sentences.get_indexer(pd.Index(compose_baseline(cfg)))],
        protocol=cfg.protocol,
        seed=cfg.seed,
    )
    measure_rows, extra_tables = MEASURES[cfg.exp.measure](inputs)
    # A word may belong to several categories: its caption is measured once.
    rows = word_rows.assign(taxonomy=cfg.taxonomy.name).merge(measure_rows, on="caption", how="left")
    rows = rows.reindex(columns=list(COLUMNS)).astype(dict.fromkeys(INTEGERS, "Int64"))
    face_groups = [faces.cell_names[cell] for cell in faces.cell_of_face]
    attributes = pd.DataFrame({"group": face_groups, "template": None, "set": face_groups, "id": faces.ids})
    notes = describe_missing_p(faces, cfg.exp.measure) if cfg.protocol.permutations else []
    further = {**extra_tables, "attributes": attributes.astype({"template": "string"})}
    return AnalysisTables(rows, further, notes)
