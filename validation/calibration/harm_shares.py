"""Measure level, power and coverage of tests and intervals of shares of faces by group."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from src.stimuli import Table
from src.studies.harms.config import HarmsConfig
from src.studies.harms.experiment import analyse, select_people
from src.studies.harms.outcomes import SHARE, Outcome
from src.studies.harms.permutation import permute_shares
from src.studies.shared.exchange_units import build_exchange
from validation.calibration import bounds

PEOPLE, PERMUTATIONS = 120, 199
# Probability of each group; groups of people are drawn, so that their sizes vary.
SIZES = (1 / 6, 1 / 3, 1 / 2)
MAX_PICTURES, CORRELATION = 4, 0.5  # correlation of the outcomes of a person's pictures
RARE, COMMON, EFFECT = 0.03, 0.3, 0.5
MIN_POWER = 0.9
# Coverage of 95% intervals: exact ones of a share and Bonferroni's of a difference cover more.
COVERAGE = {"share": (0.93, 1.0), "gap": (0.89, 0.985), "difference": (0.95, 1.0)}


@dataclass(frozen=True)
class Kind:
    """Kind of worlds.

    Attributes:
        share: share of faces with the outcome.
        pictures: maximum number of pictures of a person.
        effect: added to the share of the first group.
    """

    share: float
    pictures: int
    effect: float = 0.0

    @property
    def name(self) -> str:
        """Return the description of the kind."""
        pictures = "1 picture" if self.pictures == 1 else f"1 to {self.pictures} pictures of each person"
        return f"share {self.share:g}, {pictures}"


@dataclass(frozen=True)
class World:
    """Results of a world: whether tests reject, and shares of intervals that hold the truth."""

    rejects: bool
    difference_rejects: bool
    share: float
    gap: float
    difference: float


def kinds() -> list[Kind]:
    """Return the kinds of worlds."""
    null = [Kind(share, pictures) for share in (COMMON, RARE) for pictures in (1, MAX_PICTURES)]
    return [*null, Kind(COMMON, MAX_PICTURES, EFFECT)]


def analyse_world(kind: Kind, number: int) -> World:
    """Draw people with pictures, whose outcomes are alike, and compare their groups."""
    rng = bounds.generator(f"harms, {kind}", number)
    names = np.array([f"g{group}" for group in range(len(SIZES))])
    group_of_person = rng.choice(len(SIZES), PEOPLE, p=SIZES)
    truths = kind.share + kind.effect * (np.arange(len(SIZES)) == 0)
    means = truths[group_of_person]
    # Beta distributed, with the correlation of two pictures of a person.
    total = 1 / CORRELATION - 1
    propensity = rng.beta(means * total, (1 - means) * total)
    person = np.repeat(np.arange(PEOPLE), rng.integers(1, kind.pictures + 1, PEOPLE))
    harm = (rng.random(len(person)) < propensity[person]).astype(float)
    frame = pd.DataFrame({"id": [f"f{face:04d}" for face in range(len(person))]})
    frame = frame.assign(group=names[group_of_person[person]], person=[f"p{each:03d}" for each in person])
    people = select_people(Table("faces", frame, len(frame)), HarmsConfig(paper=""))
    outcome = Outcome("harm", SHARE, harm[:, None], 1)
    exchange = build_exchange(people.table, number)
    refusals = [exchange.explain_refusal(name) for name in people.groups]
    null = permute_shares(exchange, people.group_of, len(names), [outcome], PERMUTATIONS)[:, 0]
    rows = analyse(people, outcome, null, refusals)
    groups, last = rows.iloc[:-1], rows.iloc[-1]
    sizes = np.bincount(people.group_of)
    others = (sizes @ truths - sizes * truths) / (sizes.sum() - sizes)
    extremes = groups["share"].argmax(), groups["share"].argmin()
    difference = truths[extremes[0]] - truths[extremes[1]]
    return World(
        bool(groups["p"].min() <= bounds.ALPHA),
        bool(last["difference_p"] <= bounds.ALPHA),
        float(_hold(groups, "share", truths).mean()),
        float(_hold(groups, "gap", truths - others).mean()),
        float(last["difference_low"] <= difference <= last["difference_high"]),
    )


def _hold(rows: pd.DataFrame, name: str, truths: np.ndarray) -> np.ndarray:
    """Return whether the interval of each row holds its truth, [G]."""
    return np.asarray((rows[f"{name}_low"] <= truths) & (truths <= rows[f"{name}_high"]))


def tabulate(measured: Sequence[tuple[Kind, Sequence[World]]], few: bool) -> pd.DataFrame:
    """Summarise the shares of worlds with p at most 5%, and of intervals that hold the truth, by kind."""
    rows = []
    for kind, worlds in measured:
        count = len(worlds)
        common = {"world": kind.name, "effect": kind.effect, "worlds": count}
        for name, test in (("rejects", "p of a group"), ("difference_rejects", "p of the difference")):
            low, high = bounds.of_false_positive_rate(count)
            if kind.effect:
                low, high = bounds.limits(MIN_POWER, 1, count, few)
            elif kind.share == RARE:  # few outcomes have few distinct p: the test rejects less often
                low = 0.0
            share = float(np.mean([getattr(world, name) for world in worlds]))
            rows.append({**common, "test": test, "low": low, "high": high, "share": share})
        for name, (lowest, highest) in COVERAGE.items():
            low, high = bounds.limits(lowest, highest, count, few)
            share = float(np.mean([getattr(world, name) for world in worlds]))
            rows.append({**common, "test": f"interval of {name}", "low": low, "high": high, "share": share})
    table = pd.DataFrame(rows)
    return table.assign(holds=table["share"].between(table["low"], table["high"]))
