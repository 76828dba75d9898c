"""Zero-shot classification as extrinsic outcome: the share of templates that it puts into the group, or A."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from src.errors import NotApplicable
from src.metrics import cosines, unit
from src.studies.propagation.attributes import HELD_OUT, Corpus
from src.studies.propagation.measures import ExtrinsicOutcome
from src.studies.propagation.null_models import Alternative
from src.studies.propagation.set_sums import indicator
from src.studies.propagation.similarity_blocks import BLOCK, Look
from src.studies.propagation.units import DECIMALS
from src.studies.shared.pooling import pooled


class NearestClass:
    """Nearest class of each target, by the unit mean of each class's vectors in each template.

    Classes are the groups of a corpus that carries groups, and A and B of one that carries valence. As they
    are made of the property, null models make them anew.

    Args:
        corpus: with its pools and attribute sets.
        targets, items: vectors of the targets and of the corpus, [N, D] or [N, Q, D].
        rows: [units, copies] of the targets that null models are computed on.
    """

    def __init__(self, corpus: Corpus, targets: Tensor, items: Tensor, rows: np.ndarray) -> None:
        self._corpus, self._targets, self._items, self._rows = corpus, targets, items, rows
        self._measured: tuple[int, Tensor] | None = None
        self._drawn: tuple[Alternative, np.ndarray] | None = None

    def see(self, look: Look) -> Tensor:
        """Return shares of templates, [targets, S]."""
        if self._measured is None or self._measured[0] != look.number:
            pool = self._corpus.pools[look.number]
            if self._corpus.contents == [None]:
                members = [indicator(sets[0][None], len(pool.rows)) for sets in (pool.a, pool.b)]
            else:
                members = self._groups(look.number, pool.outcomes.argmax(axis=1)[:, None])
            self._measured = look.number, self._classes(look.number, members)
        return shares(look.own, self._measured[1])[:, : len(self._corpus.contents), 0]

    def in_worlds(self, world: Alternative, content: int) -> Callable[[slice], np.ndarray]:
        """Return a function of sampled units: classes are made anew in each world."""
        if self._drawn is None or self._drawn[0] is not world:
            self._drawn = world, self._in(world)
        scores = self._drawn[1][:, content]
        return lambda units: scores[units]

    def _in(self, world: Alternative) -> np.ndarray:
        """[sampled units, S, R]."""
        corpus, (units, copies) = self._corpus, self._rows.shape
        x = unit(self._targets[self._rows.reshape(-1)])
        valence, draws = corpus.contents == [None], len(world.a[0][0])
        group = None if valence else self._group_of_unit(world)
        scores = np.zeros((units, len(corpus.contents), draws))
        step = max(1, BLOCK // (x[..., 0].numel() * max(2, len(corpus.contents))))
        for number, pool in enumerate(corpus.pools):
            for start in range(0, draws, step):
                worlds = slice(start, start + step)
                if group is None:
                    sets = world.a[number][0][worlds], world.b[number][0][worlds]
                    members = [indicator(members, len(pool.rows)) for members in sets]
                else:
                    members = self._groups(number, group[corpus.exchange.unit[pool.rows], worlds])
                share = shares(x, self._classes(number, members))[:, : len(corpus.contents)]
                scores[..., worlds] += share.reshape(units, copies, *share.shape[1:]).mean(dim=1).numpy()
        return (scores / len(corpus.pools)).round(DECIMALS)

    def _group_of_unit(self, world: Alternative) -> np.ndarray:
        """[exchange units, R] number of the group that each is put into."""
        assert world.outcomes is not None
        group = np.zeros((len(self._corpus.exchange.grid), len(world.a[0][0])), dtype=np.int16)
        for content in range(len(self._corpus.contents)):
            group[world.outcomes(content).numpy() == 1] = content
        return group

    def _groups(self, number: int, group: np.ndarray) -> list[Tensor]:
        """For each group a matrix [R, M] of ones for its items that are retrieved from.

        Args:
            number: of the pool.
            group: [M, R] number of each item's group.
        """
        pool = self._corpus.pools[number]
        used = np.ones(len(group), dtype=bool)
        if pool.retrievable is not None:
            used = np.isin(np.arange(len(group)), pool.retrievable)
        same = ((group == content).T & used for content in range(len(self._corpus.contents)))
        return [torch.from_numpy(members.astype(float)) for members in same]

    def _classes(self, number: int, members: Sequence[Tensor]) -> Tensor:
        """[templates, classes, R, D] unit means."""
        corpus, rows = self._corpus, self._corpus.pools[number].rows
        vectors = unit(pooled(self._items[rows]))
        if corpus.pools[number].template is not None or "template" not in corpus.table.frame:
            return unit(torch.stack([ones @ vectors for ones in members]))[None]
        templates = corpus.table.frame["template"].to_numpy()[rows]
        places = [torch.from_numpy(np.flatnonzero(templates == name)) for name in np.unique(templates)]
        sums = [[ones[:, place] @ vectors[place] for ones in members] for place in places]
        return unit(torch.stack([torch.stack(of_template) for of_template in sums]))


def shares(x: Tensor, classes: Tensor) -> Tensor:
    """Return the share of templates in which each class is the nearest; equally near ones share alike.

    Args:
        x: targets in float64, of unit length, [N, D] or [N, Q, D].
        classes: [templates, classes, R, D], of unit length.

    Returns:
        [N, classes, R].

    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    >>> shares(x, x[None, :, None])[..., 0]
    tensor([[1., 0.],
            [0., 1.]], dtype=torch.float64)
    """
    templates, count, draws, _ = classes.shape
    counts = torch.zeros(len(x), count, draws, dtype=torch.float64)
    for of_template in classes:
        near = cosines(x, of_template.flatten(0, 1)).view(counts.shape)
        nearest = (near == near.amax(dim=1, keepdim=True)).double()
        counts += nearest / nearest.sum(dim=1, keepdim=True)
    return counts / templates


def check(corpus: Corpus) -> None:
    """Check that classes are left where attributes are held out.

    Raises:
        NotApplicable: A and B, the classes of valence, are held out of the corpus.
    """
    if corpus.contents == [None] and corpus.protocol.attributes == HELD_OUT:
        raise NotApplicable(
            f"protocol.attributes={HELD_OUT}: the classes of protocol.extrinsic=zero_shot are A and B, which "
            f"it takes out of the {corpus.table.role}. Set protocol.attributes=corpus."
        )


def notes(corpus: Corpus) -> list[str]:
    """Say of how many items classes are made, where attributes are held out."""
    if corpus.protocol.attributes != HELD_OUT:
        return []
    (pool,) = corpus.pools
    return [f"attributes are held out: classes are of {pool.size} of {len(pool.rows)} {corpus.table.role}"]


NEAREST_CLASS = ExtrinsicOutcome(
    labels={
        "valence": "share of templates nearer to A than to B",
        "group": "share of templates nearest to the group",
    },
    scorer=NearestClass,
    check=check,
    notes=notes,
)
