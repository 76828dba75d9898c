"""Implicit bias: whose faces an encoder finds nearer to prompts (Capitani et al. 2024)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from src.configs import ProtocolConfig
from src.errors import InputError
from src.metrics import interval
from src.stimuli import Table
from src.studies.implicit.audit_stimuli import check, prompts
from src.studies.implicit.config import AuditConfig
from src.studies.shared.group_comparison import Group, Reading, by_pairs, by_set, group_of, mean, partitions
from src.studies.shared.p_values import reached
from src.studies.shared.pooling import pooled

__all__ = ["COLUMNS", "Audit", "check", "prompts", "run"]

# Of analyses.csv.
COLUMNS = (
    *("attribute", "measure", "group_a", "group_b", "n_a", "n_b"),
    *("delta_gap", "delta_signed", "cohens_d", "z"),
    *("upper_tail", "cles_mcgraw_wong", "cles", "cles_gap", "iat", "null_mean", "null_q95", "p_null"),
    *("p_null_delta", "cles_low", "cles_high", "iat_signed", "iat_low", "iat_high", "iat_rate"),
)
DRAWN = ("cles", "cles_gap", "iat")
TEXTS = ("id", "group", "template", "set", "word", "attribute", "group_a", "group_b", "kind")
TYPES = dict.fromkeys(TEXTS, "string") | {"draw": "int32"} | dict.fromkeys(DRAWN, "float64")


@dataclass(frozen=True)
class Audit:
    """What an audit yields.

    Attributes:
        analyses: `COLUMNS`, one row per pair of groups and set; of several sets also one of their means.
        tables: similarities (`id`, `group`, `set`, `word`, `cosine`; a word of pairs alone has no set),
            attributes (`group`, `template`, `set`, `id`: the faces used) and draws (`attribute`, `group_a`,
            `group_b`, `kind`, `draw`, and the statistics `DRAWN`).
        notes: what a reader of the numbers should know.
    """

    analyses: pd.DataFrame
    tables: dict[str, pd.DataFrame]
    notes: list[str]


def run(
    exp: AuditConfig,
    faces: Table,
    prompts: Table,
    face_vectors: Tensor,
    prompt_vectors: Tensor,
    protocol: ProtocolConfig,
    seed: int,
) -> Audit:
    """Compare each pair of groups on each set of words.

    Args:
        exp: words and groups.
        faces: the stimuli.
        prompts: see `prompts`.
        face_vectors: unit vectors in the order of the table, [N, D] or [N, Q, D].
        prompt_vectors: likewise, [M, D].
        protocol: the choices that the paper leaves open.
        seed: of every draw; those hang on it and on the faces' names alone.

    Raises:
        InputError: see `check`; or vectors do not fit one another.
        NotApplicable: see `check`.
    """
    chosen = check(exp, faces, protocol, seed)
    if face_vectors.shape[-1] != prompt_vectors.shape[-1]:
        raise InputError(
            f"{faces.role} have vectors of width {face_vectors.shape[-1]}, {prompts.role} of width "
            f"{prompt_vectors.shape[-1]}. Take both from one model."
        )
    if protocol.pooling == "mean":
        face_vectors = pooled(face_vectors)
    place = {word: number for number, word in enumerate(prompts.frame["word"])}
    sets = {name: [place[word] for word in words] for name, words in exp.sets.items()}
    pairs = np.array([[place[word] for word in pair] for pair in exp.pairs]).reshape(-1, 2)
    groups = [
        group_of(name, faces.frame.iloc[rows], face_vectors[rows], prompt_vectors, protocol, seed)
        for name, rows in chosen.items()
    ]
    rows: list[dict[str, Any]] = []
    draws: list[pd.DataFrame] = []
    for a, b in combinations(groups, 2):
        for name, reading in _readings(a, b, exp, sets, pairs, protocol, seed):
            named = {"attribute": name, "group_a": a.name, "group_b": b.name}
            rows.append(named | _row(a, b, reading, "iat" if exp.measure == "iat" else "cles_gap"))
            draws += _draws(named, reading)
    size, wanted = len(groups[0].ids), protocol.faces_per_group
    notes = [f"{size} faces of each of {len(groups)} groups, {wanted} asked for"] if size < wanted else []
    return Audit(pd.DataFrame(rows).reindex(columns=list(COLUMNS)), _tables(groups, exp, place, draws), notes)


def _readings(
    a: Group,
    b: Group,
    exp: AuditConfig,
    sets: Mapping[str, list[int]],
    pairs: np.ndarray,
    protocol: ProtocolConfig,
    seed: int,
) -> Iterator[tuple[str, Reading]]:
    """What is said of two groups, set by set; of several sets also their means."""
    members = partitions([*a.ids, *b.ids], len(a.ids), protocol.partitions, seed)
    readings = {name: by_set(a, b, columns, members, protocol.ties) for name, columns in sets.items()}
    if len(readings) > 1:
        readings[exp.attribute] = mean(list(readings.values()))
    # Pairs of words belong to no set: their IAT stands beside each.
    implicit: Reading = by_pairs(a, b, pairs, members, protocol.iat) if len(pairs) else {}
    for name, reading in readings.items():
        yield name, {kind: found | implicit.get(kind, {}) for kind, found in reading.items()}


def _row(a: Group, b: Group, reading: Reading, measure: str) -> dict[str, Any]:
    # What the null is of.
    row: dict[str, Any] = {"measure": measure, "n_a": len(a.ids), "n_b": len(b.ids)} | reading["observed"]
    null = reading["null"][measure]
    if len(null):
        row |= {"null_mean": null.mean(), "null_q95": np.quantile(null, 0.95)}
        row["p_null"] = reached(null, row[measure])
        row["p_null_delta"] = reached(reading["null"]["delta_gap"], row["delta_gap"])
    for name, statistic in (("cles", "cles"), ("iat", "iat_signed")):
        low, high = interval(reading["bootstrap"].get(statistic, []))
        row |= {f"{name}_low": low, f"{name}_high": high}
    return row


def _draws(named: Mapping[str, str], reading: Reading) -> list[pd.DataFrame]:
    found = []
    for kind in ("bootstrap", "null"):
        drawn = reading[kind]
        index = pd.RangeIndex(len(drawn["cles"]))
        columns = {name: drawn.get(name, math.nan) for name in DRAWN}
        found.append(pd.DataFrame({**named, "kind": kind, "draw": index, **columns}, index=index))
    return found


def _tables(
    groups: Sequence[Group], exp: AuditConfig, place: Mapping[str, int], draws: list[pd.DataFrame]
) -> dict[str, pd.DataFrame]:
    of_sets = [(name, word) for name, words in exp.sets.items() for word in words]
    of_pairs = [(None, word) for word in place if word not in {own for _, own in of_sets}]
    words = pd.DataFrame([*of_sets, *of_pairs], columns=["set", "word"])
    columns = words["word"].map(place).to_numpy()
    similarities, attributes = [], []
    for one in groups:
        shown = words.loc[words.index.repeat(len(one.ids))].assign(group=one.name)
        shown = shown.assign(id=np.tile(one.ids, len(words)), cosine=one.cosines[:, columns].T.ravel())
        similarities.append(shown[["id", "group", "set", "word", "cosine"]])
        used = {"group": one.name, "template": None, "set": one.name, "id": one.ids}
        attributes.append(pd.DataFrame(used))
    parts = {"similarities": similarities, "attributes": attributes, "draws": draws}
    tables = {name: pd.concat(found, ignore_index=True) for name, found in parts.items()}
    return {
        name: table.astype({column: TYPES[column] for column in table.columns if column in TYPES})
        for name, table in tables.items()
    }
