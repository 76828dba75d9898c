"""Attribute sets A and B, and the pools of the corpus in which they lie (METHODS §2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from src.configs import ProtocolConfig
from src.errors import NotApplicable
from src.stimuli import CARRIES, IMAGE_ROLES, Table

VALENCE = "valence"


@dataclass(frozen=True)
class Pool:
    """A part of the corpus within which A and B lie and from which is retrieved.

    A text corpus that carries valence has one pool per template, any other corpus has one.

    Attributes:
        rows: positions [M] in the corpus's table.
        template: of the pool's sentences; None where the pool is the whole corpus.
        a, b: for each of S analyses, positions within the pool of the items of A and of B.
        outcomes: [M, S], what each item contributes to each outcome.
    """

    rows: np.ndarray
    template: str | None
    a: list[np.ndarray]
    b: list[np.ndarray]
    outcomes: np.ndarray


def pools(corpus: Table, protocol: ProtocolConfig, seed: int) -> list[Pool]:
    """The pools of a corpus, with their attribute sets.

    Args:
        corpus: the stimuli that are retrieved.
        protocol: sizes of the sets.
        seed: of the draw of A and B where the corpus carries a group.

    Raises:
        NotApplicable: the corpus is too small for the sets or for k.
    """
    if CARRIES[corpus.role] == VALENCE:
        found = _valence_pools(corpus, protocol)
    else:
        found = [_group_pool(corpus, protocol, seed)]
    for pool in found:
        if protocol.k >= len(pool.rows):
            place = f" in the template {pool.template!r}" if pool.template else ""
            raise NotApplicable(
                f"protocol.k={protocol.k} of {len(pool.rows)} {corpus.role}{place}: everything would be "
                f"retrieved and every outcome be equal. Set protocol.k to {len(pool.rows) // 3} or less."
            )
    return found


def extremes(items: pd.DataFrame, name: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the `count` items of least and of greatest valence.

    Args:
        items: columns `valence` and `name`.
        name: column that orders items of equal valence, by code point.
        count: on each side.
    """
    order = np.array(items.reset_index(drop=True).sort_values([VALENCE, name], kind="stable").index)
    return order[:count], order[-count:]


def _valence_pools(corpus: Table, protocol: ProtocolConfig) -> list[Pool]:
    frame, n = corpus.frame, protocol.extremes
    image = corpus.role in IMAGE_ROLES
    name = "id" if image else "word"
    items = frame["id"].nunique() if image else frame["word"].nunique()
    if items < 2 * n:
        raise NotApplicable(
            f"{corpus.role}: {items} items, {2 * n} are needed for protocol.extremes={n} on each side. "
            f"Set protocol.extremes={items // 2} or less, or bring more {corpus.role}."
        )
    parts: list[tuple[str | None, np.ndarray]] = [(None, np.arange(len(frame)))]
    if not image:
        parts = [
            (template, np.flatnonzero(frame["template"] == template))
            for template in sorted(frame["template"].unique())
        ]
    found = []
    for template, rows in parts:
        low, high = extremes(frame.iloc[rows], name, n)
        outcomes = frame[VALENCE].to_numpy(dtype=float)[rows, None]
        found.append(Pool(rows, template, [high], [low], outcomes))
    return found


def _group_pool(corpus: Table, protocol: ProtocolConfig, seed: int) -> Pool:
    groups = corpus.groups
    own = corpus.frame["group"].to_numpy()
    shuffled = []
    for index, group in enumerate(groups):
        # The table is sorted by id, so are the rows of a group.
        rows = np.flatnonzero(own == group)
        shuffled.append(rows[np.random.default_rng([seed, index]).permutation(len(rows))])
    n = _set_size(corpus, [len(rows) for rows in shuffled], protocol)
    share = n // len(groups)
    b = np.concatenate([rows[-share:] for rows in shuffled])
    outcomes = (own[:, None] == np.array(groups)[None, :]).astype(float)
    a = [rows[:n] for rows in shuffled]
    return Pool(np.arange(len(own)), None, a, [b] * len(groups), outcomes)


def _set_size(corpus: Table, sizes: list[int], protocol: ProtocolConfig) -> int:
    groups, smallest = len(sizes), min(sizes)
    if groups < 2:
        raise NotApplicable(f"{corpus.role}: one group only, two are needed. Choose more groups.")
    n = groups * (min(protocol.attributes, smallest) // groups)
    # Among images A and B are disjoint; among sentences they overlap by necessity.
    while corpus.role in IMAGE_ROLES and n + n // groups > smallest:
        n -= groups
    if n < groups:
        raise NotApplicable(
            f"{corpus.role}: the smallest of {groups} groups has {smallest} items, too few for "
            f"attribute sets that hold each group alike. Bring more {corpus.role}, or choose fewer groups."
        )
    return n
