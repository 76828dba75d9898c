"""Define the interface of intrinsic and extrinsic scores of targets."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from torch import Tensor

from src.configs import DEFAULT_MEASURES, EXTRINSIC, INTRINSIC, ProtocolConfig, registry
from src.storage.versions import declared_versions
from src.studies.propagation.attributes import Corpus
from src.studies.propagation.null_models import NullModels
from src.studies.propagation.similarity_blocks import SimilarityBlock

# Positions of the items of several sets A or B.
Sets = Sequence[np.ndarray]


@dataclass(frozen=True)
class Sums:
    """Sums of the similarities of N targets with A and B, for R pairs of sets.

    The mean of each target is subtracted from its similarities: scores from sums must be shift-invariant.

    Attributes:
        to_a, to_b: [R, N] sums over A and over B.
        n_a, n_b: [R, 1] sizes of A and B.
        squares: function that returns the [R, N] sums of squares over both.
    """

    to_a: Tensor
    n_a: Tensor
    to_b: Tensor
    n_b: Tensor
    squares: Callable[[], Tensor]


@dataclass(frozen=True)
class IntrinsicMeasure:
    """Association of targets with A against B.

    Attributes:
        label: name of the score for axes.
        score: (similarities [N, M] in float64, positions of each of S sets A, positions of B, protocol) ->
            [N, S]; NaN where a target has no score.
        by_sums: (sums, protocol) -> [R, N] scores for many sets at once; None: slower, set by set.
        by_vectors: (unit vectors [M, D] of the items of A and B, positions of each A, positions of each B,
            protocol) -> function of targets [N, D] that returns [N, S] without similarities, NaN where it
            needs them; None: always by similarities.
        fields: fields of the protocol that affect no other measure.
        undefined: what units without a score have, for a note, such as "no effect size (zero deviation)".
        metric: prefix of the MLflow metrics of mean scores.
        version: version of a measure defined outside this project; raise it when its numbers change.
    """

    label: str
    score: Callable[[Tensor, Sets, np.ndarray, ProtocolConfig], Tensor]
    by_sums: Callable[[Sums, ProtocolConfig], Tensor] | None = None
    by_vectors: Callable[[Tensor, Sets, Sets, ProtocolConfig], Callable[[Tensor], Tensor]] | None = None
    fields: frozenset[str] = frozenset()
    undefined: str = "no intrinsic score"
    metric: str = "intrinsic"
    version: int = 1


class Scorer(Protocol):
    """Extrinsic scores of the targets of an experiment, and their scores under null models."""

    def score(self, block: SimilarityBlock) -> Tensor:
        """Return scores of a block's targets in its pool, [targets, S]; store what `score_nulls` needs."""

    def score_nulls(self, nulls: NullModels, column: int) -> Callable[[np.ndarray], np.ndarray]:
        """Return a function of sampled units that gives their scores [units, R], for a column of `score`.

        These are scores under R null models. An outcome that weights items independently of the property
        returns weights @ permuted property; quantities derived from the property must use the permuted one.
        """


@dataclass(frozen=True)
class ExtrinsicOutcome:
    """Outcome of retrieval for targets: how much of the property it carries.

    Attributes:
        labels: name of the score for axes by property of the corpus (valence, group).
        scorer: (corpus, vectors of the targets, vectors of the corpus, rows [units, copies] of the targets
            on which null models are computed) -> scorer of an experiment.
        check: (corpus) -> None; raises `NotApplicable` where no target can be scored.
        notes: (corpus) -> remarks for readers of the numbers.
        retrieves: whether the outcome needs the k most similar items.
        fields: fields of the protocol that affect no other outcome.
        version: version of an outcome defined outside this project; raise it when its numbers change.
    """

    labels: Mapping[str, str]
    scorer: Callable[[Corpus, Tensor, Tensor, np.ndarray], Scorer]
    check: Callable[[Corpus], None] = lambda _: None
    notes: Callable[[Corpus], list[str]] = lambda _: []
    retrieves: bool = False
    fields: frozenset[str] = frozenset()
    version: int = 1


def intrinsic_of(protocol: ProtocolConfig) -> IntrinsicMeasure:
    """Return the intrinsic measure of a protocol; raise `InputError` for an unknown name."""
    return registry.load("protocol.intrinsic", protocol.intrinsic, INTRINSIC, IntrinsicMeasure)


def extrinsic_of(protocol: ProtocolConfig) -> ExtrinsicOutcome:
    """Return the extrinsic outcome of a protocol; raise `InputError` for an unknown name."""
    return registry.load("protocol.extrinsic", protocol.extrinsic, EXTRINSIC, ExtrinsicOutcome)


def non_default(protocol: ProtocolConfig) -> dict[str, str]:
    """Return names of measure and outcome by field of the protocol, except the defaults SC-EAT and top-k."""
    names = {field: getattr(protocol, field) for field in DEFAULT_MEASURES}
    return {field: name for field, name in names.items() if name != DEFAULT_MEASURES[field]}


def versions(protocol: ProtocolConfig) -> dict[str, int]:
    """Return the versions of measure and outcome; SC-EAT and top-k have the version of the study."""
    numbers: dict[str, int] = {}
    for field, name in non_default(protocol).items():
        load = intrinsic_of if field == "intrinsic" else extrinsic_of
        key = f"{field}.{name}"
        numbers |= {key: load(protocol).version} if ":" in name else declared_versions(key)
    return numbers
