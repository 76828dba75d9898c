"""Score whether a face is classified into a harmful class (docs/methods.md, section 7.6)."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from src import stimuli
from src.configs import RunConfig
from src.stimuli import Table
from src.studies.propagation.attributes import Corpus
from src.studies.propagation.measures import ExtrinsicOutcome, Scorer
from src.studies.propagation.null_models import NullModels
from src.studies.propagation.similarity_blocks import SimilarityBlock
from src.studies.shared.face_classes import classify, compose_prompts


class Harm:
    """Harm of faces, 1 or 0, equal for all properties of the corpus, which plays no part in it.

    `rows` [units, copies] are the faces that are scored under null models.
    """

    def __init__(self, prompts: Table, vectors: Tensor, corpus: Corpus, rows: np.ndarray) -> None:
        self._prompts, self._vectors, self._rows = prompts, vectors, rows
        self._n_properties = len(corpus.properties)
        self._is_harmful: dict[int, float] = {}

    def score(self, block: SimilarityBlock) -> Tensor:
        """Return the harm of the block's faces, [targets, S]."""
        is_harmful = classify(block.vectors, self._prompts, self._vectors).is_harmful.astype(float)
        self._is_harmful |= dict(enumerate(is_harmful.tolist(), start=block.targets.start))
        return torch.from_numpy(is_harmful)[:, None].expand(-1, self._n_properties)

    def score_nulls(self, nulls: NullModels, column: int) -> Callable[[np.ndarray], np.ndarray]:  # noqa: ARG002
        """Return a function of sampled units: their harm, [units, 1], the same under all null models."""
        harm = np.vectorize(self._is_harmful.__getitem__, otypes=[float])(self._rows).mean(axis=1)
        return lambda units: harm[units, None]


def build_prompts(cfg: RunConfig) -> Table:
    """Build the table of the sentences of all classes; errors: see `compose_prompts`."""
    return compose_prompts(cfg.classes, stimuli.load(cfg, "faces").groups, cfg.protocol.article)


def bind(prompts: Table, vectors: Tensor) -> ExtrinsicOutcome:
    """Return the outcome of classes with these sentences and vectors [M, D]."""
    return replace(HARM, scorer=lambda corpus, _, __, rows: Harm(prompts, vectors, corpus, rows))


def _refuse(*_: object) -> Scorer:
    raise ValueError("harm needs the sentences of its classes: bind them first")


LABEL = "harm: 1 if classified into a harmful class"
HARM = ExtrinsicOutcome(
    labels={"valence": LABEL, "group": LABEL},
    scorer=_refuse,
    fields=frozenset({"article"}),
    target_roles=frozenset({"faces"}),
    prompts=build_prompts,
    bind=bind,
    config_groups=frozenset({"classes"}),
)
