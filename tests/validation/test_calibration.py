"""Check that claims hold in a quick simulation, and that faulty intervals and placebos are detected."""

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
def test_claims_hold_in_the_quick_form_and_in_its_page(tmp_path, capsys, monkeypatch):
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
    ("name", "faulty"),
    [("labels 12 × 12, both words count", 1), ("150 morphs of 30 parents", 1), ("uneven variance", 2)],
)
def test_a_too_narrow_interval_is_detected(name, faulty):
    population = POPULATIONS[name]
    truth = coverage.truth_of(population, 200_000)
    studies = [coverage.simulate_study(population, truth, number, 100) for number in range(100)]
    table = coverage.tabulate([(population, truth, studies)], quick=True).iloc[0]
    assert table["holds"]
    faulty_studies = [
        replace(study, covered=(study.covered[faulty], *study.covered[1:])) for study in studies
    ]
    assert not coverage.tabulate([(population, truth, faulty_studies)], quick=True)["holds"].any()


@pytest.mark.parametrize(
    ("share", "full", "quick"),
    [(0.9, False, True), (0.92, True, True), (0.99, False, True), (0.8, False, False)],
)
def test_the_band_of_an_interval(share, full, quick):
    population = POPULATIONS["normal scores"]
    studies = [coverage.Study(9, (number < 100 * share, True, True), 0.1) for number in range(100)]
    for is_quick, expected in ((False, full), (True, quick)):
        assert coverage.tabulate([(population, 0.8, studies)], is_quick)["holds"].tolist() == [expected]


@pytest.mark.parametrize(("hits", "holds"), [(32, False), (33, True), (69, True), (70, False)])
def test_the_band_of_the_placebo(hits, holds):
    """Compare with the 99% band of binomial draws of 1,000 at 5%."""
    values = [0.05] * hits + [0.06] * (1000 - hits)
    table = nulls.tabulate([(KINDS[0], values)], quick=False).iloc[0]
    low, high = stats.binom.ppf([0.005, 0.995], 1000, 0.05)
    assert (table["share"], table["holds"], low <= hits <= high) == (hits / 1000, holds, holds)


def permuted_scores(inputs, corpus, permutation):
    """Compute both scores by loops after a permutation of units; sets and outcomes move with the units."""
    frame, unit = inputs.corpus.frame, "word" if "word" in inputs.corpus.frame else "id"
    new_unit = dict(zip(corpus.exchange.names, corpus.exchange.names[permutation], strict=True))
    templates = frame["template"] if "template" in frame else frame["id"].map(lambda _: "")
    row_of = {pair: row for row, pair in enumerate(zip(frame[unit], templates, strict=True))}
    new_rows = np.array([row_of[new_unit[name], template] for name, template in row_of])
    x, y = (
        v / np.linalg.norm(v, axis=1, keepdims=True) for v in (inputs.target_vectors, inputs.corpus_vectors)
    )
    cosines = np.asarray(x) @ np.asarray(y).T
    intrinsic, extrinsic = np.zeros((2, len(cosines), len(corpus.properties)))
    for pool in corpus.pools:
        rows = pool.rows if pool.retrievable is None else pool.rows[pool.retrievable]
        top = rows[np.argsort(-cosines[:, rows], axis=1)[:, : pool.k]]
        for column in range(len(corpus.properties)):
            a, b = (new_rows[pool.rows[sets[column]]] for sets in (pool.a, pool.b))
            effect = cosines[:, a].mean(axis=1) - cosines[:, b].mean(axis=1)
            intrinsic[:, column] += effect / cosines[:, [*a, *b]].std(axis=1, ddof=1)
            outcome = np.full(len(frame), np.nan)
            outcome[new_rows[pool.rows]] = pool.outcomes[:, column]
            extrinsic[:, column] += outcome[top].mean(axis=1)
    return intrinsic, extrinsic


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_placebo_draws_are_those_of_the_loop(kind):
    inputs = nulls.experiment(kind, 3)
    inputs = replace(inputs, protocol=replace(inputs.protocol, placebo=6))
    corpus = corpus_of(inputs.corpus, inputs.protocol, inputs.seed)
    result = experiment.run(*vars(inputs).values())
    draws = result.draws[result.draws["kind"] == "placebo"].set_index(["stratum", "draw"])["rho"]
    unit = inputs.targets.frame["word" if "word" in inputs.targets.frame else "id"]
    for number, permutation in enumerate(corpus.exchange.permutations(6)):
        frames = map(pd.DataFrame, permuted_scores(inputs, corpus, permutation))
        scores = [frame.groupby(unit.to_numpy()).mean() for frame in frames]
        for stratum, targets in result.targets.groupby("stratum"):
            column = 0 if corpus.properties == [None] else corpus.properties.index(stratum)
            x, y = (score.loc[targets["id"], column].round(12) for score in scores)
            assert draws[stratum, number] == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)


@pytest.mark.parametrize("score", [{"intrinsic": "difference"}, {"extrinsic": "zero_shot"}], ids=str)
def test_other_scores_keep_the_level_of_the_test(score, monkeypatch):
    monkeypatch.setattr(nulls, "PROTOCOL", replace(nulls.PROTOCOL, **score))
    null = nulls.Null("faces", "labels", False, "corpus")
    values = [nulls.p_value(null, number) for number in range(40)]
    assert nulls.tabulate([(null, values)], quick=True)["holds"].all()


def test_exchanging_phrases_that_share_words_singly_is_detected(monkeypatch):
    """Exchange such phrases independently: their p values are too small."""
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
