"""Audit an encoder's retrieval of faces for loaded words of a taxonomy (So-B-IT, Hamidieh et al. 2024)."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd
from torch import Tensor

from src.configs import RunConfig
from src.errors import InputError, NotApplicable
from src.metrics import pool_vectors
from src.stimuli import PROMPTS, Table
from src.studies.sobit.axes import Faces, group_faces
from src.studies.sobit.config import SobitConfig
from src.studies.sobit.label_exchange import notes_on_p
from src.studies.sobit.measures import MEASURES, Inputs
from src.studies.sobit.prompts import baseline, words

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


@dataclass(frozen=True)
class Sobit:
    """The results of an audit."""

    analyses: pd.DataFrame  # `COLUMNS`, one row per word, axis and group; for strength one row per word
    # "attributes" (`group`, `template`, `set`, `id`): the faces used; of association, "draws" (`caption`,
    # `axis`, `draw`, `largest`): bootstrap of the axis's largest absolute association; of retrieval,
    # "nearest" (`caption`, `rank`, `id`, `similarity`): the retrieved faces.
    tables: dict[str, pd.DataFrame]
    notes: list[str]  # caveats for readers of the numbers


def check(cfg: RunConfig, faces: Table) -> Faces:
    """Check that the faces can be grouped and that no caption would retrieve all; return them grouped.

    Raises:
        InputError: the faces or axes are invalid; `NotApplicable` if other faces might be valid.
    """
    assert isinstance(cfg.exp, SobitConfig)
    grouped_faces, face_count = group_faces(faces, cfg.exp.axes), len(faces.frame)
    if cfg.exp.measure != "association" and cfg.protocol.top_k >= face_count:
        raise NotApplicable(
            f"protocol.top_k={cfg.protocol.top_k} of {face_count} faces: every caption would retrieve all. "
            f"Set it to {face_count - 1} or less."
        )
    return grouped_faces


def run(cfg: RunConfig, tables: Mapping[str, Table], vectors: Mapping[str, Tensor]) -> Sobit:
    """Compute association, retrieval or strength, by `cfg.exp`, of each word of a taxonomy.

    Vectors are unit-length, in the order of the tables; those of faces are [N, D] or [N, Q, D].

    Raises:
        InputError: see `check`; or the widths of the vectors differ.
    """
    assert isinstance(cfg.exp, SobitConfig)
    faces, face_vectors, prompt_vectors = check(cfg, tables["faces"]), vectors["faces"], vectors[PROMPTS]
    if face_vectors.shape[-1] != prompt_vectors.shape[-1]:
        raise InputError(
            f"faces have vectors of width {face_vectors.shape[-1]}, prompts of width "
            f"{prompt_vectors.shape[-1]}. Use vectors of the same model."
        )
    word_rows = words(cfg)
    captions = list(dict.fromkeys(word_rows["caption"]))
    sentences = pd.Index(tables[PROMPTS].frame["sentence"])
    inputs = Inputs(
        faces=faces,
        face_vectors=pool_vectors(face_vectors) if cfg.protocol.pooling == "mean" else face_vectors,
        captions=captions,
        caption_vectors=prompt_vectors[sentences.get_indexer(pd.Index(captions))],
        baseline_vectors=prompt_vectors[sentences.get_indexer(pd.Index(baseline(cfg)))],
        protocol=cfg.protocol,
        seed=cfg.seed,
    )
    measure_rows, extra_tables = MEASURES[cfg.exp.measure](inputs)
    # A word may belong to several categories: its caption is measured once.
    rows = word_rows.assign(taxonomy=cfg.taxonomy.name).merge(measure_rows, on="caption", how="left")
    rows = rows.reindex(columns=list(COLUMNS)).astype(dict.fromkeys(INTEGERS, "Int64"))
    cell_names = [faces.cells[cell] for cell in faces.cell]
    attributes = pd.DataFrame({"group": cell_names, "template": None, "set": cell_names, "id": faces.ids})
    notes = notes_on_p(faces, cfg.exp.measure) if cfg.protocol.permutations else []
    return Sobit(rows, {**extra_tables, "attributes": attributes.astype({"template": "string"})}, notes)
