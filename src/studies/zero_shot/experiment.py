"""How often a scene finds a word that means what it shows: what a projection costs in use.

Own words are those of like valence, so that no group is involved. In the built-in world they are the words
that a scene's captions were drawn from; of published scenes and words the ratings of both say it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from scipy.stats import rankdata
from torch import Tensor

from src.configs import ProtocolConfig
from src.errors import InputError
from src.metrics import similarity
from src.metrics.bootstrap import interval
from src.stimuli import CARRIES, IMAGE_ROLES, TEXT_ROLES, Table
from src.studies.shared import resampling
from src.studies.shared.exchange_units import exchange_of
from src.studies.shared.p_values import reached
from src.studies.shared.pooling import pooled
from src.studies.zero_shot.config import ZeroShotConfig

# Targets whose similarities are in memory at a time.
BLOCK = 256
STRATUM = "scenes"


@dataclass(frozen=True)
class Accuracy:
    """What the experiment yields.

    Attributes:
        analyses: one row: `n`, `accuracy`, `chance` (a word drawn at random is one of the scene's own), the
            interval `ci_low, ci_high`, `placebo_q95`, `p_placebo` (ratings exchanged over the words).
        tables: `targets` (`extrinsic`: the share of templates in which the nearest word is one of the
            scene's own) and `draws`.
        notes: none.
    """

    analyses: pd.DataFrame
    tables: Mapping[str, pd.DataFrame]
    notes: list[str]


def check(exp: ZeroShotConfig, targets: Table, corpus: Table) -> None:
    """See that the roles are a pair of images and texts that carry valence.

    Raises:
        InputError: they are not.
    """
    wanted = (("targets", targets, IMAGE_ROLES), ("corpus", corpus, TEXT_ROLES))
    for name, table, roles in wanted:
        if table.role not in roles or CARRIES[table.role] != "valence":
            raise InputError(
                f"exp.{name}={table.role}: own words are asked of scenes among words. Say exp.targets=scenes "
                "exp.corpus=words."
            )
    if not 0 < exp.tolerance < 1:
        raise InputError(f"exp.tolerance={exp.tolerance:g}: must be between 0 and 1.")


def run(
    exp: ZeroShotConfig,
    targets: Table,
    corpus: Table,
    target_vectors: Tensor,
    corpus_vectors: Tensor,
    protocol: ProtocolConfig,
    seed: int,
) -> Accuracy:
    """The share of scenes whose nearest word, template by template, is one of their own.

    Args:
        exp: how near a word's valence must be.
        targets: scenes.
        corpus: words in templates.
        target_vectors: [N, D] or [N, Q, D].
        corpus_vectors: [M, D].
        protocol: draws and permutations.
        seed: of both.

    Raises:
        InputError: see `check`.
    """
    check(exp, targets, corpus)
    if protocol.pooling == "mean":
        target_vectors = pooled(target_vectors)
    exchange = exchange_of(corpus, seed)
    nearest = exchange.unit[_nearest(target_vectors, corpus_vectors, corpus)]
    shown = _ranks(targets.frame["valence"].to_numpy())
    rated = _ranks(corpus.frame["valence"].to_numpy()[exchange.grid[:, 0]])
    right = np.abs(shown[:, None] - rated[nearest]) <= exp.tolerance
    own, frame = right.mean(axis=1), targets.frame
    placebo = np.array(
        [
            (np.abs(shown[:, None] - rated[moved][nearest]) <= exp.tolerance).mean()
            for moved in exchange.permutations(protocol.placebo)
        ]
    )
    weights = resampling.weights(frame.assign(name=frame["id"]), protocol.bootstrap, seed)
    drawn = weights @ own / np.maximum(weights.sum(axis=1), 1)
    low, high = interval(drawn)
    row = {
        "n": len(own),
        "accuracy": own.mean(),
        # Over all words, as a blind choice among them would do.
        "chance": (np.abs(shown[:, None] - rated[None]) <= exp.tolerance).mean(),
        "ci_low": low,
        "ci_high": high,
        "placebo_q95": np.quantile(placebo, 0.95) if len(placebo) else np.nan,
        "p_placebo": reached(placebo, own.mean()) if len(placebo) else np.nan,
    }
    return Accuracy(
        pd.DataFrame([row]), {"targets": _targets(frame, own), "draws": _draws(drawn, placebo)}, []
    )


def _nearest(targets: Tensor, corpus: Tensor, table: Table) -> np.ndarray:
    """[N, templates]: row of the nearest sentence of each template; the first of equal ones."""
    templates = table.frame["template"].to_numpy()
    rows = [np.flatnonzero(templates == template) for template in sorted(set(templates))]
    found = np.empty((len(targets), len(rows)), dtype=np.int64)
    for start in range(0, len(targets), BLOCK):
        similar = similarity(targets[start : start + BLOCK], corpus)
        for number, own in enumerate(rows):
            found[start : start + BLOCK, number] = own[torch.argmax(similar[:, own], dim=1).numpy()]
    return found


def _ranks(valence: np.ndarray) -> np.ndarray:
    # Spread evenly over 0 to 1: ratings crowd where a lexicon or a picture set has most.
    ranks: np.ndarray = (rankdata(valence) - 0.5) / len(valence)
    return ranks


def _targets(frame: pd.DataFrame, own: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "id": frame["id"].to_numpy(),
            "group": pd.array([None] * len(frame), dtype="string"),
            "stratum": STRATUM,
            "intrinsic": np.nan,
            "extrinsic": own,
        }
    )


def _draws(drawn: np.ndarray, placebo: np.ndarray) -> pd.DataFrame:
    parts = [
        pd.DataFrame({"stratum": STRATUM, "kind": kind, "draw": np.arange(len(values)), "accuracy": values})
        for kind, values in (("bootstrap", drawn), ("placebo", placebo))
    ]
    return pd.concat(parts, ignore_index=True)
