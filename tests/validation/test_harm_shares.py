"""Check tests and intervals of harmful classes in few worlds, and that faults are detected."""

import numpy as np
import pytest

from src.studies.shared.exchange_units import Exchange
from validation.calibration import harm_shares

NULL = harm_shares.Kind(harm_shares.COMMON, harm_shares.MAX_PICTURES)


@pytest.mark.thorough
def test_tests_and_intervals_hold_in_few_worlds():
    kinds = [NULL, harm_shares.kinds()[-1]]
    measured = [(kind, [harm_shares.analyse_world(kind, number) for number in range(60)]) for kind in kinds]
    assert harm_shares.tabulate(measured, few=True)["holds"].all()


@pytest.mark.exhaustive
def test_permutations_of_pictures_instead_of_people_are_detected(monkeypatch):
    def draw(exchange, count):
        rng = np.random.default_rng(exchange.seed)
        return np.stack([rng.permutation(len(exchange.grid)) for _ in range(count)])

    monkeypatch.setattr(Exchange, "draw_permutations", draw)
    worlds = [harm_shares.analyse_world(NULL, number) for number in range(80)]
    table = harm_shares.tabulate([(NULL, worlds)], few=True).set_index("test")
    assert not table.loc["p of a group", "holds"]


@pytest.mark.exhaustive
def test_intervals_over_pictures_instead_of_people_are_detected(monkeypatch):
    """Count each picture as a person of its own: intervals of shares are too narrow."""
    assign = "src.studies.harms.experiment.assign_clusters"
    monkeypatch.setattr(assign, lambda table: table.frame[["id"]].rename(columns={"id": "cluster"}))
    worlds = [harm_shares.analyse_world(NULL, number) for number in range(80)]
    table = harm_shares.tabulate([(NULL, worlds)], few=True).set_index("test")
    assert not table.loc["interval of share", "holds"]
