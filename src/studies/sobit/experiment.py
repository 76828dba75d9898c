"""Whose faces an encoder finds for the loaded words of a taxonomy (So-B-IT, Hamidieh et al. 2024)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd
from torch import Tensor

from src.configs import RunConfig
from src.errors import InputError, NotApplicable
from src.stimuli import PROMPTS, Table
from src.studies.shared.pooling import pooled
from src.studies.shared.resampling import PARENTS
from src.studies.sobit.axes import Faces, faces_of
from src.studies.sobit.config import SobitConfig
from src.studies.sobit.measures import MEASURES, Asked
from src.studies.sobit.prompts import baseline, places, prompts, words

__all__ = ["COLUMNS", "Sobit", "check", "prompts", "run"]

# Of analyses.csv.
COLUMNS = (
    *("taxonomy", "category", "word", "type", "caption", "axis", "group", "n", "n_rest"),
    *("association", "association_low", "association_high"),
    *("share_topk", "base_share", "ratio", "share_low", "share_high"),
    *("null_q95", "p", "q", "baseline_share"),
    *("entropy", "kl", "maxskew", "ndkl", "maxskew_q95", "maxskew_p", "ndkl_q95", "ndkl_p"),
    *("similarity", "similarity_low", "similarity_high", "strength", "strength_low", "strength_high"),
)
COUNTED = ("n", "n_rest")


@dataclass(frozen=True)
class Sobit:
    """What an audit yields.

    Attributes:
        analyses: `COLUMNS`, one row per word, axis and group; of strength one row per word.
        tables: attributes (`group`, `template`, `set`, `id`: the faces used); of association draws
            (`caption`, `axis`, `draw`, `largest`: bootstrap of the largest absolute association of the axis);
            of retrieval nearest (`caption`, `rank`, `id`, `similarity`: what was retrieved).
        notes: what a reader of the numbers should know.
    """

    analyses: pd.DataFrame
    tables: dict[str, pd.DataFrame]
    notes: list[str]


def check(cfg: RunConfig, faces: Table) -> Faces:
    """See that faces can be grouped, and that some of them are not retrieved.

    Raises:
        InputError: they cannot, or the axes are none; `NotApplicable` where other faces might do.
    """
    assert isinstance(cfg.exp, SobitConfig)
    found, count = faces_of(faces, cfg.exp.axes), len(faces.frame)
    if cfg.exp.measure != "association" and cfg.protocol.top_k >= count:
        raise NotApplicable(
            f"protocol.top_k={cfg.protocol.top_k} of {count} faces: every caption would retrieve all. "
            f"Set it to {count - 1} or less."
        )
    return found


def run(cfg: RunConfig, tables: Mapping[str, Table], vectors: Mapping[str, Tensor]) -> Sobit:
    """Ask an encoder for the words of a taxonomy.

    Args:
        cfg: the job.
        tables: faces and prompts.
        vectors: of both, unit length, in the order of the tables; faces [N, D] or [N, Q, D].

    Raises:
        InputError: see `check`; or vectors do not fit one another.
    """
    assert isinstance(cfg.exp, SobitConfig)
    faces, seen, said = check(cfg, tables["faces"]), vectors["faces"], vectors[PROMPTS]
    if seen.shape[-1] != said.shape[-1]:
        raise InputError(
            f"faces have vectors of width {seen.shape[-1]}, prompts of width {said.shape[-1]}. Take both "
            "from one model."
        )
    spoken = words(cfg)
    own = list(dict.fromkeys(spoken["caption"]))
    asked = Asked(
        faces=faces,
        seen=pooled(seen) if cfg.protocol.pooling == "mean" else seen,
        captions=own,
        said=said[places(tables[PROMPTS], own)],
        held=said[places(tables[PROMPTS], baseline(cfg))],
        protocol=cfg.protocol,
        seed=cfg.seed,
    )
    found, beside = MEASURES[cfg.exp.measure](asked)
    # A word may stand in several categories: its caption is measured once.
    rows = spoken.assign(taxonomy=cfg.taxonomy.name).merge(found, on="caption", how="left")
    rows = rows.reindex(columns=list(COLUMNS)).astype(dict.fromkeys(COUNTED, "Int64"))
    notes = []
    if set(PARENTS) <= set(faces.frame.columns):
        notes.append("morphs share parents and are permuted singly: p is too small; intervals draw parents")
    return Sobit(rows, {**beside, "attributes": _used(faces)}, notes)


def _used(faces: Faces) -> pd.DataFrame:
    whose = [faces.cells[cell] for cell in faces.cell]
    return pd.DataFrame(
        {
            "group": whose,
            "template": pd.array([None] * len(whose), dtype="string"),
            "set": whose,
            "id": faces.ids,
        }
    )
