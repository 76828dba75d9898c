"""Check that claims hold in a quick simulation, and that worlds, bounds and detected faults are right."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from src.metrics import jackknife
from src.metrics.groups import WelchTests
from src.stimuli import clusters
from src.studies.propagation import experiment
from src.studies.propagation.attributes import corpus_of
from tests.commands import command
from tests.paths import SHARED
from validation import sweeps
from validation.calibration import __main__ as calibration
from validation.calibration import (
    attribute_sets,
    bounds,
    components,
    coverage,
    equality,
    equivalence,
    families,
    minimum_detectable,
    nulls,
    planted,
    populations,
    reliability,
    studies,
    worlds,
)

POPULATIONS = {population.name: population for population in populations.populations()}
KINDS = worlds.kinds()
EXPERIMENTS = [replace(kind, attributes=attributes) for kind in KINDS for attributes in worlds.ATTRIBUTES]
ROWS = {
    "nulls": 9,
    "coverage": 22,
    "equality": 10,
    "equivalence": 18,
    "planted": 4,
    "properties": 2,
    "studies": 8,
    "components": 38,
    "families": 3,
    "matched": 12,
    "harms": 25,
    "minimum_detectable": 10,
    "reliability": 11,
    "attribute_sets": 4,
    "paths": 5,
}
INTERVALS = dict.fromkeys(("rho", "mean", "level", "single"), (0, 1))
OUTSIDE = dict.fromkeys(INTERVALS, (0.9, 1))
TRUTH = {"rho": 0.8, "mean": 0.5, "level": 0.5}


def analyses(hits, count, rho=0.0, spread=1.0):
    """Make analyses of which the first `hits` have p = .05, and whose mean rho is as given."""
    rhos = rho + spread * np.tile([-0.1, 0.1], count // 2)
    p_values = [0.05] * hits + [0.06] * (count - hits)
    return [nulls.Analysis(0.0, p, value, p) for p, value in zip(p_values, rhos, strict=True)]


@pytest.mark.thorough
def test_claims_hold_in_the_quick_form_and_in_its_page(tmp_path, capsys):
    assert calibration.main(["--quick", "--output", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "README.md").read_text()
    assert page in capsys.readouterr().out
    for name, rows in ROWS.items():
        table = pd.read_csv(tmp_path / "out" / f"{name}.csv")
        assert len(table) == rows
        assert table["holds"].all()
    assert len(re.findall(r"\| yes +\|", page)) == sum(ROWS.values())


def test_a_number_of_worlds_is_written_into_the_page(tmp_path, monkeypatch, capsys):
    row = {"world": "w", "worlds": 7, "low": 0.0, "high": 0.1, "share": 0.05, "holds": True}
    calls = []
    monkeypatch.setattr(calibration, "measure", lambda *call: calls.append(call) or pd.DataFrame([row]))
    assert calibration.main(["--worlds", "7", "--tables", "nulls", "--output", str(tmp_path)]) == 0
    assert calls == [(calibration.Size(worlds=7), "nulls")]
    page = (tmp_path / "README.md").read_text()
    assert "--worlds 7`." in page
    assert "## Coverage" not in page
    with pytest.raises(SystemExit):
        calibration.main(["--worlds", "1"])
    assert "expected 2 or more, got 1" in capsys.readouterr().err


def test_the_page_shows_the_tables_of_earlier_commands(tmp_path, monkeypatch):
    row = {"world": "w", "worlds": 7, "low": 0.0, "high": 0.1, "share": 0.05}
    for name, holds in (("nulls", False), ("coverage", True)):
        monkeypatch.setattr(
            calibration, "measure", lambda *_, holds=holds: pd.DataFrame([row | {"holds": holds}])
        )
        # The status is that of the tables of this command.
        assert calibration.main(["--tables", name, "--output", str(tmp_path)]) == int(not holds)
    page = (tmp_path / "README.md").read_text()
    assert page.index("## Null worlds") < page.index("**no**") < page.index("## Coverage")


def test_a_claim_that_does_not_hold_fails_the_command(tmp_path, monkeypatch):
    for hits, code in ((0, 1), (1000, 1), (50, 0)):
        table = nulls.tabulate([("w", "corpus", analyses(hits, 1000))])
        monkeypatch.setattr(calibration, "measure", lambda *_, table=table: table)
        assert calibration.main(["--output", str(tmp_path)]) == code


# Worlds.


@pytest.mark.parametrize("kind", EXPERIMENTS, ids=lambda kind: f"{kind.name}, {kind.attributes}")
def test_every_kind_has_a_placebo(kind):
    result = experiment.run(*vars(worlds.experiment(kind, 3)).values())
    assert result.analyses[["level_p", "p_placebo"]].notna().all(axis=None)
    assert not [note for note in result.notes if "no placebo" in note]


def test_clusters_of_the_worlds_are_those_of_the_stimuli():
    """Check that `assign_clusters` finds in the tables the clusters that the worlds drew."""
    rng = np.random.default_rng(0)
    morphs = worlds.stimuli("faces", *worlds.morphs(rng), rng)[0]
    families = clusters.merge_linked(clusters.assign_clusters(morphs))
    assert families.value_counts().tolist() == [15] * 32
    assert (morphs.frame["group"].groupby(families).nunique() == 1).all()
    phrases = clusters.assign_clusters(worlds.stimuli("labels", *worlds.labels(rng), rng)[0])
    assert phrases.nunique().tolist() == [25, 24]
    words = worlds.stimuli("words", *worlds.word_families(rng), rng)[0]
    stems = clusters.assign_clusters(words)["cluster"]
    assert (words.frame["word"].str.startswith(tuple(stems.unique()))).all()
    assert 100 < stems.nunique() < 150
    scenes = worlds.stimuli("scenes", *worlds.themes(rng), rng)[0]
    assert (len(scenes.frame), clusters.assign_clusters(scenes)["cluster"].nunique()) == (900, 248)


def test_a_population_of_labels_has_25_lemmas_of_36_words():
    members = POPULATIONS["labels 36 × 24, both words count"].members(np.random.default_rng(0))
    assert members[["race_lemma", "gender_lemma", "race_word"]].nunique().tolist() == [25, 24, 36]
    assert members[members["group"] == 0]["race_lemma"].nunique() == 9


@pytest.mark.parametrize(("originals", "count"), [(60, 30), (60, 60), (90, 910)])
def test_originals_and_their_morphs(originals, count):
    population = POPULATIONS[f"{originals} originals and {count} of their morphs a group"]
    members = population.members(np.random.default_rng(0))
    is_original = members["parent_a"] == members["parent_b"]
    for _, group in members.assign(is_original=is_original).groupby("group"):
        assert (len(group), group["is_original"].sum()) == (originals + count, originals)
        assert {*group["parent_a"], *group["parent_b"]} == {*group.loc[group["is_original"], "parent_a"]}
        assert not group.duplicated().any()
    distinct = populations.distinct(members, 2 * len(members))
    assert (distinct["parent_a"] == distinct["parent_b"]).mean() == pytest.approx(is_original.mean())
    parents = distinct[["parent_a", "parent_b"]].apply(set, axis=1)
    assert parents.map(len).sum() == len(set().union(*parents))


def test_worlds_of_oasis_have_its_themes_and_ratings(monkeypatch):
    path = SHARED / "oasis" / "OASIS.csv"
    if not path.is_file():
        pytest.skip("OASIS is absent")
    monkeypatch.setattr(worlds, "OASIS", path)
    kind = worlds.kinds()[1]
    assert kind.name == "OASIS's themes and ratings"
    frame = worlds.experiment(kind, 0).corpus.frame
    assert (len(frame), frame["cluster"].nunique()) == (900, 248)
    sizes = frame["cluster"].value_counts().value_counts().to_dict()
    assert sizes == worlds.THEMES
    assert frame.loc[frame["id"] == "Acorns 1", "valence"].item() == pytest.approx((4.68627451 - 1) / 6)


LONG_KINDS = [KINDS[0], *(pytest.param(kind, marks=pytest.mark.exhaustive) for kind in KINDS[1:])]


@pytest.mark.thorough
@pytest.mark.parametrize("kind", LONG_KINDS, ids=lambda kind: kind.name)
def test_the_command_line_gives_the_numbers_of_the_experiment(kind):
    analyses = nulls.analyse_in_sweep(kind, range(2))
    for attributes, measured in analyses.items():
        for number, analysis in enumerate(measured):
            inputs = worlds.experiment(replace(kind, attributes=attributes), number)
            rows = experiment.run(*vars(replace(inputs, seed=0)).values()).analyses
            expected = rows.iloc[number % len(rows)]
            assert analysis.rho == pytest.approx(expected["rho"], abs=1e-9)
            assert analysis.level == pytest.approx(expected["level"], abs=1e-9)
            assert 0 <= analysis.level_p <= 1 >= analysis.p_placebo >= 0


@pytest.mark.parametrize("name", ["300 persons a group", "200 morphs of 30 parents a group"])
def test_the_truth_of_normal_scores(name):
    """Compare with the rho of normal scores, and with the shift of the group."""
    truth = coverage.truth_of(POPULATIONS[name], 400_000)
    correlation = 0.8  # of parents' and faces' own terms alike
    assert truth["rho"] == pytest.approx(6 / np.pi * np.arcsin(correlation / 2), abs=0.004)
    assert truth["mean"] == pytest.approx(populations.SHIFT, abs=0.01)
    assert truth["level"] == pytest.approx(populations.SHIFT, abs=0.01)


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
    return intrinsic, extrinsic / len(corpus.pools)


def level_of(targets, extrinsic, stratum):
    """Compute the level by its definition."""
    if "group" in targets:
        in_group = (targets["group"] == stratum).to_numpy()
        return extrinsic[in_group].mean() - extrinsic[~in_group].mean()
    z = stats.zscore(targets["valence"])
    return (z * extrinsic).mean()


@pytest.mark.parametrize("kind", EXPERIMENTS, ids=lambda kind: f"{kind.name}, {kind.attributes}")
def test_placebo_draws_are_those_of_the_loop(kind):
    inputs = worlds.experiment(kind, 3)
    inputs = replace(inputs, protocol=replace(inputs.protocol, placebo=4))
    corpus = corpus_of(inputs.corpus, inputs.protocol, inputs.seed)
    result = experiment.run(*vars(inputs).values())
    draws = result.draws[result.draws["kind"] == "placebo"].set_index(["stratum", "draw"])["rho"]
    levels = result.level_draws.set_index(["stratum", "draw"])["level"]
    unit = inputs.targets.frame["word" if "word" in inputs.targets.frame else "id"]
    for number, permutation in enumerate(corpus.exchange.draw_permutations(4)):
        scores = permuted_scores(inputs, corpus, permutation)
        frames = [pd.DataFrame(score).groupby(unit.to_numpy()).mean() for score in scores]
        for stratum, targets in result.targets.groupby("stratum"):
            column = 0 if corpus.properties == [None] else corpus.properties.index(stratum)
            x, y = (frame.loc[targets["id"], column].round(12) for frame in frames)
            assert draws[stratum, number] == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)
            level = level_of(inputs.targets.frame, scores[1][:, column], stratum)
            assert levels[stratum, number + 1] == pytest.approx(level, abs=1e-12)


@pytest.mark.parametrize("parents", [pytest.param(25, marks=pytest.mark.thorough), 90])
def test_linked_morphs_have_intervals_but_no_p(parents, tmp_path, capfd):
    """Run the command line on morphs whose parents are all linked, as in the paper's sample."""
    rng = np.random.default_rng(parents)
    faces = populations.morphs(parents, 240, rng).astype(str)
    group = "group " + faces["group"]
    items = faces.assign(group=group, name=[f"m{number:04d}" for number in range(len(faces))])
    words = pd.DataFrame(
        {"name": [f"w{number:02d}" for number in range(60)], "valence": rng.uniform(size=60)}
    )
    folder = tmp_path / "lab"
    folder.mkdir()
    for role, frame in (("faces", items), ("words", words)):
        vectors = rng.standard_normal((len(frame), worlds.WIDTH))
        sweeps.write(*worlds.stimuli(role, frame, vectors, rng), folder)
    overrides = ["-m", "model=precomputed", f"model.path={folder}", "exp=words_to_faces", "protocol.k=50"]
    overrides += [f"tracking.uri=sqlite:///{tmp_path}/mlflow.db", "protocol.targets=all"]
    swept = command(tmp_path / "out", *overrides)
    assert swept.code == 0
    analyses = swept.analyses()
    assert len(analyses) == 4
    assert analyses[["level_p", "level_z", "p_placebo", "placebo_q95"]].isna().all(axis=None)
    assert analyses[["level_low", "level_high", "ci_low", "ci_high"]].notna().all(axis=None)
    reason = "no placebo, since fewer than 1,000 placements (faces are exchanged by cluster)"
    assert reason in "".join(capfd.readouterr())


# Bounds.


@pytest.mark.parametrize(("hits", "holds"), [(28, False), (29, True), (74, True), (75, False)])
def test_the_band_of_the_level_of_a_test(hits, holds):
    table = nulls.tabulate([("w", "corpus", analyses(hits, 1000))]).iloc[0]
    assert (table["share_level"], table["share_rho"], table["holds"]) == (hits / 1000, hits / 1000, holds)
    assert bounds.of_false_positive_rate(1000) == (0.029, 0.074)


@pytest.mark.parametrize(("rho", "holds"), [(0.0, True), (0.009, True), (0.01, False)])
def test_the_mean_rho_without_shared_sets_is_0(rho, holds):
    """Rhos of ±0.1 have a standard error of 0.1 / sqrt(1000); the limit is 3 of them."""
    for attributes, expected in (("corpus", True), ("held_out", holds)):
        table = nulls.tabulate([("w", attributes, analyses(50, 1000, rho))])
        assert table["holds"].tolist() == [expected, True]


def test_an_undefined_rho_has_no_p_of_rho():
    measured = [*analyses(1, 20), *[nulls.Analysis(0.0, 0.5, np.nan, 0.01)] * 20]
    table = nulls.tabulate([("w", "corpus", measured)]).iloc[0]
    assert table[["undefined", "share_level", "share_rho"]].tolist() == [20, 1 / 40, 1 / 20]


def samples_that_cover(share):
    return [INTERVALS if number < 100 * share else OUTSIDE for number in range(100)]


@pytest.mark.parametrize(
    ("share", "holds_in_full", "holds_in_few"),
    [(0.88, False, True), (0.95, True, True), (0.99, False, True), (0.7, False, False)],
)
def test_the_limits_of_coverage(share, holds_in_full, holds_in_few):
    population, samples = POPULATIONS["300 persons a group"], samples_that_cover(share)
    for is_few, expected in ((False, holds_in_full), (True, holds_in_few)):
        table = coverage.tabulate([(population, TRUTH, samples)], is_few)
        assert table["holds"].tolist() == [expected] * 2


@pytest.mark.parametrize(("shares", "holds"), [((0.91, 0.97), True), ((0.91, 0.93), False)])
def test_the_mean_coverage_has_narrower_limits(shares, holds):
    population = POPULATIONS["300 persons a group"]
    measured = [(population, TRUTH, samples_that_cover(share)) for share in shares]
    assert coverage.tabulate(measured, few=False)["holds"].tolist() == [True, True, holds]


def test_only_rho_counts_where_the_sample_fixes_the_mean():
    sample = INTERVALS | {"mean": (0.9, 1), "level": (0.9, 1)}
    measured = [
        (POPULATIONS[name], TRUTH, [sample] * 19 + [OUTSIDE])
        for name in ("the 50 extremes of 900", "30 persons a group")
    ]
    table = coverage.tabulate(measured, few=False)
    assert table["holds"].tolist() == [True, False, False]
    assert table["coverage_mean"].isna().tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("number", "hits", "holds"), [(0, 70, True), (0, 71, False), (-1, 900, True), (-1, 899, False)]
)
def test_the_limits_of_equality_and_power(number, hits, holds):
    values = [0.05] * hits + [0.06] * (1000 - hits)
    assert equality.tabulate([(equality.pairs()[number], values)], few=False)["holds"].tolist() == [holds]


def ratios(count, total, low, high, is_equivalent):
    """Make ratios of which the first `count` are as given, the others about 1 and undecided."""
    first = jackknife.Ratio((low + high) / 2, low, high, is_equivalent)
    return [first] * count + [jackknife.Ratio(1.0, 0.4, 1.6, False)] * (total - count)


# (whether the spread is precise, ratio) -> kind of world, of the population of persons
EQUIVALENCE_KINDS = {(kind.spread > 1, kind.ratio): kind for kind in equivalence.kinds()[:5]}


@pytest.mark.parametrize(
    ("kind", "hits", "given", "holds"),
    [
        ((True, 0.9), 74, (0.8, 1, True), True),  # equivalence at the margin's edge: at most 5%
        ((True, 0.9), 75, (0.8, 1, True), False),
        ((True, 1.1), 75, (1, 1.2, True), False),
        ((True, 1.0), 867, (0.9, 1.1, True), False),  # power: at least 90%
        ((True, 1.0), 868, (0.9, 1.1, True), True),
        ((False, 1.0), 43, (0.8, 0.9, False), True),  # an interval below a ratio of 1: at most 2.5%
        ((False, 1.0), 44, (0.8, 0.9, False), False),
        ((True, 0.9), 74, (0.5, 0.6, False), True),  # an interval without the ratio: at most 5%
        ((True, 0.9), 75, (0.5, 0.6, False), False),
        ((True, 0.5), 1000, (0.4, 0.6, False), True),
        ((True, 0.5), 867, (0.4, 0.6, False), False),
    ],
)
def test_the_limits_of_equivalence(kind, hits, given, holds):
    table = equivalence.tabulate([(EQUIVALENCE_KINDS[kind], ratios(hits, 1000, *given))])
    assert table["holds"].tolist() == [holds]


@pytest.mark.parametrize(("refused", "holds"), [(926, True), (925, False)])
def test_equal_groups_must_have_no_ratio(refused, holds):
    kind = equivalence.kinds()[5]
    assert kind.spread == 0
    values = ratios(1000 - refused, 1000 - refused, 0.9, 1.1, True)
    values += [jackknife.Ratio(np.nan, np.nan, np.nan, None)] * refused
    table = equivalence.tabulate([(kind, values)]).iloc[0]
    assert (table["share_refused"], table["holds"]) == (pytest.approx(refused / 1000), holds)
    assert np.isnan(table["coverage"])


@pytest.mark.thorough
def test_equivalence_keeps_its_level_and_power():
    measured = [
        (kind, [equivalence.compute_ratio(kind, number) for number in range(60)])
        for kind in equivalence.kinds()
        if kind.ratio in (0.9, 1.0)
    ]
    table = equivalence.tabulate(measured)
    assert table["holds"].all(), table


def test_the_level_must_rise_with_the_planted_strength():
    rising = [
        analyses(50, 1000),
        *([nulls.Analysis(level, 0.01, 0.5, 0.5)] * 10 for level in (0.1, 0.2, 0.2)),
    ]
    table = planted.tabulate([*zip(planted.strengths(), rising, strict=True)])
    assert table["holds"].tolist() == [True, True, True, False]


@pytest.mark.parametrize(("above", "holds"), [(1, False), (2, True), (8, True), (9, False)])
def test_the_limits_of_property_draws(above, holds):
    outside = [(1.0, 0.0)] * above + [(0.0, 0.0)] * (100 - above) + [(np.nan, np.nan)] * 3
    table = planted.tabulate_properties([(1, outside)], few=False).iloc[0]
    assert (table["worlds"], table["refused"], table["share_above"]) == (100, 3, above / 100)
    assert table["holds"] == holds


@pytest.mark.parametrize(
    ("number", "hits", "holds"),
    [(0, 28, False), (0, 29, True), (0, 75, False), (-1, 889, False), (-1, 890, True)],
)
def test_the_limits_of_tests_and_intervals_of_other_studies(number, hits, holds):
    measured = [(studies.kinds()[number], [True] * hits + [False] * (1000 - hits))]
    assert studies.tabulate(measured, few=False)["holds"].tolist() == [holds]


@pytest.mark.parametrize(("share", "holds"), [(0.74, False), (0.75, True), (0.85, True), (0.86, False)])
def test_the_limits_of_minimum_detectable_effects(share, holds):
    effect = minimum_detectable.effects()[0]
    detections = [(0.2, float(number < 100 * share)) for number in range(100)]
    table = minimum_detectable.tabulate([(effect, detections)], few=False).iloc[0]
    assert (table["share"], table["planted"], table["holds"]) == (share, pytest.approx(0.2), holds)


@pytest.mark.parametrize(("mean", "holds"), [(0.25, True), (0.28, True), (0.29, False)])
def test_the_bounds_of_a_mean_estimate_are_those_of_t(mean, holds):
    """Estimates of SD .1 in 100 worlds have bounds of 3.39 standard errors."""
    design = components.designs()[0]
    spread = np.tile([-0.1, 0.1], 50) * np.sqrt(0.99)
    estimates = [design.planted | {"rest": mean + deviation} for deviation in spread]
    row = components.tabulate([(design, estimates)]).set_index("component").loc["rest"]
    assert (row["mean"], row["sd"]) == pytest.approx((mean, 0.1))
    assert row["mean_high"] == pytest.approx(0.25 + stats.t.ppf(0.9995, 99) * 0.01)
    assert row["holds"] == holds


@pytest.mark.parametrize(
    "effect", minimum_detectable.effects()[:6], ids=lambda e: f"{e.name}, {e.world.name}"
)
def test_levels_have_or_differ_by_the_planted_effect(effect):
    """Check that the first model's level, or its difference from the second's, is .7 on average."""
    rng = np.random.default_rng(0)
    is_level = effect.name == minimum_detectable.LEVEL
    pairs = [minimum_detectable.levels(effect.world, rng, 0.7, is_level) for _ in range(40)]
    values = np.array([first.value - (0 if is_level else second.value) for first, second in pairs])
    assert values.mean() == pytest.approx(0.7, abs=4 * values.std() / np.sqrt(40))


@pytest.mark.parametrize(("bias", "holds"), [(0.019, True), (0.021, False), (-0.021, False)])
def test_the_limits_of_the_bias_of_corrected_rho(bias, holds):
    row = reliability.Correction(0.8 + bias, 0.7, 0.9, 0.6, 0.5, 0.7)
    kind = reliability.kinds()[0]
    assert reliability.tabulate([(kind, 0.8, [row] * 100)], few=False)["holds"].tolist() == [holds]
    outside = row._replace(rho_true=0.8, low=0.81)
    table = reliability.tabulate([(kind, 0.8, [row._replace(rho_true=0.8)] * 88 + [outside] * 12)], few=False)
    assert table[["coverage_corrected", "holds"]].to_numpy().tolist() == [[0.88, False]]


def test_corrected_rho_must_be_nearer_than_plain_rho():
    kind = reliability.kinds()[0]
    for plain, holds in ((0.84, False), (0.86, True)):
        row = reliability.Correction(0.815, 0.7, 0.9, plain, 0.5, 0.7)
        assert reliability.tabulate([(kind, 0.8, [row] * 100)], few=False)["holds"].tolist() == [holds]


@pytest.mark.parametrize(
    ("ratio", "attributes", "holds"),
    [(0.78, "held_out", False), (0.82, "held_out", True), (1.22, "held_out", False)]
    + [(0.6, "corpus", True), (0.4, "corpus", False)],
)
def test_the_limits_of_sd_attributes(ratio, attributes, holds):
    spread = attribute_sets.Spread(ratio**2, 1.0, 0.25, 1.0)
    kind = (attribute_sets.kinds()[0][0], attributes)
    table = attribute_sets.tabulate([(kind, [spread] * 9)], few=False)
    assert table["ratio"].tolist() == pytest.approx([ratio])
    assert table["holds"].tolist() == [holds]


# Faults.


def test_models_taken_as_independent_are_detected():
    for design in families.DESIGNS[:2]:
        values = [families.p_values(design, number) for number in range(100)]
        table = families.tabulate([(design, values)]).iloc[0]
        assert table["holds"]
        assert table["share_singly"] > table["high"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("design", components.designs(), ids=lambda design: design.name)
def test_a_biased_component_is_detected(design):
    estimates = [components.estimates_of(design, number) for number in range(200)]
    assert components.tabulate([(design, estimates)])["holds"].all()
    biased = [estimate | {"rest": 2 * estimate["rest"]} for estimate in estimates]
    table = components.tabulate([(design, biased)]).set_index("component")
    assert table.index[~table["holds"]].tolist() == ["rest"]


@pytest.mark.thorough
def test_plain_rho_does_not_recover_the_truth_where_corrected_rho_does():
    for kind, count in ((reliability.kinds()[0], 40), (reliability.kinds()[-1], 8)):
        truth = reliability.truth_of(kind, 100_000)
        values = [reliability.correct(kind, number) for number in range(count)]
        row = reliability.tabulate([(kind, truth, values)], few=True).iloc[0]
        assert row["holds"]
        assert abs(row["bias_corrected"]) < 0.5 * abs(row["bias_plain"])
    kind = reliability.kinds()[0]
    truth, values = 0.786, [reliability.correct(kind, number) for number in range(40)]
    plain = [reliability.Correction(*value[3:], *value[3:]) for value in values]
    assert not reliability.tabulate([(kind, truth, plain)], few=True)["holds"].any()


@pytest.mark.thorough
def test_overlapping_sets_understate_the_sd():
    kind = attribute_sets.kinds()[0]
    spreads = [attribute_sets.spread_of(kind, number) for number in range(15)]
    assert attribute_sets.tabulate([(kind, spreads)], few=True)["holds"].all()
    redrawn = [spread._replace(halves=spread.redrawn, redrawn=spread.halves) for spread in spreads]
    assert not attribute_sets.tabulate([(kind, redrawn)], few=True)["holds"].any()


def test_an_audit_that_ignores_unequal_spread_is_detected(monkeypatch):
    """Permute a difference of means instead of Welch's score."""
    kind = studies.kinds()[0]
    hits = [studies.is_hit(kind, number) for number in range(100)]
    assert studies.tabulate([(kind, hits)], few=True)["holds"].all()
    monkeypatch.setattr(WelchTests, "score", lambda tests: np.abs(tests.difference))
    hits = [studies.is_hit(kind, number) for number in range(100)]
    assert not studies.tabulate([(kind, hits)], few=True)["holds"].any()


@pytest.mark.parametrize("name", ["labels 36 × 24, race word counts", "200 morphs of 30 parents a group"])
def test_an_interval_that_ignores_clusters_is_detected(name):
    population = POPULATIONS[name]
    truth = coverage.truth_of(population, 100_000)
    samples = [coverage.intervals_of(population, number) for number in range(60)]
    assert coverage.tabulate([(population, truth, samples)], few=True)["holds"].all()
    faulty = [sample | {"rho": sample[coverage.SINGLE]} for sample in samples]
    assert not coverage.tabulate([(population, truth, faulty)], few=True)["holds"].any()


def test_a_test_of_equivalence_that_ignores_shared_words_is_detected(monkeypatch):
    kind = next(each for each in equivalence.kinds() if "labels" in each.population.name)
    assert equivalence.tabulate([(kind, [equivalence.compute_ratio(kind, number) for number in range(30)])])[
        "holds"
    ].all()
    monkeypatch.setattr(
        equivalence, "ways_of", lambda members: pd.DataFrame({"cluster": members.index.astype(str)})
    )
    table = equivalence.tabulate([(kind, [equivalence.compute_ratio(kind, number) for number in range(30)])])
    assert table["coverage"].item() < 0.6
    assert not table["holds"].any()


def test_exchanging_morphs_of_a_family_singly_is_detected(monkeypatch):
    morphs = KINDS[0]
    values = [nulls.analyse(morphs, number) for number in range(20)]
    assert nulls.tabulate([("morphs", "corpus", values)])["holds"].all()
    monkeypatch.setattr(clusters, "merge_linked", lambda faces: faces.index.to_series().astype(str))
    values = [nulls.analyse(morphs, number) for number in range(20)]
    table = nulls.tabulate([("morphs", "corpus", values)]).iloc[0]
    assert min(table["share_level"], table["share_rho"]) > table["high"]
    assert not table["holds"]


@pytest.mark.parametrize("score", [{"intrinsic": "difference"}, {"extrinsic": "zero_shot"}], ids=str)
def test_other_scores_keep_the_level_of_the_test(score, monkeypatch):
    monkeypatch.setattr(worlds, "PROTOCOL", replace(worlds.PROTOCOL, **score))
    kind = next(kind for kind in KINDS if kind.corpus == "faces")
    p_values = np.array([nulls.analyse(kind, number).p_placebo for number in range(20)])
    low, high = bounds.of_false_positive_rate(20)
    assert low <= (p_values <= bounds.ALPHA).mean() <= high
