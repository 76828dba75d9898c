"""Define the interface of intrinsic and extrinsic scores of targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from torch import Tensor

from src.configs import DEFAULT_MEASURES, EXTRINSIC, INTRINSIC, ProtocolConfig, RunConfig, registry
from src.stimuli import ROLES, Table
from src.storage.versions import declared_versions
from src.studies.propagation.attributes import Corpus
from src.studies.propagation.null_models import NullModels
from src.studies.propagation.similarity_blocks import SimilarityBlock

# Several sets A, or several sets B: positions of the items of each.
Sets = Sequence[np.ndarray]


@dataclass(frozen=True)
class Sums:
    """Sums of the similarities of N targets with A and B, for R pairs of sets A and B.

    The mean similarity of each target is subtracted, so scores from sums must be shift-invariant.

    Attributes:
        to_a, to_b: [R, N] sums over A and over B.
        n_a, n_b: [R, 1] sizes of A and B.
        squares: function that returns the sums of squares over A and B, [R, N].
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
        label: name of the score on axes.
        score: (similarities [N, M] in float64, positions of each of S sets A, positions of B, protocol) ->
            [N, S]; NaN where a target has no score.
        by_sums: (sums, protocol) -> scores for many sets at once, [R, N]; None: set by set, which is slower.
        by_vectors: (unit vectors [M, D] of the items of A and B, positions of each A, positions of each B,
            protocol) -> function of targets [N, D] that returns scores [N, S] without similarities, NaN
            where similarities are needed; None: always by similarities.
        fields: protocol fields that affect this measure only.
        undefined: object of the note "N units have ...", on units without a score.
        metric: prefix of the MLflow metrics that are mean scores.
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
    """Extrinsic scores of the targets of an experiment, observed and under null models."""

    def score(self, block: SimilarityBlock) -> Tensor:
        """Return scores of a block's targets in its pool, [targets, S]; store what `score_nulls` needs."""

    def score_nulls(self, nulls: NullModels, column: int) -> Callable[[np.ndarray], np.ndarray]:
        """Return a function: positions of sampled units -> their scores under R null models, [units, R].

        `column` is a column of `score`. An outcome that weights items independently of the property returns
        weights @ permuted property; whatever else depends on the property must use the permuted one.
        """


@dataclass(frozen=True)
class ExtrinsicOutcome:
    """Extrinsic score of targets: how much of a property is retrieved for them.

    Attributes:
        labels: property of the corpus (valence, group) -> name of the score on axes.
        scorer: (corpus, vectors of the targets, vectors of the corpus, rows [units, copies] of the targets
            that are also scored under null models) -> scorer of an experiment.
        check: (corpus) -> None; raises `NotApplicable` if no target can be scored.
        notes: (corpus) -> remarks for readers of the numbers.
        retrieves: whether the outcome needs the k most similar items.
        fields: protocol fields that affect this outcome only.
        target_roles: roles of the targets that can be scored.
        prompts: (cfg) -> texts that the outcome compares targets with; None if it needs none.
        bind: (prompts, their unit vectors) -> the outcome with a scorer that uses them; None: no prompts. An
            outcome with prompts depends on the targets alone: neither on the corpus nor on its property.
        config_groups: config groups that affect this outcome.
        version: version of an outcome defined outside this project; raise it when its numbers change.
    """

    labels: Mapping[str, str]
    scorer: Callable[[Corpus, Tensor, Tensor, np.ndarray], Scorer]
    check: Callable[[Corpus], None] = lambda _: None
    notes: Callable[[Corpus], list[str]] = lambda _: []
    retrieves: bool = False
    fields: frozenset[str] = frozenset()
    target_roles: frozenset[str] = frozenset(ROLES)
    prompts: Callable[[RunConfig], Table | None] = lambda _: None
    bind: Callable[[Table, Tensor], ExtrinsicOutcome] | None = None
    config_groups: frozenset[str] = frozenset()
    version: int = 1

    @property
    def ignores_corpus(self) -> bool:
        """Return whether scores are the same whatever the corpus, as those of an outcome with prompts."""
        return self.bind is not None


def intrinsic_of(protocol: ProtocolConfig) -> IntrinsicMeasure:
    """Return the intrinsic measure of a protocol; raise `InputError` for an unknown name."""
    return registry.load("protocol.intrinsic", protocol.intrinsic, INTRINSIC, IntrinsicMeasure)


def extrinsic_of(protocol: ProtocolConfig) -> ExtrinsicOutcome:
    """Return the extrinsic outcome of a protocol; raise `InputError` for an unknown name."""
    return registry.load("protocol.extrinsic", protocol.extrinsic, EXTRINSIC, ExtrinsicOutcome)


def non_default_names(protocol: ProtocolConfig) -> dict[str, str]:
    """Map `intrinsic` and `extrinsic` to their names in a protocol, without defaults (SC-EAT and top-k)."""
    names = {field: getattr(protocol, field) for field in DEFAULT_MEASURES}
    return {field: name for field, name in names.items() if name != DEFAULT_MEASURES[field]}


def versions_of(protocol: ProtocolConfig) -> dict[str, int]:
    """Return the versions of measure and outcome by their key; SC-EAT and top-k have the study's version."""
    versions: dict[str, int] = {}
    for field, name in non_default_names(protocol).items():
        load = intrinsic_of if field == "intrinsic" else extrinsic_of
        key = f"{field}.{name}"
        versions |= {key: load(protocol).version} if ":" in name else declared_versions(key)
    return versions
