"""Seam of propagation: the intrinsic score of a target, and the extrinsic one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from torch import Tensor

from src.configs import ProtocolConfig, registry, scores
from src.storage.versions import declared
from src.studies.propagation.attributes import Corpus
from src.studies.propagation.null_models import Alternative
from src.studies.propagation.similarity_blocks import Look


@dataclass(frozen=True)
class Sums:
    """Sums of the similarities of N targets with A and B, for R pairs of sets.

    Similarities are less the mean of their target: what is made of sums must not change with a shift.

    Attributes:
        to_a, to_b: [R, N] sums over A and over B.
        n_a, n_b: sizes of A and B.
        squares: () -> [R, N] sums of squares over both.
    """

    to_a: Tensor
    n_a: int
    to_b: Tensor
    n_b: int
    squares: Callable[[], Tensor]


@dataclass(frozen=True)
class IntrinsicMeasure:
    """Association of targets with A against B.

    Attributes:
        label: name of the score, as on an axis.
        score: (similarities [N, M] in float64, positions of the items of each of S sets A, those of B,
            protocol) -> [N, S]; NaN where a target has none.
        by_sums: (sums, protocol) -> [R, N], the same for many sets at once; None: set by set, more slowly.
        by_vectors: (unit vectors [M, D] of the items of A and B, positions of each A, those of each B,
            protocol) -> function of targets [N, D] that gives [N, S] without similarities, NaN where they are
            needed; None: always by similarities.
        fields: fields of the protocol that decide something in this measure alone.
        undefined: what a target without a score lacks, for a note.
        metric: prefix of the MLflow metric of its means.
        version: of a measure that is defined elsewhere; raise it when its numbers change.
    """

    label: str
    score: Callable[[Tensor, Sequence[np.ndarray], np.ndarray, ProtocolConfig], Tensor]
    by_sums: Callable[[Sums, ProtocolConfig], Tensor] | None = None
    by_vectors: (
        Callable[
            [Tensor, Sequence[np.ndarray], Sequence[np.ndarray], ProtocolConfig], Callable[[Tensor], Tensor]
        ]
        | None
    ) = None
    fields: frozenset[str] = frozenset()
    undefined: str = "no intrinsic score"
    metric: str = "intrinsic"
    version: int = 1


class Scorer(Protocol):
    """Extrinsic scores in one experiment."""

    def see(self, look: Look) -> Tensor:
        """Return what targets of a look score in its pool, [targets, S], and note what null models need."""

    def in_worlds(self, world: Alternative, content: int) -> Callable[[slice], np.ndarray]:
        """Return a function of sampled units that gives their scores under R null models, [units, R].

        Where weights over the corpus do not depend on the property these are weights @ permuted property;
        what is made of the property has to be made of the permuted one.
        """


@dataclass(frozen=True)
class ExtrinsicOutcome:
    """What comes up for targets, and how much of the property it carries.

    Attributes:
        labels: what the corpus carries (valence, group) -> name of the score, as on an axis.
        scorer: (corpus, vectors of the targets, those of the corpus, rows [units, copies] of the targets
            that null models are computed on) -> scorer of an experiment.
        check: (corpus) -> None; raises `NotApplicable` where nothing could be scored.
        notes: (corpus) -> remarks for readers of the numbers.
        retrieves: whether it asks for the k most similar items.
        fields: fields of the protocol that decide something in this outcome alone.
        version: of an outcome that is defined elsewhere; raise it when its numbers change.
    """

    labels: Mapping[str, str]
    scorer: Callable[[Corpus, Tensor, Tensor, np.ndarray], Scorer]
    check: Callable[[Corpus], None] = lambda _: None
    notes: Callable[[Corpus], list[str]] = lambda _: []
    retrieves: bool = False
    fields: frozenset[str] = frozenset()
    version: int = 1


def intrinsic_of(protocol: ProtocolConfig) -> IntrinsicMeasure:
    """Return the intrinsic measure of a protocol.

    Raises:
        InputError: its name is unknown, or names something else.
    """
    measure: IntrinsicMeasure = registry.load(
        "protocol.intrinsic", protocol.intrinsic, scores.INTRINSIC, IntrinsicMeasure
    )
    return measure


def extrinsic_of(protocol: ProtocolConfig) -> ExtrinsicOutcome:
    """Return the extrinsic outcome of a protocol.

    Raises:
        InputError: its name is unknown, or names something else.
    """
    outcome: ExtrinsicOutcome = registry.load(
        "protocol.extrinsic", protocol.extrinsic, scores.EXTRINSIC, ExtrinsicOutcome
    )
    return outcome


def chosen(protocol: ProtocolConfig) -> dict[str, str]:
    """Return field and name of the measure and the outcome of a protocol, without SC-EAT and top-k."""
    named = {field: str(getattr(protocol, field)) for field in scores.FIRST}
    return {field: name for field, name in named.items() if name != scores.FIRST[field]}


def versions(protocol: ProtocolConfig) -> dict[str, int]:
    """Return the versions of measure and outcome; those of SC-EAT and top-k are the study's."""
    numbers: dict[str, int] = {}
    for field, name in chosen(protocol).items():
        outside = ":" in name
        of = intrinsic_of if field == "intrinsic" else extrinsic_of
        numbers |= {f"{field}.{name}": of(protocol).version} if outside else declared(f"{field}.{name}")
    return numbers
