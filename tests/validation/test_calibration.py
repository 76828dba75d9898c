"""Check that claims hold in a quick simulation, and that wrong instruments are noticed."""

import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from src.studies.propagation import experiment
from src.studies.propagation.attributes import corpus_of
from src.studies.shared import exchange_units
from validation.calibration import __main__ as calibration
from validation.calibration import coverage, nulls, populations

POPULATIONS = {population.name: population for population in populations.populations()}
KINDS = [
    nulls.Null(targets, corpus, True, attributes)
    for attributes in ("corpus", "held_out")
    for targets, corpus in pairwise(("faces", "words", "scenes", "labels", "faces"))
]


@pytest.mark.thorough
def test_the_quick_form_holds_and_says_so(tmp_path, capsys, monkeypatch):
    size = calibration.Size(worlds=12, draws=60, population=50_000, nulls=2, quick=True)
    monkeypatch.setattr(calibration, "QUICK", size)
    assert calibration.main(["--quick", "--output", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "README.md").read_text()
    assert page in capsys.readouterr().out
    for name, rows in (("coverage", 18), ("placebo", 24)):
        table = pd.read_csv(tmp_path / "out" / f"{name}.csv")
        assert len(table) == rows
        assert table["holds"].all()
    assert len(re.findall(r"\| yes +\|", page)) == 18 + 24


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("labels 12 × 12, both words count", 1), ("150 morphs of 30 parents", 1), ("uneven variance", 2)],
)
def test_an_interval_that_is_too_narrow_is_noticed(name, wrong):
    world = POPULATIONS[name]
    truth = coverage.truth_of(world, 200_000)
    studies = [coverage.simulate_study(world, truth, number, 100) for number in range(100)]
    table = coverage.tabulate([(world, truth, studies)], quick=True).iloc[0]
    assert table["holds"]
    swapped = [replace(study, covered=(study.covered[wrong], *study.covered[1:])) for study in studies]
    assert not coverage.tabulate([(world, truth, swapped)], quick=True)["holds"].any()


@pytest.mark.parametrize(
    ("share", "full", "quick"),
    [(0.9, False, True), (0.92, True, True), (0.99, False, True), (0.8, False, False)],
)
def test_the_band_of_an_interval(share, full, quick):
    world = POPULATIONS["normal scores"]
    studies = [coverage.Study(9, (number < 100 * share, True, True), 0.1) for number in range(100)]
    for few, expected in ((False, full), (True, quick)):
        assert coverage.tabulate([(world, 0.8, studies)], few)["holds"].tolist() == [expected]


@pytest.mark.parametrize(("hits", "holds"), [(32, False), (33, True), (69, True), (70, False)])
def test_the_band_of_the_placebo(hits, holds):
    """Compare with the 99% band of binomial draws of 1,000 at 5%."""
    values = [0.05] * hits + [0.06] * (1000 - hits)
    table = nulls.tabulate([(KINDS[0], values)], quick=False).iloc[0]
    low, high = stats.binom.ppf([0.005, 0.995], 1000, 0.05)
    assert (table["share"], table["holds"], low <= hits <= high) == (hits / 1000, holds, holds)


def moved(world, corpus, permuted):
    """Compute rho of each stratum after one permutation by loops: sets and outcomes move with units."""
    frame, place = world.corpus.frame, "word" if "word" in world.corpus.frame else "id"
    to = dict(zip(corpus.exchange.names, corpus.exchange.names[permuted], strict=True))
    copy = frame["template"] if "template" in frame else frame["id"].map(lambda _: "")
    row = {pair: number for number, pair in enumerate(zip(frame[place], copy, strict=True))}
    goes = np.array([row[to[name], which] for name, which in zip(frame[place], copy, strict=True)])
    x, y = (
        v / np.linalg.norm(v, axis=1, keepdims=True) for v in (world.target_vectors, world.corpus_vectors)
    )
    near = np.asarray(x) @ np.asarray(y).T
    intrinsic, extrinsic = np.zeros((2, len(near), len(corpus.properties)))
    for pool in corpus.pools:
        rows = pool.rows if pool.retrievable is None else pool.rows[pool.retrievable]
        top = rows[np.argsort(-near[:, rows], axis=1)[:, : pool.k]]
        for column in range(len(corpus.properties)):
            a, b = (goes[pool.rows[sets[column]]] for sets in (pool.a, pool.b))
            effect = near[:, a].mean(axis=1) - near[:, b].mean(axis=1)
            intrinsic[:, column] += effect / near[:, [*a, *b]].std(axis=1, ddof=1)
            outcome = np.full(len(frame), np.nan)
            outcome[goes[pool.rows]] = pool.outcomes[:, column]
            extrinsic[:, column] += outcome[top].mean(axis=1)
    return intrinsic, extrinsic


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_placebo_is_the_loop(kind):
    world = nulls.experiment(kind, 3)
    world = replace(world, protocol=replace(world.protocol, placebo=6))
    corpus = corpus_of(world.corpus, world.protocol, world.seed)
    result = experiment.run(*vars(world).values())
    drawn = result.draws[result.draws["kind"] == "placebo"].set_index(["stratum", "draw"])["rho"]
    frame = world.targets.frame
    unit = frame["word" if "word" in frame else "id"]
    for draw, permuted in enumerate(corpus.exchange.permutations(6)):
        scores = [
            pd.DataFrame(score).groupby(unit.to_numpy()).mean() for score in moved(world, corpus, permuted)
        ]
        for stratum, targets in result.targets.groupby("stratum"):
            column = 0 if corpus.properties == [None] else corpus.properties.index(stratum)
            x, y = (score.loc[targets["id"], column].round(12) for score in scores)
            assert drawn[stratum, draw] == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)


@pytest.mark.parametrize("score", [{"intrinsic": "difference"}, {"extrinsic": "zero_shot"}], ids=str)
def test_other_scores_hold_the_level(score, monkeypatch):
    monkeypatch.setattr(nulls, "PROTOCOL", replace(nulls.PROTOCOL, **score))
    null = nulls.Null("faces", "labels", False, "corpus")
    values = [nulls.p_value(null, number) for number in range(40)]
    assert nulls.tabulate([(null, values)], quick=True)["holds"].all()


def test_words_exchanged_phrase_by_phrase_are_noticed(monkeypatch):
    """Compute p of phrases that share words and are exchanged singly: it is too small."""
    kind = nulls.Null("scenes", "labels", True, "corpus")
    values = [nulls.p_value(kind, number) for number in range(40)]
    assert nulls.tabulate([(kind, values)], quick=True)["holds"].all()
    monkeypatch.setattr(exchange_units, "_crossed_levels", lambda phrases, singly: singly)
    values = [nulls.p_value(kind, number) for number in range(40)]
    assert not nulls.tabulate([(kind, values)], quick=True)["holds"].any()


def test_a_share_outside_its_band_fails_the_command(tmp_path, monkeypatch):
    for hits, code in ((0, 1), (1000, 1), (50, 0)):
        table = nulls.tabulate([(KINDS[0], [0.05] * hits + [0.5] * (1000 - hits))], quick=False)
        tables = {"coverage": table, "placebo": table}
        monkeypatch.setattr(calibration, "measure", lambda _, tables=tables: tables)
        assert calibration.main(["--output", str(tmp_path)]) == code
