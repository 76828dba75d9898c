"""Check the calibration of tests within sets in few worlds, and that a null across sets is detected."""

import numpy as np
import pytest
from scipy import stats

from src.studies.matched.exchange import SetExchange
from validation.calibration import matched_sets


@pytest.mark.thorough
def test_p_within_sets_is_uniform_where_scenes_differ_and_a_person_is_detected():
    worlds = [matched_sets.analyse(0.0, number) for number in range(200)]
    assert matched_sets.tabulate([(0.0, worlds)], few=True)["holds"].all()
    assert stats.kstest([world.rank_p for world in worlds], "uniform").pvalue > 1e-3
    strong = [matched_sets.analyse(matched_sets.STRONG, number) for number in range(20)]
    assert matched_sets.tabulate([(matched_sets.STRONG, strong)], few=True)["holds"].all()


@pytest.mark.exhaustive
def test_permutations_across_sets_are_detected(monkeypatch):
    """Permute pictures of all sets: the scenes are then no longer constant, and p of ranks is wrong."""

    def draw(exchange, draws, seed, _):
        rng = np.random.default_rng(seed)
        yield np.stack([rng.permutation(len(exchange.group_of)) for _ in range(draws)])

    monkeypatch.setattr(SetExchange, "draw", draw)
    worlds = [matched_sets.analyse(0.0, number) for number in range(100)]
    share = np.mean([world.share_p <= 0.5 for world in worlds])
    assert share < 0.4
