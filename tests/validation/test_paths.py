"""Check worlds whose groups are retrieved by measured and unmeasured paths, and their limits."""

import numpy as np
import pytest

from src.metrics import erasure
from validation.calibration import paths

KINDS = {(kind.share, kind.is_null): kind for kind in paths.kinds()}
EXPECTED = [paths.Remains(left, 1.0, 0.01, 0.0, 100) for left in (0.01, 0.2, 0.3, 0.4)]


def results(null_p=0.5, **changes):
    """Return results of ten worlds of each kind, in which every claim holds but for the `changes`."""
    rows = [*EXPECTED, paths.Remains(1.0, 1.0, null_p, 0.0, 100)]
    changed = [row._replace(**changes) if number == 0 else row for number, row in enumerate(rows)]
    return [(kind, [row] * 10) for kind, row in zip(paths.kinds(), changed, strict=True)]


def test_words_between_the_extremes_lie_along_both_paths():
    world = paths.draw(KINDS[0.3, False], 0)
    words = world.corpus.frame.assign(row=range(len(world.corpus.frame)))
    words = words[words["template"] == words["template"].iloc[0]].sort_values("valence")
    score = 2 * words["valence"].to_numpy() - 1
    along = [
        (score[rows] @ world.corpus_vectors.numpy()[words["row"].to_numpy()[rows]]) / (score[rows] ** 2).sum()
        for rows in (np.r_[:25, 275:300], np.arange(25, 275))
    ]
    extreme, moderate = along
    cosine = extreme @ moderate / np.linalg.norm(extreme) / np.linalg.norm(moderate)
    assert cosine == pytest.approx(np.sqrt(0.7), abs=0.08)
    assert world.targets.frame["group"].value_counts().tolist() == [40] * 4


def test_nothing_remains_of_the_measured_path_and_more_of_another():
    left = [paths.intervene(KINDS[share, False], 0).left for share in paths.SHARES]
    assert abs(left[0]) < 0.1
    assert left == sorted(left)
    assert left[1] > 0.1


@pytest.mark.parametrize(
    ("changes", "holds"),
    [
        ({}, True),
        ({"left": 0.1}, True),
        ({"left": 0.11}, False),
        ({"left": -0.11}, False),
        ({"left_random_median": 0.89}, False),
        ({"left_random_median": 1.11}, False),
        ({"left_leace": 0.11}, False),
        ({"left_p": 0.06}, False),
    ],
)
def test_the_limits_of_what_remains_of_the_measured_path(changes, holds):
    assert paths.tabulate(results(**changes), few=False)["holds"].tolist() == [holds, *[True] * 4]


def test_what_remains_must_rise_with_the_second_path():
    measured = results()
    measured[2] = measured[1][0], measured[1][1]
    assert paths.tabulate(measured, few=False)["holds"].tolist() == [True, True, False, True, True]


def test_without_a_measured_path_p_is_small_in_few_worlds():
    table = paths.tabulate(results(null_p=0.04), few=False)
    assert table["holds"].tolist() == [True] * 4 + [False]
    assert table["share"].tolist() == [1.0] * 5


@pytest.mark.thorough
def test_claims_hold_in_a_few_worlds_and_fail_if_nothing_is_removed(monkeypatch):
    def table(kinds):
        worlds = [(kind, [paths.intervene(kind, number) for number in range(6)]) for kind in kinds]
        return paths.tabulate(worlds, few=True)

    assert table(paths.kinds())["holds"].all()
    project = erasure.projection
    monkeypatch.setattr(erasure, "projection", lambda basis, center, share=1.0: project(basis, center, 0.0))
    assert not table(paths.kinds()[:1])["holds"].any()
