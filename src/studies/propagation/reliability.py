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
from src.metrics.jackknife import compute_t_interval, replicate
from src.stimuli import CARRIES, TEXT_ROLES, Table
from src.studies.propagation.attributes import VALENCE, Corpus, subcorpus_of
from src.studies.propagation.corpus_halves import FIRST, NEITHER, SECOND, split_templates, split_units
from src.studies.propagation.measures import extrinsic_of, intrinsic_of
from src.studies.propagation.scores import Associations, Outcomes
from src.studies.propagation.similarity_blocks import similarity_blocks
from src.studies.propagation.uncertainty import compute_mean_rhos
from src.studies.propagation.units import Stratum, Units
from src.studies.shared.cluster_jackknife import build_subsamples
from src.studies.shared.exchange_units import Exchange, build_exchange

SPLITS = 20  # number of splits
# Below this reliability of either score, rho is not corrected.
MIN_RELIABILITY = 0.2
# Correlations of a split: of each score from one half with itself from the other, and across scores.
CORRELATIONS = ("measured", "retrieved", "cross")


def check(corpus: Table, protocol: ProtocolConfig, seed: int) -> None:
    """Check that targets can be scored on both halves of every split; raise `NotApplicable` otherwise."""
    exchange = build_exchange(corpus, seed)
    for split in range(1, SPLITS + 1):
        try:
            for half in halves_of(corpus, exchange, protocol, seed, split):
                extrinsic_of(protocol).check(half)
        except NotApplicable as error:
            raise NotApplicable(
                "exp.reliability=true halves the corpus, and with it protocol.k, extremes and set_size. "
                f"Split {split}: {error}"
            ) from None


def halves_of(
    corpus: Table, exchange: Exchange, protocol: ProtocolConfig, seed: int, split: int
) -> Iterator[Corpus]:
    """Yield both halves of a corpus in a split (1, 2, ...), which share no cluster.

    They share no template either, unless the corpus has only one.

    Raise `NotApplicable` if a half is too small.
    """
    if CARRIES[corpus.role] == VALENCE and protocol.extremes < 2:
        raise NotApplicable(f"protocol.extremes={protocol.extremes} cannot be halved. Set it to 2 or more.")
    sizes = {name: getattr(protocol, name) // 2 for name in ("k", "extremes", "set_size")}
    _, halves = split_units(corpus, exchange, seed, split)
    if corpus.role in TEXT_ROLES:
        halves = np.where(halves & split_templates(corpus, seed, split), halves, NEITHER)
    for name in (FIRST, SECOND):
        half = subcorpus_of(corpus, exchange, replace(protocol, **sizes), seed, halves == name)
        retrieves = extrinsic_of(protocol).retrieves
        yield replace(half, pools=[replace(pool, k=pool.k * retrieves) for pool in half.pools])


def reliability_of(
    corpus: Table,
    vectors: tuple[Tensor, Tensor],
    units: Units,
    unit_clusters: pd.DataFrame,
    strata: Sequence[Stratum],
    protocol: ProtocolConfig,
    seed: int,
) -> tuple[list[dict[str, Any]], pd.DataFrame]:
    """Estimate, for each stratum, the reliability of both scores and rho corrected for it.

    Args:
        corpus: table of the corpus.
        vectors: vectors of the targets and of the corpus.
        units: units of analysis.
        unit_clusters: clusters of each unit.
        strata: strata, one per analysis.
        protocol: protocol of the experiment.
        seed: seed of the splits.

    Returns:
        The columns `combined.RELIABILITY` of each stratum; table of `stratum`, `split` and `CORRELATIONS`.
    """
    used_units = np.unique(np.concatenate([stratum.rows for stratum in strata]))
    targets = vectors[0][torch.from_numpy(units.rows[used_units].reshape(-1))]
    rows = np.arange(len(targets)).reshape(len(used_units), -1)
    scored_units = Units(units.frame.iloc[used_units], rows)
    exchange = build_exchange(corpus, seed)
    scores = [
        [
            _score_half(half, targets, vectors[1], scored_units)
            for half in halves_of(corpus, exchange, protocol, seed, split)
        ]
        for split in range(1, SPLITS + 1)
    ]
    columns, tables = [], []
    for stratum in strata:
        members = np.searchsorted(used_units, stratum.rows)
        # [splits, halves, 2, n]: intrinsic and extrinsic score.
        values = np.stack([[half[..., members, stratum.column] for half in split] for split in scores])
        row, table = summarise_splits(values, unit_clusters.iloc[stratum.rows], units.blocks[stratum.rows])
        columns.append(row)
        tables.append(table.assign(stratum=stratum.name))
    return columns, pd.concat(tables, ignore_index=True)[["stratum", "split", *CORRELATIONS]]


def _score_half(half: Corpus, targets: Tensor, corpus_vectors: Tensor, units: Units) -> np.ndarray:
    """Compute both scores on half of a corpus, [2, units, S]."""
    vectors, protocol = (targets, corpus_vectors), half.protocol
    associations = Associations(*vectors, half.pools, intrinsic_of(protocol), protocol)
    scorer = extrinsic_of(protocol).scorer(half, *vectors, units.rows[:0])
    outcomes = Outcomes(len(targets), half.pools, scorer)
    for block in similarity_blocks(*vectors, half.pools, with_similarities=False):
        associations.add(block)
        outcomes.add(block)
    return np.stack([units.average(associations.scores), units.average(outcomes.scores)])


def summarise_splits(
    scores: np.ndarray, unit_clusters: pd.DataFrame, blocks: np.ndarray
) -> tuple[dict[str, Any], pd.DataFrame]:
    """Summarise the scores of a stratum's units from halves of the corpus.

    Args:
        scores: [splits, 2 halves, 2, n] intrinsic and extrinsic scores.
        unit_clusters: clusters of each unit, as in `build_subsamples`.
        blocks: [n] index of each unit's block; correlations are averaged over blocks.

    Returns:
        The columns `combined.RELIABILITY`; table of `CORRELATIONS` and `split`.
    """
    values = np.full((len(scores), len(CORRELATIONS)), math.nan)
    for index, split in enumerate(scores):
        if (defined := _mask_defined(split)).any():
            weights = np.ones((1, int(defined.sum())), dtype=bool)
            values[index] = _correlate_split(split[..., defined], blocks[defined], weights)[0]
    measured, retrieved, cross = values.mean(axis=0)
    reliabilities = {
        "reliability_measured": float(spearman_brown(measured)),
        "reliability_retrieved": float(spearman_brown(retrieved)),
    }
    row: dict[str, Any] = {"rho_cross": float(cross), **reliabilities}
    row["noise_ceiling"] = float(noise_ceiling(measured, retrieved))
    row |= dict.fromkeys(("rho_true", "rho_true_low", "rho_true_high"), math.nan)
    row["reliability_reason"] = _explain_refusal(scores, values, *reliabilities.values())
    if not row["reliability_reason"]:
        row["rho_true"] = float(disattenuate(cross, measured, retrieved))
        row["rho_true_low"], row["rho_true_high"] = _compute_interval(
            row["rho_true"], scores[0], unit_clusters, blocks
        )
    table = pd.DataFrame(values, columns=[*CORRELATIONS])
    return row, table.assign(split=np.arange(1, len(scores) + 1))


def _mask_defined(split: np.ndarray) -> np.ndarray:
    """Mark the units whose scores are defined in both halves of a split, [n]."""
    return np.asarray(~np.isnan(split).any(axis=(0, 1)))


def _correlate_split(split: np.ndarray, blocks: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Compute `CORRELATIONS` in G weighted samples, [G, 3]; a split has scores [2 halves, 2, n]."""
    (x, y), (other_x, other_y) = split
    pairs = (x, other_x), (y, other_y), (x, other_y), (other_x, y)
    measured, retrieved, *cross = (compute_mean_rhos(*pair, weights, blocks) for pair in pairs)
    return np.column_stack([measured, retrieved, np.mean(cross, axis=0)])


def _explain_refusal(scores: np.ndarray, values: np.ndarray, measured: float, retrieved: float) -> str:
    """Explain why rho cannot be corrected; empty if it can. `values` [splits, 3] are the `CORRELATIONS`."""
    if np.isnan(values).any():
        (x, y), (other_x, other_y) = scores[int(np.isnan(values).any(axis=1).argmax())]
        reasons = (spearman(*pair).reason for pair in ((x, other_y), (other_x, y)))
        return f"half of the corpus: {next(filter(None, reasons), 'no ρ in a template')}"
    for name, value in (("intrinsic score", measured), ("outcome", retrieved)):
        if not value >= MIN_RELIABILITY:
            return f"the reliability of the {name}, {value:.2f}, is below {MIN_RELIABILITY}"
    return ""


def _compute_interval(
    rho: float, split: np.ndarray, unit_clusters: pd.DataFrame, blocks: np.ndarray
) -> tuple[float, float]:
    """Compute the interval of a corrected rho from its jackknife variance in one split; NaN if undefined."""
    defined = _mask_defined(split)
    subsamples = build_subsamples(unit_clusters[defined])
    if subsamples.reason:
        return math.nan, math.nan

    def correct(weights: np.ndarray) -> np.ndarray:
        measured, retrieved, cross = _correlate_split(split[..., defined], blocks[defined], weights).T
        return disattenuate(cross, measured, retrieved)[:, None]

    return compute_t_interval(rho, float(replicate(subsamples, correct).variance()[0]), subsamples.df)
