"""Score zero-shot classification: share of templates that assign a target to the group or to A."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from src.errors import NotApplicable
from src.metrics import cosines, normalise, pool_vectors
from src.studies.propagation.attributes import HELD_OUT, Corpus, Pool
from src.studies.propagation.measures import ExtrinsicOutcome
from src.studies.propagation.null_models import NullModels
from src.studies.propagation.null_scores import indicator
from src.studies.propagation.similarity_blocks import BLOCK, SimilarityBlock
from src.studies.propagation.units import DECIMALS


class NearestClass:
    """Nearest class of each target, by the unit mean of each class's vectors in each template.

    Classes are the groups of a corpus that carries groups, and A and B of a corpus that carries valence.
    Classes depend on the property: null models rebuild them, for the targets in `rows` [units, copies].
    """

    def __init__(self, corpus: Corpus, targets: Tensor, items: Tensor, rows: np.ndarray) -> None:
        self._corpus, self._targets, self._items, self._rows = corpus, targets, items, rows
        # Cached from the last call: a pool's number with its classes, and null models with their shares.
        self._classes_of_pool: tuple[int, Tensor] | None = None
        self._shares_of_nulls: tuple[NullModels, np.ndarray] | None = None

    def score(self, block: SimilarityBlock) -> Tensor:
        """Return shares of templates, [targets, S]."""
        if self._classes_of_pool is None or self._classes_of_pool[0] != block.pool:
            pool = self._corpus.pools[block.pool]
            if self._corpus.properties == [None]:
                members = [indicator(sets[0][None], len(pool.rows)) for sets in (pool.a, pool.b)]
            else:
                members = self._members(pool, pool.outcomes.argmax(axis=1)[:, None])
            self._classes_of_pool = block.pool, self._classes(pool, members)
        return shares(block.vectors, self._classes_of_pool[1])[:, : len(self._corpus.properties), 0]

    def score_nulls(self, nulls: NullModels, column: int) -> Callable[[np.ndarray], np.ndarray]:
        """Return a function of sampled units: classes are rebuilt under each null model."""
        if self._shares_of_nulls is None or self._shares_of_nulls[0] is not nulls:
            self._shares_of_nulls = nulls, self._null_shares(nulls)
        scores = self._shares_of_nulls[1][:, column]
        return lambda units: scores[units]

    def _null_shares(self, nulls: NullModels) -> np.ndarray:
        """Compute shares under null models, [sampled units, S, R]."""
        corpus, (units, copies) = self._corpus, self._rows.shape
        x = normalise(self._targets[self._rows.reshape(-1)])
        draws = len(nulls.a[0][0])
        groups = None if corpus.properties == [None] else self._groups_of_units(nulls)
        scores = np.zeros((units, len(corpus.properties), draws))
        draws_per_step = max(1, BLOCK // (x[..., 0].numel() * max(2, len(corpus.properties))))
        for number, pool in enumerate(corpus.pools):
            for start in range(0, draws, draws_per_step):
                draw_slice = slice(start, start + draws_per_step)
                if groups is None:
                    sets = nulls.a[number][0][draw_slice], nulls.b[number][0][draw_slice]
                    members = [indicator(positions, len(pool.rows)) for positions in sets]
                else:
                    members = self._members(pool, groups[corpus.exchange.unit_of_row[pool.rows], draw_slice])
                share = shares(x, self._classes(pool, members))[:, : len(corpus.properties)]
                scores[..., draw_slice] += share.reshape(units, copies, *share.shape[1:]).mean(dim=1).numpy()
        return (scores / len(corpus.pools)).round(DECIMALS)

    def _groups_of_units(self, nulls: NullModels) -> np.ndarray:
        """Return the number of each unit's group under null models, [exchange units, R]."""
        assert nulls.outcomes is not None
        groups = np.zeros((len(self._corpus.exchange.grid), len(nulls.a[0][0])), dtype=np.int16)
        for number in range(len(self._corpus.properties)):
            groups[nulls.outcomes(number).numpy() == 1] = number
        return groups

    def _members(self, pool: Pool, groups: np.ndarray) -> list[Tensor]:
        """Build a matrix [R, M] of ones at the retrievable items of each group, from group numbers [M, R]."""
        is_retrievable = np.ones(len(groups), dtype=bool)
        if pool.retrievable is not None:
            is_retrievable = np.isin(np.arange(len(groups)), pool.retrievable)
        numbers = range(len(self._corpus.properties))
        return [torch.from_numpy(((groups == number).T & is_retrievable).astype(float)) for number in numbers]

    def _classes(self, pool: Pool, members: Sequence[Tensor]) -> Tensor:
        """Compute unit means of the classes, [templates, classes, R, D]."""
        vectors, frame = normalise(pool_vectors(self._items[pool.rows])), self._corpus.table.frame
        if pool.template is not None or "template" not in frame:
            return normalise(torch.stack([ones @ vectors for ones in members]))[None]
        templates = frame["template"].to_numpy()[pool.rows]
        by_template = [torch.from_numpy(np.flatnonzero(templates == name)) for name in np.unique(templates)]
        sums = [[ones[:, positions] @ vectors[positions] for ones in members] for positions in by_template]
        return normalise(torch.stack([torch.stack(template_sums) for template_sums in sums]))


def shares(x: Tensor, classes: Tensor) -> Tensor:
    """Return the share of templates in which each class is the nearest, [N, classes, R]; ties share equally.

    Targets [N, D] or [N, Q, D] and classes [templates, classes, R, D] are of unit length in float64.

    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    >>> shares(x, x[None, :, None])[..., 0]
    tensor([[1., 0.],
            [0., 1.]], dtype=torch.float64)
    """
    templates, count, draws, _ = classes.shape
    counts = torch.zeros(len(x), count, draws, dtype=torch.float64)
    for template_classes in classes:
        similarities = cosines(x, template_classes.flatten(0, 1)).view(counts.shape)
        nearest = (similarities == similarities.amax(dim=1, keepdim=True)).double()
        counts += nearest / nearest.sum(dim=1, keepdim=True)
    return counts / templates


def check(corpus: Corpus) -> None:
    """Check that classes remain where attributes are held out; raise `NotApplicable` otherwise."""
    if corpus.properties == [None] and corpus.protocol.attributes == HELD_OUT:
        raise NotApplicable(
            f"protocol.attributes={HELD_OUT} removes A and B from the {corpus.table.role}, but they are the "
            "classes of protocol.extrinsic=zero_shot. Set protocol.attributes=corpus."
        )


def notes(corpus: Corpus) -> list[str]:
    """State the number of items in classes if attributes are held out."""
    if corpus.protocol.attributes != HELD_OUT:
        return []
    (pool,) = corpus.pools
    share = f"{pool.size} of {len(pool.rows)} {corpus.table.role}"
    return [f"attributes are held out: classes consist of {share}"]


NEAREST_CLASS = ExtrinsicOutcome(
    labels={
        "valence": "share of templates nearer to A than to B",
        "group": "share of templates nearest to the group",
    },
    scorer=NearestClass,
    check=check,
    notes=notes,
)
