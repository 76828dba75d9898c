"""Run experiments on matched pictures (docs/methods.md, section 8)."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from torch import Tensor

from src import metrics
from src.configs import RunConfig
from src.errors import InputError, NotApplicable, brief, did_you_mean, first_few
from src.stimuli import PROMPTS, Table
from src.studies.matched import carry_over, retrieval
from src.studies.matched.amplification import compare_shares
from src.studies.matched.captions import compose_captions, list_captions
from src.studies.matched.config import MatchedConfig
from src.studies.matched.exchange import SetExchange, build_exchange
from src.studies.matched.pool import Pool, select_pool
from src.studies.matched.retrieval_columns import (
    Columns,
    compare_with_null,
    describe_observed,
    explain_missing,
    name_rows,
)
from src.studies.matched.retrieval_intervals import compute_order_intervals, compute_share_intervals
from src.studies.protocol import AnalysisTables, Tables, Vectors
from src.studies.shared.real_shares import find_majorities, read_shares

# Columns of analyses.csv of experiments that retrieve pictures.
COLUMNS = (
    *("subject", "caption", "group", "n", "sets", "share_topk", "share_low", "share_high", "base_share"),
    *("null_low", "null_high", "p", "q", "skew", "maxskew", "maxskew_q95", "maxskew_p"),
    *("ndkl", "ndkl_q95", "ndkl_p", "bias", "bias_low", "bias_high", "bias_p"),
    *("recall", "recall_random", "recall_max", "rank", "rank_low", "rank_high"),
    *("rank_null_low", "rank_null_high", "rank_p", "rank_q", "first", "first_low", "first_high"),
    *("real_share", "excess", "excess_low", "excess_high"),
    *("amplification", "amplification_low", "amplification_high", "verdict", "reason"),
)


def check(cfg: RunConfig, tables: Tables) -> Pool:
    """Check sets, captions, sides and real shares before any work; return the pool.

    Raises:
        InputError: a setting is invalid.
        NotApplicable: the faces have no suitable sets, or more items would be retrieved than there are.
    """
    exp = cfg.exp
    assert isinstance(exp, MatchedConfig)
    pool = select_pool(tables["faces"], exp)
    if exp.measure == "carry_over":
        carry_over.check_words(tables["words"], cfg.protocol)
        return pool
    compose_captions(exp, pool.subjects, cfg.protocol.article)
    find_sides(exp, pool.groups)
    if exp.shares is not None:
        read_shares(exp.shares, exp.subject, pool.subjects, pool.groups)
    if cfg.protocol.top_k >= (count := len(pool.ids)):
        raise NotApplicable(
            f"protocol.top_k={cfg.protocol.top_k} of {count} pictures of sets: every caption would retrieve "
            f"all. Set it to {count - 1} or less."
        )
    return pool


def find_sides(exp: MatchedConfig, groups: Sequence[str]) -> list[np.ndarray]:
    """Return masks [G] of the groups of both sides of Bias@K; none for more than two groups without sides.

    Raises:
        InputError: there are not two sides, a side is empty, or a group is unknown or in both.
    """
    sides = [[name] for name in groups] if not exp.sides and len(groups) == 2 else exp.sides
    if not sides:
        return []
    names = [name for side in sides for name in side]
    if len(sides) != 2 or not all(sides) or len({*names}) < len(names):
        raise InputError(
            f"exp.sides={exp.sides}: expected two lists of groups, without a common group: [[Men],[Women]]."
        )
    for name in names:
        if name not in groups:
            raise InputError(
                f"exp.sides: no group {brief(name)!r}.{did_you_mean(name, groups)} There are: "
                f"{first_few(groups, 20)}."
            )
    return [np.isin(groups, side) for side in sides]


def run(cfg: RunConfig, tables: Tables, vectors: Vectors) -> AnalysisTables:
    """Compute the measure `cfg.exp.measure` of each group, for each caption where captions retrieve.

    Vectors are unit-length, in the order of the tables; those of faces are [N, D] or [N, Q, D].

    Returns:
        Analyses: `COLUMNS`, or `carry_over.COLUMNS`. Tables: `attributes`, the pictures used (`group`,
        `template` (empty), `set` (the group again) and `id`); for captions `nearest` (`caption`, `rank`,
        `id`, `similarity`) and `orders` (`caption`, `set`, `id`, `group`, `rank`); for words `targets` (`id`,
        `group`, `set`, `stratum`, `intrinsic`, `measured`, `extrinsic`).

    Raises:
        InputError, NotApplicable: see `check`; or the widths of the vectors differ.
    """
    assert isinstance(cfg.exp, MatchedConfig)
    pool = check(cfg, tables)
    other = PROMPTS if cfg.exp.measure == "retrieval" else "words"
    widths = {role: vectors[role].shape[-1] for role in ("faces", other)}
    if len({*widths.values()}) > 1:
        raise InputError(f"vectors have several widths: {widths}. Use vectors of the same model.")
    exchange = build_exchange(pool)
    notes = [*pool.notes]
    if exchange.n_fixed:
        notes.append(
            f"{exchange.n_fixed} pictures of people whose combination of sets nobody else has: not permuted"
        )
    if cfg.exp.measure == "retrieval" and not find_sides(cfg.exp, pool.groups):
        notes.append(
            f"no Bias@K: {len(pool.groups)} groups; exp.sides=[[GROUP,...],[GROUP,...]] names its two sides"
        )
    faces = vectors["faces"][pool.rows.tolist()]
    faces = metrics.pool_vectors(faces) if cfg.protocol.pooling == "mean" else faces
    measure = _measure_retrieval if cfg.exp.measure == "retrieval" else carry_over.measure
    rows, further = measure(cfg, pool, exchange, faces, tables[other], vectors[other])
    groups = np.array(pool.groups)[pool.group_of]
    attributes = pd.DataFrame({"group": groups, "template": None, "set": groups, "id": pool.ids})
    further["attributes"] = attributes.astype({"template": "string"})
    notes += [reason for reason in dict.fromkeys(rows["reason"]) if reason]
    return AnalysisTables(rows, further, notes)


def _measure_retrieval(
    cfg: RunConfig, pool: Pool, exchange: SetExchange, faces: Tensor, prompts: Table, prompt_vectors: Tensor
) -> tuple[pd.DataFrame, dict[str, pd.DataFrame]]:
    """Retrieve pictures for each caption; return the rows of analyses.csv and further tables."""
    exp, protocol = cfg.exp, cfg.protocol
    assert isinstance(exp, MatchedConfig)
    captions = list_captions(prompts)
    caption_vectors = prompt_vectors[captions["row"].tolist()]
    retrieved = retrieval.retrieve(pool, captions, caption_vectors, faces, protocol.top_k)
    sides = find_sides(exp, pool.groups)
    observed = retrieval.compute_statistics(pool, retrieved, pool.group_of[None], sides)
    real = np.full((len(captions), len(pool.groups)), np.nan)
    if exp.shares is not None:
        shares = read_shares(exp.shares, exp.subject, pool.subjects, pool.groups)
        real = shares.reindex(captions["subject"]).to_numpy()
    majorities = find_majorities(real)
    share_intervals = compute_share_intervals(pool, retrieved, sides, majorities)
    order_intervals = compute_order_intervals(pool, retrieved)
    g = len(pool.groups)
    columns: Columns = name_rows(pool, retrieved) | describe_observed(observed, pool.base, protocol.top_k)
    columns |= share_intervals.columns("share", slice(0, g), (0, 1))
    columns |= share_intervals.columns("bias", slice(g, g + 1), (-1, 1))
    columns |= order_intervals.columns("rank", slice(0, g), (0, 1))
    columns |= order_intervals.columns("first", slice(g, None), (0, 1))
    columns["first"] = order_intervals.estimates[:, g:]
    reasons = {"share": share_intervals.reasons, "rank": order_intervals.reasons}
    missing = explain_missing(pool, retrieved, exchange)
    if protocol.permutations:
        null = retrieval.permute_statistics(pool, retrieved, exchange, sides, protocol.permutations, cfg.seed)
        columns |= compare_with_null(observed, null, missing)
        reasons |= {"p": missing[0], "rank_p": missing[1]}
    if exp.shares is not None:
        columns |= compare_shares(real, majorities, share_intervals)
    columns["reason"] = _join_reasons(reasons)[:, None]
    shape = observed.shares.shape[1:]
    rows = pd.DataFrame({name: np.broadcast_to(values, shape).ravel() for name, values in columns.items()})
    further = {
        "nearest": retrieval.tabulate_nearest(pool, retrieved),
        "orders": retrieval.tabulate_orders(pool, retrieved),
    }
    return rows.reindex(columns=[*COLUMNS]), further


def _join_reasons(reasons: Mapping[str, Sequence[str]]) -> np.ndarray:
    """Join the reasons of several statistics, each [W + 1], by row."""
    by_row = zip(*reasons.values(), strict=True)
    texts = [
        "; ".join(f"{name}: {text}" for name, text in zip(reasons, row, strict=True) if text)
        for row in by_row
    ]
    return np.array(texts, dtype=object)
