"""What is claimed holds in a quick simulation, and instruments that are wrong are found out."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from src.stimuli import checked
from src.studies.propagation import experiment
from src.studies.propagation.attributes import corpus_of
from src.studies.shared import exchange_units
from validation.calibration import __main__ as calibration
from validation.calibration import coverage, nulls, populations

POPULATIONS = {world.name: world for world in populations.worlds()}
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
    assert page.count("| yes |") == 18 + 24


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("labels 12 × 12, both words count", 1),
        ("150 morphs of 30 parents", 1),
        ("uneven variance", 2),
    ],
)
def test_an_interval_that_is_too_narrow_is_found_out(name, wrong):
    world = POPULATIONS[name]
    truth = coverage.truth_of(world, 200_000)
    studies = [coverage.sampled(world, truth, number, 100) for number in range(100)]
    found = coverage.tabulate([(world, truth, studies)], quick=True).iloc[0]
    assert found["holds"]
    swapped = [replace(study, holds=(study.holds[wrong], *study.holds[1:])) for study in studies]
    assert not coverage.tabulate([(world, truth, swapped)], quick=True)["holds"].any()


@pytest.mark.parametrize(
    ("share", "full", "quick"),
    [(0.9, False, True), (0.92, True, True), (0.98, True, True), (0.99, False, True), (0.8, False, False)],
)
def test_the_band_of_an_interval(share, full, quick):
    world = POPULATIONS["normal scores"]
    studies = [coverage.Sampled(9, (number < 100 * share, True, True), 0.1) for number in range(100)]
    for few, expected in ((False, full), (True, quick)):
        assert coverage.tabulate([(world, 0.8, studies)], few)["holds"].tolist() == [expected]


@pytest.mark.parametrize(("hits", "holds"), [(32, False), (33, True), (69, True), (70, False)])
def test_the_band_of_the_placebo(hits, holds):
    values = [0.05] * hits + [0.06] * (1000 - hits)
    found = nulls.tabulate([(KINDS[0], values)], quick=False).iloc[0]
    # 99% of binomial draws of 1,000 at 5%.
    assert (stats.binom.cdf([32, 68], 1000, 0.05) < [0.005, 0.995]).all()
    assert (stats.binom.cdf([33, 69], 1000, 0.05) >= [0.005, 0.995]).all()
    assert (found["share"], found["holds"]) == (hits / 1000, holds)


def moved(world, corpus, permuted):
    """Rho of each stratum after one permutation, by loops: sets and outcomes go where units are put."""
    frame, place = world.corpus.frame, "word" if "word" in world.corpus.frame else "id"
    to = dict(zip(corpus.exchange.names, corpus.exchange.names[permuted], strict=True))
    copy = frame["template"] if "template" in frame else frame["id"].map(lambda _: "")
    row = {pair: number for number, pair in enumerate(zip(frame[place], copy, strict=True))}
    goes = np.array([row[to[name], which] for name, which in zip(frame[place], copy, strict=True)])
    x, y = (
        v / np.linalg.norm(v, axis=1, keepdims=True) for v in (world.target_vectors, world.corpus_vectors)
    )
    near = np.asarray(x) @ np.asarray(y).T
    intrinsic, extrinsic = np.zeros((2, len(near), len(corpus.contents)))
    for pool in corpus.pools:
        kept = pool.rows if pool.retrievable is None else pool.rows[pool.retrievable]
        top = kept[np.argsort(-near[:, kept], axis=1)[:, : pool.k]]
        for content in range(len(corpus.contents)):
            a, b = (goes[pool.rows[sets[content]]] for sets in (pool.a, pool.b))
            effect = near[:, a].mean(axis=1) - near[:, b].mean(axis=1)
            intrinsic[:, content] += effect / near[:, [*a, *b]].std(axis=1, ddof=1)
            outcome = np.full(len(frame), np.nan)
            outcome[goes[pool.rows]] = pool.outcomes[:, content]
            extrinsic[:, content] += outcome[top].mean(axis=1)
    return intrinsic, extrinsic


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_placebo_is_the_loop(kind):
    world = nulls.experiment(kind, 3)
    world = replace(world, protocol=replace(world.protocol, placebo=6))
    corpus = corpus_of(world.corpus, world.protocol, world.seed)
    found = experiment.run(*vars(world).values())
    drawn = found.draws[found.draws["kind"] == "placebo"].set_index(["stratum", "draw"])["rho"]
    frame = world.targets.frame
    unit = frame["word" if "word" in frame else "id"]
    for draw, permuted in enumerate(corpus.exchange.permutations(6)):
        scores = [
            pd.DataFrame(part).groupby(unit.to_numpy()).mean() for part in moved(world, corpus, permuted)
        ]
        for stratum, targets in found.targets.groupby("stratum"):
            content = 0 if corpus.contents == [None] else corpus.contents.index(stratum)
            x, y = (part.loc[targets["id"], content].round(12) for part in scores)
            assert drawn[stratum, draw] == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_p_of_a_world_is_that_of_the_experiment(kind):
    world = nulls.experiment(kind, 5)
    for table in (world.targets, world.corpus):
        pd.testing.assert_frame_equal(table.frame, checked(table.role, table.frame, "here").frame)
    whole = experiment.run(*vars(world).values()).analyses["p_placebo"]
    assert nulls.p_value(kind, 5) == whole[5 % len(whole)]


@pytest.mark.parametrize("score", [{"intrinsic": "difference"}, {"extrinsic": "zero_shot"}], ids=str)
@pytest.mark.parametrize("kind", [("scenes", "words"), ("faces", "labels")], ids=str)
def test_other_scores_hold_the_level(kind, score, monkeypatch):
    monkeypatch.setattr(nulls, "PROTOCOL", replace(nulls.PROTOCOL, **score))
    null = nulls.Null(*kind, False, "corpus")
    values = [nulls.p_value(null, number) for number in range(40)]
    assert nulls.tabulate([(null, values)], quick=True)["holds"].all()


def test_words_exchanged_phrase_by_phrase_are_found_out(monkeypatch):
    """Phrases share words: exchanged singly they give p that are too small."""
    kind = nulls.Null("scenes", "labels", True, "corpus")
    values = [nulls.p_value(kind, number) for number in range(40)]
    assert nulls.tabulate([(kind, values)], quick=True)["holds"].all()
    monkeypatch.setattr(exchange_units, "_crossed", lambda phrases, singly: singly)
    values = [nulls.p_value(kind, number) for number in range(40)]
    assert not nulls.tabulate([(kind, values)], quick=True)["holds"].any()


def test_an_exchange_keeps_what_is_exchanged():
    for role, column in (("words", "valence"), ("faces", "group"), ("labels", "group")):
        rng = np.random.default_rng(0)
        items = nulls._items(role, rng)
        other = nulls.exchanged(items, rng)
        assert sorted(other[column]) == sorted(items[column])
        assert (other[column] != items[column]).any()
    # Phrases of one race word still are of one race.
    assert (other.groupby("race_word")["group"].agg(lambda group: group.str[0].nunique()) == 1).all()
    assert (other.groupby("gender_word")["group"].agg(lambda group: group.str[1].nunique()) == 1).all()


def test_where_no_folder_can_be_made_nothing_is_simulated(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(calibration, "measure", None)
    (tmp_path / "file").write_text("")
    assert calibration.main(["--output", str(tmp_path / "file")]) == 1
    assert "file: no folder can be made there" in capsys.readouterr().err


def test_a_share_outside_its_band_fails_the_command(tmp_path, monkeypatch):
    for p, code in ((0.5, 1), (0.05, 1)):
        found = nulls.tabulate([(KINDS[0], [p] * 1000)], quick=False)
        monkeypatch.setattr(
            calibration, "measure", lambda _, found=found: {"coverage": found, "placebo": found}
        )
        assert calibration.main(["--output", str(tmp_path)]) == code
    found = nulls.tabulate([(KINDS[0], [0.01] * 50 + [0.5] * 950)], quick=False)
    monkeypatch.setattr(calibration, "measure", lambda _: {"coverage": found, "placebo": found})
    assert calibration.main(["--output", str(tmp_path)]) == 0
