"""Measure implicit bias: compare similarities of prompts to the faces of groups (Capitani et al. 2024)."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pandas as pd

from src.configs import ProtocolConfig, RunConfig
from src.errors import InputError, NotApplicable, did_you_mean
from src.metrics import iat_scores, interval, permutation_p, pool_vectors, resampled_cles
from src.stimuli import PROMPTS, Table
from src.stimuli.clusters import assign_clusters
from src.studies.implicit.config import AuditConfig
from src.studies.protocol import AnalysisTables, Tables, Vectors
from src.studies.shared.face_axes import group_by_axis
from src.studies.shared.group_comparison import (
    Comparison,
    Group,
    average_comparisons,
    build_group,
    compare_by_pairs,
    compare_by_set,
    describe_missing,
    draw_group_weights,
    draw_pair_partitions,
    sample_rows,
)
from src.studies.shared.jackknife_table import TABLE, Block, build_jackknife_table, compute_means

# Columns of analyses.csv.
COLUMNS = (
    *("attribute", "measure", "group_a", "group_b", "n_a", "n_b"),
    *("delta_gap", "delta_signed", "cohens_d", "z"),
    *("upper_tail", "cles_mcgraw_wong", "cles", "cles_gap", "iat", "null_mean", "null_q95", "p_null"),
    *("p_null_delta", "cles_low", "cles_high", "iat_signed", "iat_low", "iat_high", "iat_rate"),
)
STATISTICS = ("cles", "cles_gap", "iat")  # statistics in draws.parquet
TEXT_COLUMNS = ("id", "group", "template", "set", "word", "attribute", "group_a", "group_b", "kind")
DTYPES = dict.fromkeys(TEXT_COLUMNS, "string") | {"draw": "int32"} | dict.fromkeys(STATISTICS, "float64")


def run(cfg: RunConfig, tables: Tables, vectors: Vectors) -> AnalysisTables:
    """Compare each pair of groups on each set of words.

    Vectors are unit-length, in the order of the tables: faces [N, D] or [N, Q, D], prompts [M, D]. Draws
    depend only on the seed and the faces' ids.

    Returns:
        Analyses: `COLUMNS`, one row per pair of groups and set of words; with several sets, also one row per
        pair of groups for the mean over the sets.
        Tables: `similarities` (`id`, `group`, `set`, `word`, `cosine`; words that occur only in `exp.pairs`
        have no set), `attributes` (the sampled faces, in the columns of propagation's table of A and B:
        `group`, `template` (empty), `set` (the group again) and `id`, with the faces' clusters), `draws`
        (`attribute`, `group_a`, `group_b`, `kind`, `draw`, and `STATISTICS`) and `jackknife`.

    Raises:
        InputError: see `sample_faces`; or the widths of the vectors differ.
        NotApplicable: see `sample_faces`.
    """
    exp, protocol, seed = cfg.exp, cfg.protocol, cfg.seed
    assert isinstance(exp, AuditConfig)
    rows_by_group = sample_faces(cfg, tables)
    faces = group_by_axis(tables["faces"], exp.axis, "exp.axis")
    frame, face_vectors, prompt_vectors = faces.frame, vectors["faces"], vectors[PROMPTS]
    if face_vectors.shape[-1] != prompt_vectors.shape[-1]:
        raise InputError(
            f"faces have vectors of width {face_vectors.shape[-1]}, prompts of width "
            f"{prompt_vectors.shape[-1]}. Use vectors of the same model."
        )
    if protocol.pooling == "mean":
        face_vectors = pool_vectors(face_vectors)
    column_of_word = {word: column for column, word in enumerate(tables[PROMPTS].frame["word"])}
    set_columns = {name: [column_of_word[word] for word in words] for name, words in exp.sets.items()}
    pair_columns = np.array([[column_of_word[word] for word in pair] for pair in exp.pairs]).reshape(-1, 2)
    weights = draw_group_weights(faces, rows_by_group, protocol.bootstrap, seed)
    groups = [
        build_group(name, frame.iloc[rows], face_vectors[rows], prompt_vectors, weights[name])
        for name, rows in rows_by_group.items()
    ]
    analysis_rows: list[dict[str, Any]] = []
    draws: list[pd.DataFrame] = []
    pairs_by_reason: dict[str, list[str]] = {}
    for a, b in combinations(groups, 2):
        rows = rows_by_group[a.name], rows_by_group[b.name]
        partition_masks, reason = draw_pair_partitions(faces, *rows, protocol.partitions, seed)
        if reason:
            pairs_by_reason.setdefault(reason, []).append(f"{a.name} and {b.name}")
        comparisons = {
            name: compare_by_set(a, b, columns, partition_masks, protocol.ties)
            for name, columns in set_columns.items()
        }
        if len(comparisons) > 1:
            comparisons[exp.attribute] = average_comparisons(list(comparisons.values()))
        # The IAT does not depend on the set of words: the rows of all sets repeat it.
        iat_comparison: Comparison = (
            compare_by_pairs(a, b, pair_columns, partition_masks, protocol.iat) if len(pair_columns) else {}
        )
        for name, set_comparison in comparisons.items():
            comparison = {
                kind: statistics | iat_comparison.get(kind, {}) for kind, statistics in set_comparison.items()
            }
            labels = {"attribute": name, "group_a": a.name, "group_b": b.name}
            null_statistic = "iat" if exp.measure == "iat" else "cles_gap"
            analysis_rows.append(labels | _build_row(a, b, comparison, null_statistic))
            draws += _build_draw_tables(labels, comparison)
    size, limit = len(groups[0].ids), protocol.faces_per_group
    notes = describe_missing(pairs_by_reason)
    if size < limit:
        notes.append(
            f"{size} faces per group, fewer than protocol.faces_per_group={limit}, because the smallest "
            "group has no more."
        )
    analyses = pd.DataFrame(analysis_rows).reindex(columns=[*COLUMNS])
    face_clusters = assign_clusters(tables["faces"])
    units = pd.concat(
        [face_clusters.iloc[rows].assign(id=frame["id"].iloc[rows]) for rows in rows_by_group.values()],
        ignore_index=True,
    )
    further = _build_tables(groups, exp, column_of_word, draws)
    further["attributes"] = further["attributes"].join(units.drop(columns="id").astype("string"))
    further[TABLE] = build_jackknife_table(
        [_build_block(groups, units, exp, set_columns, pair_columns, protocol)]
    )
    return AnalysisTables(analyses, further, notes)


def _build_row(a: Group, b: Group, comparison: Comparison, null_statistic: str) -> dict[str, Any]:
    row: dict[str, Any] = {"measure": null_statistic, "n_a": len(a.ids), "n_b": len(b.ids)}
    row |= comparison["observed"]
    null = comparison["null"][null_statistic]
    if len(null):
        row |= {"null_mean": null.mean(), "null_q95": np.quantile(null, 0.95)}
        row["p_null"] = permutation_p(null, row[null_statistic])
        row["p_null_delta"] = permutation_p(comparison["null"]["delta_gap"], row["delta_gap"])
    for name, statistic in (("cles", "cles"), ("iat", "iat_signed")):
        low, high = interval(comparison["bootstrap"].get(statistic, []))
        row |= {f"{name}_low": low, f"{name}_high": high}
    return row


def _build_block(
    groups: Sequence[Group],
    units: pd.DataFrame,
    exp: AuditConfig,
    set_columns: Mapping[str, list[int]],
    pair_columns: np.ndarray,
    protocol: ProtocolConfig,
) -> Block:
    """Build the jackknife block of CLES of each pair of groups and set of words, or of the signed IAT.

    `units` are the faces of all groups, in their order.
    """
    ends = np.cumsum([0, *(len(group.ids) for group in groups)])
    members = [slice(start, end) for start, end in pairwise(ends)]
    pairs = [*combinations(range(len(groups)), 2)]
    names = [f"{groups[a].name}, {groups[b].name}" for a, b in pairs]
    masks_of_groups = [np.isin(np.arange(len(units)), np.r_[rows]) for rows in members]

    def compute_cles(masks: np.ndarray) -> np.ndarray:
        weights = masks.astype(np.int16)
        columns: list[np.ndarray] = []
        for a, b in pairs:
            by_set = [
                resampled_cles(
                    groups[a].cosines[:, words],
                    groups[b].cosines[:, words],
                    weights[:, members[a]],
                    weights[:, members[b]],
                    protocol.ties,
                )
                for words in set_columns.values()
            ]
            columns += [*by_set, np.mean(by_set, axis=0)] if len(by_set) > 1 else by_set
        return np.stack(columns, axis=1)

    def compute_iat(masks: np.ndarray) -> np.ndarray:
        # Signed score of each face, summed over pairs of words.
        scores = [
            iat_scores(*(group.cosines[:, side] for side in pair_columns.T)).sum(axis=1) for group in groups
        ]
        means = [
            compute_means(values, [np.ones(len(values), dtype=bool)])(masks[:, rows])[:, 0]
            for values, rows in zip(scores, members, strict=True)
        ]
        return np.stack([len(groups[a].ids) * (means[a] - means[b]) for a, b in pairs], axis=1)

    if exp.measure == "iat":
        statistics = [("iat", name, 0.0) for name in names]
        return Block(units, statistics, compute_iat, masks_of_groups)
    attributes = [*set_columns, *([exp.attribute] if len(set_columns) > 1 else [])]
    statistics = [("cles", f"{attribute}: {name}", 0.5) for name in names for attribute in attributes]
    return Block(units, statistics, compute_cles, masks_of_groups)


def _build_draw_tables(labels: Mapping[str, str], comparison: Comparison) -> list[pd.DataFrame]:
    draw_tables = []
    for kind in ("bootstrap", "null"):
        statistics = comparison[kind]
        index = pd.RangeIndex(len(statistics["cles"]))
        columns = {name: statistics.get(name, math.nan) for name in STATISTICS}
        draw_tables.append(pd.DataFrame({**labels, "kind": kind, "draw": index, **columns}, index=index))
    return draw_tables


def _build_tables(
    groups: Sequence[Group], exp: AuditConfig, column_of_word: Mapping[str, int], draws: list[pd.DataFrame]
) -> dict[str, pd.DataFrame]:
    set_words = [(name, word) for name, words in exp.sets.items() for word in words]
    words_in_sets = {word for _, word in set_words}
    pair_words = [(None, word) for word in column_of_word if word not in words_in_sets]
    words = pd.DataFrame([*set_words, *pair_words], columns=["set", "word"])
    columns = words["word"].map(column_of_word).to_numpy()
    similarities, attributes = [], []
    for group in groups:
        frame = words.loc[words.index.repeat(len(group.ids))].assign(group=group.name)
        frame = frame.assign(id=np.tile(group.ids, len(words)), cosine=group.cosines[:, columns].T.ravel())
        similarities.append(frame[["id", "group", "set", "word", "cosine"]])
        sampled_faces = {"group": group.name, "template": None, "set": group.name, "id": group.ids}
        attributes.append(pd.DataFrame(sampled_faces))
    table_frames = {"similarities": similarities, "attributes": attributes, "draws": draws}
    tables = {name: pd.concat(frames, ignore_index=True) for name, frames in table_frames.items()}
    return {
        name: table.astype({column: DTYPES[column] for column in table.columns if column in DTYPES})
        for name, table in tables.items()
    }


def build_prompts(cfg: RunConfig) -> Table:
    """Build the distinct prompts of an audit: `id` (the sentence), `sentence`, `word`.

    Raises:
        InputError: the template does not contain `{}` exactly once; there is no set of words; a set or pair
            is empty, or has an empty or repeated word; `attribute` is also the name of one of several sets; a
            pair does not have two words; or an IAT has no pairs.
    """
    exp = cfg.exp
    assert isinstance(exp, AuditConfig)
    if (count := exp.template.count("{}")) != 1:
        raise InputError(
            f"exp.template={exp.template!r}: expected {{}} exactly once, got it {count} times. Edit it."
        )
    if not exp.sets:
        raise InputError("exp.sets: no set of words. Give at least one: name: [word, ...].")
    if len(exp.sets) > 1 and exp.attribute in exp.sets:
        raise InputError(f"exp.attribute={exp.attribute}: a set has this name too. Choose another.")
    if exp.measure == "iat" and not exp.pairs:
        raise InputError("exp.measure=iat: no pairs of words. Give exp.pairs: [[positive, negative], ...].")
    for name, words in exp.sets.items():
        _check_words(f"exp.sets.{name}", words)
    for pair in exp.pairs:
        _check_words(f"exp.pairs: {pair}", pair)
        if len(pair) != 2:
            raise InputError(f"exp.pairs: {pair} is not a pair. Give a positive and a negative word.")
    distinct_words = dict.fromkeys(word for words in (*exp.sets.values(), *exp.pairs) for word in words)
    frame = pd.DataFrame({"word": list(distinct_words)})
    frame["sentence"] = [exp.template.replace("{}", word) for word in distinct_words]
    frame = frame.assign(id=frame["sentence"])[["id", "sentence", "word"]]
    return Table(PROMPTS, frame.sort_values("id", kind="stable", ignore_index=True), len(frame))


def _check_words(setting: str, words: Sequence[str]) -> None:
    if not words or not all(word.strip() for word in words):
        problem = "an empty word" if words else "no word"
        raise InputError(f"{setting}: expected words, got {problem}. Correct the list.")
    word, count = Counter(words).most_common(1)[0]
    if count > 1:
        raise InputError(f"{setting}: {word!r} occurs {count} times. Name each word once.")


def sample_faces(cfg: RunConfig, tables: Tables) -> dict[str, np.ndarray]:
    """Check the groups, and sample equally many faces of each, at most `protocol.faces_per_group`.

    The other chosen groups affect only how many of a group's faces are drawn, see `sample_rows`.

    Returns:
        Group -> ascending rows of its sampled faces in the table; groups are sorted by name.

    Raises:
        InputError: a group is unknown or repeated, or has fewer than two faces; see `group_by_axis`.
        NotApplicable: there are fewer than two groups; see `group_by_axis`.
    """
    exp = cfg.exp
    assert isinstance(exp, AuditConfig)
    faces = group_by_axis(tables["faces"], exp.axis, "exp.axis")
    all_groups = faces.groups
    chosen_groups = all_groups if exp.groups is None else sorted(exp.groups)
    for group in chosen_groups:
        if group not in all_groups:
            hint = did_you_mean(group, all_groups)
            raise InputError(f"exp.groups: no faces of {group!r}.{hint} There are: {', '.join(all_groups)}.")
        if chosen_groups.count(group) > 1:
            raise InputError(f"exp.groups: {group!r} occurs twice. Name each group once.")
    if len(chosen_groups) < 2:
        names = ", ".join(chosen_groups) or "none"
        raise NotApplicable(
            f"faces: an audit compares two or more groups, got {names}. Name them in exp.groups, or choose "
            "another dataset."
        )
    sizes = faces.frame["group"].value_counts()
    for group in chosen_groups:
        if sizes[group] < 2:
            raise InputError(
                f"faces: {sizes[group]} face of {group!r}; an audit needs two of each group. "
                "Add faces, or choose others with exp.groups."
            )
    size = min(cfg.protocol.faces_per_group, *sizes[chosen_groups])
    return sample_rows(faces, chosen_groups, size, cfg.seed)
