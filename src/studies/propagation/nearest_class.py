"""Score zero-shot classification: the share of templates that assign a target to the group, or to A."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from src.errors import NotApplicable
from src.metrics import cosines, normalise, pool_vectors
from src.studies.propagation.attributes import HELD_OUT, Corpus, Pool
from src.studies.propagation.measures import ExtrinsicOutcome
from src.studies.propagation.null_models import NullModels
from src.studies.propagation.null_scores import build_indicator
from src.studies.propagation.similarity_blocks import BLOCK_SIZE, SimilarityBlock
from src.studies.propagation.units import DECIMALS


class NearestClass:
    """Shares of templates in which each class is nearest to a target; a class is a unit-length mean vector.

    Classes are the groups of a corpus that carries groups, and A and B of a corpus that carries valence.
    Classes depend on the property, so null models rebuild them; `rows` [units, copies] are the targets that
    are scored under null models.
    """

    def __init__(self, corpus: Corpus, targets: Tensor, items: Tensor, rows: np.ndarray) -> None:
        self._corpus, self._targets, self._items, self._rows = corpus, targets, items, rows
        # Cache of the last call: index of the pool and its classes; null models and their shares.
        self._classes_of_pool: tuple[int, Tensor] | None = None
        self._shares_of_nulls: tuple[NullModels, np.ndarray] | None = None

    def score(self, block: SimilarityBlock) -> Tensor:
        """Return the shares of the block's targets, [targets, S]."""
        if self._classes_of_pool is None or self._classes_of_pool[0] != block.pool_index:
            pool = self._corpus.pools[block.pool_index]
            if self._corpus.properties == [None]:
                members = [build_indicator(sets[0][None], len(pool.rows)) for sets in (pool.a, pool.b)]
            else:
                members = self._mark_members(pool, pool.outcomes.argmax(axis=1)[:, None])
            self._classes_of_pool = block.pool_index, self._build_classes(pool, members)
        return compute_shares(block.vectors, self._classes_of_pool[1])[:, : len(self._corpus.properties), 0]

    def score_nulls(self, nulls: NullModels, column: int) -> Callable[[np.ndarray], np.ndarray]:
        """Return a function of sampled units: their shares under null models with rebuilt classes."""
        if self._shares_of_nulls is None or self._shares_of_nulls[0] is not nulls:
            self._shares_of_nulls = nulls, self._compute_null_shares(nulls)
        scores = self._shares_of_nulls[1][:, column]
        return lambda units: scores[units]

    def _compute_null_shares(self, nulls: NullModels) -> np.ndarray:
        """Compute the shares of sampled units under null models, [units, S, R]."""
        corpus, (n_units, copies) = self._corpus, self._rows.shape
        x = normalise(self._targets[self._rows.reshape(-1)])
        draws = len(nulls.a[0][0])
        groups = None if corpus.properties == [None] else self._groups_of_units(nulls)
        scores = np.zeros((n_units, len(corpus.properties), draws))
        draws_per_step = max(1, BLOCK_SIZE // (x[..., 0].numel() * max(2, len(corpus.properties))))
        for index, pool in enumerate(corpus.pools):
            for start in range(0, draws, draws_per_step):
                draw_slice = slice(start, start + draws_per_step)
                if groups is None:
                    sets = nulls.a[index][0][draw_slice], nulls.b[index][0][draw_slice]
                    members = [build_indicator(positions, len(pool.rows)) for positions in sets]
                else:
                    members = self._mark_members(
                        pool, groups[corpus.exchange.unit_of_row[pool.rows], draw_slice]
                    )
                share = compute_shares(x, self._build_classes(pool, members))[:, : len(corpus.properties)]
                scores[..., draw_slice] += (
                    share.reshape(n_units, copies, *share.shape[1:]).mean(dim=1).numpy()
                )
        return (scores / len(corpus.pools)).round(DECIMALS)

    def _groups_of_units(self, nulls: NullModels) -> np.ndarray:
        """Return the index of each unit's group under null models, [exchange units, R]."""
        assert nulls.outcomes is not None
        groups = np.zeros((len(self._corpus.exchange.grid), len(nulls.a[0][0])), dtype=np.int16)
        for column in range(len(self._corpus.properties)):
            groups[nulls.outcomes(column).numpy() == 1] = column
        return groups

    def _mark_members(self, pool: Pool, groups: np.ndarray) -> list[Tensor]:
        """Mark the retrievable items of each group by ones, [R, M]; `groups` [M, R] are indices of groups."""
        is_retrievable = np.ones(len(groups), dtype=bool)
        if pool.retrievable is not None:
            is_retrievable = np.isin(np.arange(len(groups)), pool.retrievable)
        columns = range(len(self._corpus.properties))
        return [torch.from_numpy(((groups == column).T & is_retrievable).astype(float)) for column in columns]

    def _build_classes(self, pool: Pool, members: Sequence[Tensor]) -> Tensor:
        """Compute unit-length means of classes, [templates, classes, R, D], from their `members` [R, M]."""
        vectors, frame = normalise(pool_vectors(self._items[pool.rows])), self._corpus.table.frame
        if pool.template is not None or "template" not in frame:
            return normalise(torch.stack([ones @ vectors for ones in members]))[None]
        templates = frame["template"].to_numpy()[pool.rows]
        by_template = [torch.from_numpy(np.flatnonzero(templates == name)) for name in np.unique(templates)]
        sums = [[ones[:, positions] @ vectors[positions] for ones in members] for positions in by_template]
        return normalise(torch.stack([torch.stack(template_sums) for template_sums in sums]))


def compute_shares(x: Tensor, classes: Tensor) -> Tensor:
    """Compute the shares of templates in which each class is nearest, [N, classes, R]; ties count equally.

    Targets x, [N, D] or [N, Q, D], and classes, [templates, classes, R, D], are of unit length in float64.

    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    >>> compute_shares(x, x[None, :, None])[..., 0]
    tensor([[1., 0.],
            [0., 1.]], dtype=torch.float64)
    """
    n_templates, n_classes, draws, _ = classes.shape
    counts = torch.zeros(len(x), n_classes, draws, dtype=torch.float64)
    for template_classes in classes:
        similarities = cosines(x, template_classes.flatten(0, 1)).view(counts.shape)
        nearest = (similarities == similarities.amax(dim=1, keepdim=True)).double()
        counts += nearest / nearest.sum(dim=1, keepdim=True)
    return counts / n_templates


def check(corpus: Corpus) -> None:
    """Check that the corpus contains the classes; raise `NotApplicable` if they are held out."""
    if corpus.properties == [None] and corpus.protocol.attributes == HELD_OUT:
        raise NotApplicable(
            f"protocol.attributes={HELD_OUT} removes A and B from the {corpus.table.role}, but they are the "
            "classes of protocol.extrinsic=zero_shot. Set protocol.attributes=corpus."
        )


def notes(corpus: Corpus) -> list[str]:
    """Return a remark on the number of items in classes if attributes are held out."""
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
