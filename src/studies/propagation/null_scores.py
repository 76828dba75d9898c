"""Both scores of a sample of units in other worlds (docs/methods.md, section 6.1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import product

import numpy as np
import torch
from torch import Tensor

from src.metrics import spearman_columns, unit
from src.studies.propagation.attributes import Corpus
from src.studies.propagation.measures import ExtrinsicOutcome, IntrinsicMeasure, Sums
from src.studies.propagation.null_models import Alternative
from src.studies.propagation.scores import scored, shared
from src.studies.propagation.set_sums import Sets, added, indicator, summed
from src.studies.propagation.similarity_blocks import Look
from src.studies.propagation.units import DECIMALS, Stratum, Units

# Units of a stratum that the placebo is computed on, at most.
SAMPLED = 500
# Held targets that are multiplied at once.
ROWS = 600


@dataclass(frozen=True)
class Case:
    """Strata of the same units: their similarities are looked at together.

    Attributes:
        strata: positions of the strata.
        contents: of the strata.
        units: [n] positions of the sampled units.
        owned: where they stand among all sampled units.
        held: where their sentences stand among all that are held, unit by unit.
    """

    strata: list[int]
    contents: list[int]
    units: np.ndarray
    owned: slice
    held: slice

    def of(self, content: int) -> list[int]:
        """Positions of the strata of a content."""
        return [stratum for stratum, own in zip(self.strata, self.contents, strict=True) if own == content]


def cases_of(units: Units, strata: Sequence[Stratum], seed: int) -> Iterator[Case]:
    """Strata by their units; those of two strata are the same or none."""
    same: dict[bytes, list[int]] = {}
    chosen = [sampled(units, stratum.rows, seed) for stratum in strata]
    for number, sample in enumerate(chosen):
        same.setdefault(sample.tobytes(), []).append(number)
    start, copies = 0, units.rows.shape[1]
    for numbers in same.values():
        sample = chosen[numbers[0]]
        stop = start + len(sample)
        contents = [strata[number].content for number in numbers]
        yield Case(numbers, contents, sample, slice(start, stop), slice(start * copies, stop * copies))
        start = stop


class Sample:
    """Both scores of at most 500 units per stratum in other worlds.

    Similarities of the sampled targets are held for one pool at a time.

    Args:
        units, strata: of the experiment.
        corpus: what is retrieved from.
        worlds: see `alternatives`.
        targets, items: vectors of the targets and of the corpus, [N, D] or [N, Q, D].
        measure, outcome: intrinsic and extrinsic score.

    Attributes:
        scorer: extrinsic score, which has to see all looks as well.
    """

    def __init__(
        self,
        units: Units,
        strata: Sequence[Stratum],
        corpus: Corpus,
        worlds: list[Alternative],
        targets: Tensor,
        items: Tensor,
        measure: IntrinsicMeasure,
        outcome: ExtrinsicOutcome,
    ) -> None:
        self._units, self._corpus, self._worlds = units, corpus, worlds
        self._targets, self._items = targets, items
        self.cases = list(cases_of(units, strata, corpus.seed)) if worlds else []
        self._copies = units.rows.shape[1]
        none = np.empty((0, self._copies), dtype=int)
        rows = np.concatenate([none, *(units.rows[case.units] for case in self.cases)])
        self.scorer = outcome.scorer(corpus, targets, items, rows)
        self._rows = rows.reshape(-1)
        # Target -> where it is held.
        self._place = np.full(int(units.rows.max()) + 1, -1)
        self._place[self._rows] = np.arange(len(self._rows))
        self._held = torch.empty(0, 0, dtype=torch.float64)
        self._measure = measure
        self._intrinsic: dict[tuple[int, int, int], Tensor] = {}

    def see(self, look: Look) -> None:
        """Hold the similarities of sampled targets."""
        if not self.cases:
            return
        held = self._place[look.block]
        mine, places = (torch.from_numpy(found) for found in (np.flatnonzero(held >= 0), held[held >= 0]))
        if look.block.start == 0:
            size = len(self._corpus.pools[look.number].rows)
            self._held = torch.empty(len(self._rows), size, dtype=torch.float64)
        assert look.near is not None
        self._held[places] = look.near[mine]
        if look.last and self._measure.by_sums:
            self._score(look.number)
        elif look.last:
            self._score_singly(look.number)

    def _score(self, number: int) -> None:
        """Intrinsic scores in every world, in one pool."""
        # They do not change with a shift, and lose less to rounding about 0.
        self._held -= self._held.mean(dim=1, keepdim=True)
        size = self._held.shape[1]
        ones = {id(one): indicator(one, size) for other in self._worlds for one in other.b[number]}
        vectors = self._centred(number) if any(one.layout == torch.strided for one in ones.values()) else None
        known = {name: (one, summed(one, vectors)) for name, one in ones.items()}
        for index, case in enumerate(self.cases):
            sets = [
                [
                    Sets.of(other.a[number][content], other.b[number][content], known, vectors)
                    for content in case.contents
                ]
                for other in self._worlds
            ]
            for start in range(case.held.start, case.held.stop, ROWS):
                self._add(index, slice(start, min(start + ROWS, case.held.stop)), sets, vectors is not None)

    def _score_singly(self, number: int) -> None:
        """Intrinsic scores in every world, set by set."""
        for (world, other), (index, case) in product(enumerate(self._worlds), enumerate(self.cases)):
            near = self._held[case.held]
            for b, which in shared([other.b[number][content] for content in case.contents]):
                contents = [case.contents[one] for one in which]
                for draw, drawn_b in enumerate(b):
                    a = [other.a[number][content][draw] for content in contents]
                    found = scored(self._measure, near, a, drawn_b, self._corpus.protocol)
                    for content, own in zip(contents, found.T, strict=True):
                        self._sums(world, index, content, len(b))[draw] += own

    def _sums(self, world: int, index: int, content: int, draws: int) -> Tensor:
        """[R, held targets of a case] over the pools so far."""
        key, held = (world, index, content), self.cases[index].held
        if key not in self._intrinsic:
            self._intrinsic[key] = torch.zeros(draws, held.stop - held.start, dtype=torch.float64)
        return self._intrinsic[key]

    def _centred(self, number: int) -> Tensor | None:
        """Vectors of a pool's items less their mean, [M, D]; None where items or targets have several."""
        if self._targets.ndim > 2 or self._items.ndim > 2:
            return None
        found = unit(self._items[self._corpus.pools[number].rows])
        return found - found.mean(dim=0)

    def _add(self, index: int, part: slice, sets: list[list[Sets]], single: bool) -> None:
        case, protocol = self.cases[index], self._corpus.protocol
        place = slice(part.start - case.held.start, part.stop - case.held.start)
        near = self._held[part].T.contiguous()
        vectors = unit(self._targets[self._rows[part]]).T.contiguous() if single else None

        @cache
        def squares() -> Tensor:
            return near.square()

        for world, contents in enumerate(sets):
            # Contents may share B: it is summed once.
            to_b = {id(one.b): added(one.b, near, vectors) for one in contents}
            for content, one in zip(case.contents, contents, strict=True):
                to_a = added(one.a, near, vectors)
                over_both = partial(_over_both, one.both, squares)
                sums = Sums(to_a, one.n_a, to_b[id(one.b)], one.n_b, over_both)
                assert self._measure.by_sums is not None
                found = self._measure.by_sums(sums, protocol)
                self._sums(world, index, content, len(found))[:, place] += found

    def observed(self, stratum: int, intrinsic: np.ndarray, extrinsic: np.ndarray) -> tuple[float, int]:
        """Rho as measured, on the sampled units of a stratum alone, and how many they are.

        Args:
            stratum: its position.
            intrinsic, extrinsic: [units, S] as measured.
        """
        for case in self.cases:
            if stratum in case.strata:
                content = case.contents[case.strata.index(stratum)]
                kept = case.units[~np.isnan(intrinsic[case.units, content])]
                x, y = (score[kept, content][:, None] for score in (intrinsic, extrinsic))
                return agreement(x, y, self._units.parts[kept]).item() if len(kept) else math.nan, len(kept)
        return math.nan, 0

    def rhos(self, intrinsic: np.ndarray, extrinsic: np.ndarray) -> Iterator[tuple[int, str, np.ndarray]]:
        """Rho of each stratum in each world.

        Args:
            intrinsic, extrinsic: [units, S] as measured; a unit without a score leaves every world.

        Yields:
            Position of the stratum, kind of the worlds, and rho [R], NaN where it is undefined.
        """
        for world, other in enumerate(self._worlds):
            for content in sorted({content for case in self.cases for content in case.contents}):
                outcomes = None if other.outcomes is None else self.scorer.in_worlds(other, content)
                for index, case in enumerate(self.cases):
                    kept = ~np.isnan(intrinsic[case.units, content])
                    for stratum in case.of(content):
                        if kept.any():
                            x = self._effects(world, index, content)
                            # As measured, [units, 1], where worlds have no other.
                            y = outcomes(case.owned) if outcomes else extrinsic[case.units, content][:, None]
                            parts = self._units.parts[case.units[kept]]
                            yield stratum, other.kind, agreement(x[kept], y[kept], parts)

    def _effects(self, world: int, index: int, content: int) -> np.ndarray:
        """Intrinsic scores of the sampled units, [units, R]."""
        copies, pools = self._copies, len(self._corpus.pools)
        found = (self._intrinsic[world, index, content] / pools).numpy().T
        mean: np.ndarray = found.reshape(-1, copies, found.shape[1]).mean(axis=1).round(DECIMALS)
        return mean


def _over_both(both: Tensor, squares: Callable[[], Tensor]) -> Tensor:
    return both @ squares()


def sampled(units: Units, rows: np.ndarray, seed: int) -> np.ndarray:
    """At most 500 units of a stratum, drawn by a seed; of template units whole words.

    Returns:
        Positions, ascending.
    """
    names = units.frame["name" if units.parts.max(initial=0) else "id"].to_numpy()[rows]
    distinct = np.unique(names.astype(str))
    if len(distinct) <= SAMPLED:
        return rows
    drawn = np.random.default_rng([seed, len(distinct)]).permutation(len(distinct))[:SAMPLED]
    return rows[np.isin(names.astype(str), distinct[drawn])]


def agreement(x: np.ndarray, y: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """Spearman's rho of each column, [R]; the mean over parts where units stand in several.

    Args:
        x, y: [units, R], or [units, 1] for the same in each.
        parts: [units].
    """
    found = [spearman_columns(x[parts == part], y[parts == part]) for part in np.unique(parts)]
    mean: np.ndarray = np.mean(found, axis=0)
    return mean
