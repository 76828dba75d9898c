"""Remove what is measured in worlds whose groups are retrieved by paths that are measured, or are not."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from src.studies.propagation import experiment
from validation.calibration import bounds, worlds
from validation.calibration.bounds import generator
from validation.calibration.worlds import Experiment

AXES, WORDS, GROUPS, FACES = 24, 300, 4, 40
# SD of faces along the axes that no path uses, of words along all, and length of the paths' directions.
SPECTRUM = np.linspace(2, 0.2, AXES - 2)
NOISE, STRENGTH = 0.5, 2.0
# Squared component of moderate words along the second path.
SHARES = (0.0, 0.1, 0.3, 0.5)
# Largest mean of what remains where it is 0, largest distance of the mean from 1 without random subspaces,
# and smallest share of worlds in which less remains than without random subspaces.
MAX_LEFT, MAX_RANDOM, MIN_POWER = 0.1, 0.1, 0.9


@dataclass(frozen=True)
class Paths:
    """Kind of worlds: faces of groups retrieve words.

    Words of extreme valence, which are A and B, lie along the first path in proportion to their valence;
    moderate words lie along both. Faces lie along both in proportion to their group's bias.

    Attributes:
        share: squared component of moderate words along the second path, which is not measured.
        is_null: whether extreme words lie along no path, so that what is measured is a random direction.
    """

    share: float
    is_null: bool = False


class Remains(NamedTuple):
    """What remains of the level in a world."""

    left: float
    left_random_median: float
    left_p: float
    left_leace: float
    controls: int


def kinds() -> list[Paths]:
    """Return a single path, a second one of growing share, and none that is measured."""
    return [*(Paths(share) for share in SHARES), Paths(1.0, is_null=True)]


def draw(paths: Paths, number: int) -> Experiment:
    """Draw a world; see `seeds.generator` for its number."""
    rng = generator(f"paths, {paths.share}", number)
    axes = np.linalg.qr(rng.standard_normal((AXES, AXES)))[0].T
    first, second, rest = axes[0], axes[1], axes[2:]
    score = np.sort(rng.uniform(-1, 1, WORDS))
    extreme = worlds.PROTOCOL.extremes
    moderate = math.sqrt(1 - paths.share) * first + math.sqrt(paths.share) * second
    directions = np.tile(moderate, (WORDS, 1))
    directions[[*range(extreme), *range(WORDS - extreme, WORDS)]] = first * (not paths.is_null)
    vectors = STRENGTH * score[:, None] * directions + NOISE * rng.standard_normal((WORDS, AXES))
    # A letter that ends no stem keeps every word a cluster.
    names = [f"w{place:03d}x" for place in range(WORDS)]
    words = pd.DataFrame({"name": names, "valence": (score + 1) / 2})
    bias = np.repeat(np.linspace(-1, 1, GROUPS), FACES)
    path = second if paths.is_null else first + second * bool(paths.share)
    faces = (SPECTRUM * rng.standard_normal((GROUPS * FACES, AXES - 2))) @ rest + bias[:, None] * path
    names = [f"f{place:03d}" for place in range(len(bias))]
    people = pd.DataFrame({"name": names, "group": [f"group {value:+.2f}" for value in bias]})
    corpus, targets = (
        worlds.stimuli(*each, rng) for each in (("words", words, vectors), ("faces", people, faces))
    )
    return Experiment(targets[0], corpus[0], targets[1], corpus[1], worlds.PROTOCOL, number)


def intervene(paths: Paths, number: int) -> Remains:
    """Remove what is measured from a world's faces."""
    arguments = vars(draw(paths, number)).values()
    result = experiment.run(*arguments, max_intervened=0)
    assert result.intervention
    row = result.intervention.summary.iloc[0]
    return Remains(*(row[name] for name in Remains._fields))


def tabulate(measured: Sequence[tuple[Paths, Sequence[Remains]]], few: bool) -> pd.DataFrame:
    """Summarise by kind of worlds what remains, and the share of worlds with left_p at most 5%.

    Args:
        measured: kinds, in order of their second path, with the results of the worlds.
        few: whether worlds are few, so that the limits of shares are widened.
    """
    rows: list[dict[str, Any]] = []
    for kind, worlds_of_kind in measured:
        frame = pd.DataFrame(worlds_of_kind, columns=Remains._fields)
        count, tested = len(frame), frame["left_p"].dropna()
        power = bounds.limits(MIN_POWER, 1.0, len(tested), few)
        low, high = bounds.of_false_positive_rate(len(tested)) if kind.is_null else power
        means = frame.mean()
        name = "one path"
        if kind.share:
            name = f"second path, {kind.share:.0%} of moderate words' directions"
        row: dict[str, Any] = {"world": "no path is measured" if kind.is_null else name, "worlds": count}
        row |= {"without_p": count - len(tested), "low": low, "high": high}
        row |= {"share": float((tested <= bounds.ALPHA).mean()), "mean_left": means["left"]}
        row |= {"mean_random": means["left_random_median"], "mean_leace": means["left_leace"]}
        holds = [low <= row["share"] <= high]
        holds += [abs(row["mean_random"] - 1) <= MAX_RANDOM, abs(row["mean_leace"]) <= MAX_LEFT]
        if not kind.share:
            holds.append(abs(row["mean_left"]) <= MAX_LEFT)
        elif not kind.is_null:
            holds.append(row["mean_left"] > rows[-1]["mean_left"])
        rows.append(row | {"holds": all(holds)})
    return pd.DataFrame(rows)
