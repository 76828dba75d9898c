"""Estimate the reliability of both scores from halves of the corpus (docs/methods.md, section 6.14)."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from src.configs import ProtocolConfig
from src.errors import NotApplicable
from src.metrics import disattenuate, noise_ceiling, spearman, spearman_brown
from src.metrics.jackknife import replicate, t_interval
from src.stimuli import CARRIES, TEXT_ROLES, Table
from src.studies.propagation.attributes import VALENCE, Corpus, subcorpus_of
from src.studies.propagation.corpus_halves import FIRST, NEITHER, SECOND, split_templates, split_units
from src.studies.propagation.measures import extrinsic_of, intrinsic_of
from src.studies.propagation.scores import Associations, Outcomes
from src.studies.propagation.similarity_blocks import similarity_blocks
from src.studies.propagation.uncertainty import mean_rhos
from src.studies.propagation.units import Stratum, Units
from src.studies.shared.cluster_jackknife import deletions
from src.studies.shared.exchange_units import Exchange, exchange_of

SPLITS = 20
# Below this reliability of either score, rho is not corrected.
MIN_RELIABILITY = 0.2
# Correlations of a split: of one score from both halves, and of both scores from different halves.
CORRELATIONS = ("measured", "retrieved", "cross")


def check(corpus: Table, protocol: ProtocolConfig, seed: int) -> None:
    """Check that both halves of every split can be scored; raise `NotApplicable` otherwise."""
    exchange = exchange_of(corpus, seed)
    for split in range(1, SPLITS + 1):
        try:
            for half in halves_of(corpus, exchange, protocol, seed, split):
                extrinsic_of(protocol).check(half)
        except NotApplicable as error:
            raise NotApplicable(
                "exp.reliability=true halves the corpus, and protocol.k, extremes and set_size with it. "
                f"Split {split}: {error}"
            ) from None


def halves_of(
    corpus: Table, exchange: Exchange, protocol: ProtocolConfig, seed: int, split: int
) -> Iterator[Corpus]:
    """Yield both halves of a corpus in a split (its number, from 1); they share no cluster and no template.

    Raise `NotApplicable` if a half is too small.
    """
    if CARRIES[corpus.role] == VALENCE and protocol.extremes < 2:
        raise NotApplicable(f"protocol.extremes={protocol.extremes} has no half. Set 2 or more.")
    sizes = {name: getattr(protocol, name) // 2 for name in ("k", "extremes", "set_size")}
    _, halves = split_units(corpus, exchange, seed, split)
    if corpus.role in TEXT_ROLES:
        halves = np.where(halves & split_templates(corpus, seed, split), halves, NEITHER)
    for number in (FIRST, SECOND):
        half = subcorpus_of(corpus, exchange, replace(protocol, **sizes), seed, halves == number)
        retrieves = extrinsic_of(protocol).retrieves
        yield replace(half, pools=[replace(pool, k=pool.k * retrieves) for pool in half.pools])


def reliability_of(
    corpus: Table,
    vectors: tuple[Tensor, Tensor],
    units: Units,
    ways: pd.DataFrame,
    strata: Sequence[Stratum],
    protocol: ProtocolConfig,
    seed: int,
) -> tuple[list[dict[str, Any]], pd.DataFrame]:
    """Estimate the reliability of both scores, and rho corrected for it, of each stratum.

    Args:
        corpus: table of the corpus.
        vectors: vectors of the targets and of the corpus.
        units: units of analysis.
        ways: clusters of each unit.
        strata: strata, one per analysis.
        protocol: protocol of the experiment, as `check` accepts it.
        seed: seed of the splits.

    Returns:
        Columns of each stratum, and the correlations of each split: `stratum`, `split` and `CORRELATIONS`.
    """
    used = np.unique(np.concatenate([stratum.rows for stratum in strata]))
    targets = vectors[0][torch.from_numpy(units.rows[used].reshape(-1))]
    rows = np.arange(len(targets)).reshape(len(used), -1)
    scored = Units(units.frame.iloc[used], rows)
    exchange = exchange_of(corpus, seed)
    scores = [
        [_score(half, targets, vectors[1], scored) for half in halves_of(corpus, exchange, protocol, seed, n)]
        for n in range(1, SPLITS + 1)
    ]
    columns, tables = [], []
    for stratum in strata:
        members = np.searchsorted(used, stratum.rows)
        # [splits, halves, 2, n]: intrinsic and extrinsic score.
        values = np.stack([[half[..., members, stratum.column] for half in split] for split in scores])
        row, table = summarise(values, ways.iloc[stratum.rows], units.blocks[stratum.rows])
        columns.append(row)
        tables.append(table.assign(stratum=stratum.name))
    return columns, pd.concat(tables, ignore_index=True)[["stratum", "split", *CORRELATIONS]]


def _score(half: Corpus, targets: Tensor, corpus_vectors: Tensor, units: Units) -> np.ndarray:
    """Compute both scores from half of a corpus, [2, units, S]."""
    vectors, protocol = (targets, corpus_vectors), half.protocol
    associations = Associations(*vectors, half.pools, intrinsic_of(protocol), protocol)
    scorer = extrinsic_of(protocol).scorer(half, *vectors, units.rows[:0])
    outcomes = Outcomes(len(targets), half.pools, scorer)
    for block in similarity_blocks(*vectors, half.pools, every=False):
        associations.add(block)
        outcomes.add(block)
    return np.stack([units.average(associations.scores), units.average(outcomes.scores)])


def summarise(
    scores: np.ndarray, ways: pd.DataFrame, blocks: np.ndarray
) -> tuple[dict[str, Any], pd.DataFrame]:
    """Summarise the scores of a stratum's units from halves of the corpus.

    Args:
        scores: [splits, 2 halves, 2, n] intrinsic and extrinsic scores.
        ways: clusters of each unit, as in `deletions`.
        blocks: [n] number of each unit's block; correlations are averaged over blocks.

    Returns:
        The columns of an analysis, and the table of `split` and `CORRELATIONS`.
    """
    values = np.full((len(scores), len(CORRELATIONS)), math.nan)
    for number, split in enumerate(scores):
        if (defined := _defined(split)).any():
            weights = np.ones((1, int(defined.sum())), dtype=bool)
            values[number] = _correlations(split[..., defined], blocks[defined], weights)[0]
    measured, retrieved, cross = values.mean(axis=0)
    reliabilities = {
        "reliability_measured": float(spearman_brown(measured)),
        "reliability_retrieved": float(spearman_brown(retrieved)),
    }
    row: dict[str, Any] = {"rho_cross": float(cross), **reliabilities}
    row["noise_ceiling"] = float(noise_ceiling(measured, retrieved))
    row |= dict.fromkeys(("rho_true", "rho_true_low", "rho_true_high"), math.nan)
    row["reliability_reason"] = _refusal(scores, values, *reliabilities.values())
    if not row["reliability_reason"]:
        row["rho_true"] = float(disattenuate(cross, measured, retrieved))
        row["rho_true_low"], row["rho_true_high"] = _interval(row["rho_true"], scores[0], ways, blocks)
    table = pd.DataFrame(values, columns=[*CORRELATIONS])
    return row, table.assign(split=np.arange(1, len(scores) + 1))


def _defined(split: np.ndarray) -> np.ndarray:
    return np.asarray(~np.isnan(split).any(axis=(0, 1)))


def _correlations(split: np.ndarray, blocks: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Compute `CORRELATIONS` of samples with weights [G, n] from scores [2 halves, 2, n], [G, 3]."""
    (x, y), (other_x, other_y) = split
    pairs = (x, other_x), (y, other_y), (x, other_y), (other_x, y)
    measured, retrieved, *cross = (mean_rhos(*pair, weights, blocks) for pair in pairs)
    return np.column_stack([measured, retrieved, np.mean(cross, axis=0)])


def _refusal(scores: np.ndarray, values: np.ndarray, measured: float, retrieved: float) -> str:
    """Explain why rho cannot be corrected; empty where it can."""
    if np.isnan(values).any():
        (x, y), (other_x, other_y) = scores[int(np.isnan(values).any(axis=1).argmax())]
        reasons = (spearman(*pair).reason for pair in ((x, other_y), (other_x, y)))
        return f"half of the corpus: {next(filter(None, reasons), 'no ρ in a template')}"
    for name, value in (("intrinsic score", measured), ("outcome", retrieved)):
        if not value >= MIN_RELIABILITY:
            return f"the reliability of the {name}, {value:.2f}, is below {MIN_RELIABILITY}"
    return ""


def _interval(rho: float, split: np.ndarray, ways: pd.DataFrame, blocks: np.ndarray) -> tuple[float, float]:
    """Compute the interval of a corrected rho with the jackknife variance of one split."""
    defined = _defined(split)
    removed = deletions(ways[defined])
    if removed.reason:
        return math.nan, math.nan

    def corrected(weights: np.ndarray) -> np.ndarray:
        measured, retrieved, cross = _correlations(split[..., defined], blocks[defined], weights).T
        return disattenuate(cross, measured, retrieved)[:, None]

    return t_interval(rho, float(replicate(removed, corrected).variance()[0]), removed.df)
