"""What a rho is worth: every draw against naive loops, and worlds in which the answer is known."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.linear_model import Ridge

from src import configs
from src.embeddings import embeddings
from src.jobs.identity import Job
from src.stimuli import checked, load
from src.stimuli.texts import in_templates, phrases
from src.studies.propagation import encoded_property, experiment, null_scores, retrieved_items, uncertainty
from src.studies.propagation.attributes import corpus_of
from src.studies.shared.exchange_units import Exchange, Factor, exchange_of
from tests import reference
from tests.conftest import precomputed
from tests.studies.propagation.test_experiment import PROTOCOL, loaded, overrides

LITTLE = {**PROTOCOL, "placebo": 19, "bootstrap": 200, "attribute_draws": 5, "property_draws": 10}
TEXTS = ["words_to_scenes", "labels_to_faces", "labels_to_scenes", "words_to_faces"]


@pytest.fixture(scope="module", params=[0, 3], ids=["one vector", "three vectors per image"])
def folder(request, tmp_path_factory):
    return precomputed(tmp_path_factory.mktemp("vectors") / "lab", seed=request.param, q=request.param)


@pytest.fixture
def single(tmp_path_factory):
    return precomputed(tmp_path_factory.mktemp("vectors") / "lab", seed=1)


def inputs(folder, exp, **protocol):
    made = Job.of(*configs.compose(overrides(folder, exp, **{**LITTLE, **protocol})), "")
    cfg = made.cfg
    targets, corpus = (load(cfg, role) for role in (cfg.exp.targets, cfg.exp.corpus))
    vectors = [
        embeddings(cfg, table.role, lambda role: load(cfg, role)).vectors for table in (targets, corpus)
    ]
    return targets, corpus, *vectors, cfg.protocol, 5


def result(folder, exp, **protocol):
    return experiment.run(*inputs(folder, exp, **protocol))


def draws(found, kind, stratum):
    rows = found.draws[(found.draws["kind"] == kind) & (found.draws["stratum"] == stratum)]
    return rows.sort_values("draw")["rho"].to_numpy()


@pytest.mark.parametrize("exp", reference.EXPERIMENTS)
def test_each_permutation_is_the_naive_loop_with_the_property_put_elsewhere(exp, folder):
    found = result(folder, exp)
    _, corpus, *_ = inputs(folder, exp)
    exchange = exchange_of(corpus, 5)
    moved = exchange.permutations(2)
    for number, places in enumerate(moved):
        put = dict(zip(exchange.names, exchange.names[places], strict=True))
        rows, _ = reference.propagate(exp, *loaded(folder), **PROTOCOL, seed=5, moved=put)
        for row in rows:
            assert draws(found, "placebo", row["stratum"])[number] == pytest.approx(row["rho"], abs=1e-9)


@pytest.mark.parametrize("exp", ["faces_to_words", "words_to_scenes"])
def test_held_out_extremes_are_not_retrieved(exp, folder):
    found = result(folder, exp, attributes="held_out")
    rows, _ = reference.propagate(exp, *loaded(folder), **PROTOCOL, seed=5, held_out=True)
    assert found.analyses["rho"].tolist() == pytest.approx([row["rho"] for row in rows], abs=1e-12)


@pytest.mark.parametrize("exp", reference.EXPERIMENTS)
@pytest.mark.parametrize("attributes", ["corpus", "held_out"])
def test_a_permutation_that_moves_nothing_gives_what_is_measured(exp, attributes, folder, monkeypatch):
    def unmoved(self, count, *more):
        return np.tile(np.arange(len(self.grid), dtype=np.int32), (count, 1))

    monkeypatch.setattr(Exchange, "permutations", unmoved)
    monkeypatch.setattr(
        "src.studies.propagation.attributes.Corpus.redrawn", lambda self, _: [(p.a, p.b) for p in self.pools]
    )
    found = result(folder, exp, attributes=attributes)
    for row in found.analyses.itertuples():
        assert row.rho_placebo_units == pytest.approx(row.rho, abs=1e-12)
        for kind in ("placebo", "attributes"):
            assert draws(found, kind, row.stratum) == pytest.approx(row.rho, abs=1e-9)
        assert row.p_placebo == 1
        assert row.sd_attributes == pytest.approx(0, abs=1e-9)


def test_columns_are_what_the_draws_say(folder):
    found = result(folder, "faces_to_words")
    for row in found.analyses.itertuples():
        rhos = draws(found, "placebo", row.stratum)
        assert len(rhos) == 19
        assert row.p_placebo == (1 + (rhos >= row.rho - 1e-12).sum()) / 20
        assert (row.placebo_mean, row.placebo_q95) == pytest.approx((rhos.mean(), np.quantile(rhos, 0.95)))
        assert row.placebo_n == row.n == 22
        assert row.family_q95 == pytest.approx(np.quantile(draws(found, "family", row.stratum), 0.95))
        low, high = np.quantile(draws(found, "property", row.stratum), [0.05, 0.95])
        assert (row.property_q05, row.property_q95) == pytest.approx((low, high))
        assert row.sd_attributes == pytest.approx(draws(found, "attributes", row.stratum).std(ddof=1))
        low, high = np.percentile(draws(found, "bootstrap", row.stratum), [2.5, 97.5])
        assert (row.ci_low, row.ci_high) == pytest.approx((low, high))
        assert row.ci_low <= row.rho <= row.ci_high


def test_an_undefined_draw_counts_against_the_analysis():
    assert uncertainty.reached(np.array([np.nan, np.nan, 0.1]), 0.5) == 3 / 4
    assert uncertainty.reached(np.array([0.5 - 1e-13, 0.4]), 0.5) == 2 / 3
    assert np.isnan(uncertainty.reached(np.array([0.1]), np.nan))


@pytest.mark.parametrize("exp", reference.EXPERIMENTS)
def test_the_null_of_held_out_attributes_is_about_zero(exp, single):
    found = result(single, exp, attributes="held_out", placebo=400)
    for row in found.analyses.itertuples():
        rhos = draws(found, "placebo", row.stratum)
        assert abs(rhos.mean()) < 4 * rhos.std() / np.sqrt(len(rhos))
    assert result(single, exp, placebo=400).analyses["placebo_mean"].mean() > 0.1


def test_validity_is_whether_the_score_finds_what_is_known(folder):
    found = result(folder, "words_to_scenes", targets="all")
    assert found.analyses["validity"][0] == pytest.approx(
        stats.spearmanr(found.targets["intrinsic"], found.targets["valence"]).statistic
    )
    found = result(folder, "faces_to_labels", strata="all")
    for row in found.analyses.itertuples():
        rows = found.targets[found.targets["stratum"] == row.stratum]
        own = rows["intrinsic"][rows["group"] == row.group]
        others = rows["intrinsic"][rows["group"] != row.group]
        assert row.validity == pytest.approx(
            stats.mannwhitneyu(own, others).statistic / len(own) / len(others)
        )
    assert result(folder, "faces_to_words").analyses["validity"].isna().all()


def test_other_readings_are_those_of_the_other_columns(folder):
    for exp, reading in (("words_to_scenes", {"targets": "all"}), ("faces_to_labels", {"strata": "all"})):
        paper, other = result(folder, exp).analyses, result(folder, exp, **reading).analyses
        assert other["rho"].tolist() == pytest.approx(paper["rho_all"].tolist(), abs=1e-12)
        assert other["n"].tolist() == paper["n_all"].tolist()


@pytest.mark.parametrize("exp", TEXTS)
def test_sentences_and_templates_as_units(exp, single):
    words, sentences, templates = (
        result(single, exp, unit=unit) for unit in ("item", "sentence", "template")
    )
    scores = sentences.targets.assign(word=sentences.targets["id"].str[:-1])
    means = scores.groupby(["stratum", "word"])[["intrinsic", "extrinsic"]].mean()
    expected = words.targets.set_index(["stratum", "id"])[["intrinsic", "extrinsic"]].sort_index()
    assert means.to_numpy() == pytest.approx(expected.to_numpy(), abs=1e-11)
    for row, one in zip(sentences.analyses.itertuples(), templates.analyses.itertuples(), strict=True):
        rows = scores[scores["stratum"] == row.stratum]
        assert row.rho == pytest.approx(stats.spearmanr(rows["intrinsic"], rows["extrinsic"]).statistic)
        rhos = [
            stats.spearmanr(part["intrinsic"], part["extrinsic"]).statistic
            for _, part in rows.groupby("template")
        ]
        assert one.rho == pytest.approx(np.mean(rhos))
        assert (row.n, one.n) == (len(rows), len(rows) // 2)
        assert np.isnan(one.p)
        assert one.ci_low <= one.rho <= one.ci_high


def test_switched_off_it_is_not_there(folder):
    nothing = {"placebo": 0, "bootstrap": 0, "attribute_draws": 0, "property_draws": 0}
    found, all_of_it = result(folder, "faces_to_words", **nothing), result(folder, "faces_to_words")
    assert found.analyses[[*uncertainty.COLUMNS]].isna().all(axis=None)
    assert found.draws.empty
    pd.testing.assert_frame_equal(found.targets, all_of_it.targets, check_exact=True)
    assert found.analyses["rho"].equals(all_of_it.analyses["rho"])


def test_a_sample_stands_for_many_units(single, monkeypatch):
    monkeypatch.setattr(null_scores, "SAMPLED", 8)
    found = result(single, "faces_to_words")
    assert found.analyses["placebo_n"].tolist() == [8, 8, 8]
    assert found.analyses["n"].tolist() == [22, 22, 22]
    again = result(single, "faces_to_words")
    pd.testing.assert_frame_equal(found.draws, again.draws, check_exact=True)
    assert not found.analyses["rho_placebo_units"].equals(found.analyses["rho"])


def test_contributions_sum_to_how_far_the_outcome_is(folder, monkeypatch):
    monkeypatch.setattr(retrieved_items, "SHOWN", 1000)
    for exp, reference_of in (("faces_to_words", None), ("words_to_faces", 1 / 3)):
        found = result(folder, exp)
        sums = found.retrieved.groupby("stratum")["contribution"].sum()
        means = found.targets.groupby("stratum")["extrinsic"].mean()
        against = means.mean() if reference_of is None else reference_of
        assert sums.to_numpy() == pytest.approx((means - against).to_numpy(), abs=1e-9)
        assert found.retrieved.groupby("stratum")["share"].sum().to_numpy() == pytest.approx(1)


# Exchange units.


def labels(declared=True, races=3, genders=2, words=4):
    race_words = {f"R{r}": [f"r{r}{i}" for i in range(words)] for r in range(races)}
    gender_words = {f"G{g}": [f"g{g}{i}" for i in range(words)] for g in range(genders)}
    frame = phrases(configs.LabelsConfig(race_words, gender_words))
    frame = in_templates(frame, ["a {}", "the {}"])
    return checked("labels", frame if declared else frame.drop(columns=["race_word", "gender_word"]), "t")


@pytest.mark.parametrize("declared", [True, False])
def test_labels_exchange_race_words_and_gender_words(declared):
    corpus = labels(declared)
    exchange = exchange_of(corpus, 0)
    assert len(exchange.factors) == 2
    for places in exchange.permutations(5):
        assert sorted(places) == list(range(96))
        before = [name.split() for name in exchange.names]
        after = [name.split() for name in exchange.names[places]]
        # One permutation of each: what becomes of a race word does not depend on the gender word.
        for part in (0, 1):
            put = {(one[part], other[part]) for one, other in zip(before, after, strict=True)}
            assert len(put) == len({one for one, _ in put})


def test_phrases_are_exchanged_singly_where_no_word_meets_every_other():
    frame = labels().frame
    part = frame[frame["word"] != "r00 g00"]
    exchange = exchange_of(checked("labels", part, "t"), 0)
    assert len(exchange.factors) == 1


def test_permutations_are_those_of_seed_and_corpus_alone():
    first, more = (exchange_of(labels(), 3).permutations(count) for count in (2, 5))
    assert (first == more[:2]).all()
    assert (exchange_of(labels(), 4).permutations(2) != first).any()
    assert (exchange_of(labels(words=5), 3).permutations(2)[:, :10] != first[:, :10]).any()


@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=12), seed=st.integers(0, 99))
def test_families_stay_together(sizes, seed):
    stems = [f"s{number}" for number, size in enumerate(sizes) for _ in range(size)]
    units = np.arange(len(stems))
    exchange = Exchange(
        units[:, None], units[:, None], (Factor((units[:, None],), len(units)),), units.astype(str), (seed,)
    )
    (places,) = exchange.families(stems).permutations(1)
    assert sorted(places) == list(units)
    put = {(stems[unit], stems[place]) for unit, place in enumerate(places)}
    assert len(put) == len(sizes)


def test_held_out_halves_share_no_word():
    corpus = labels()
    protocol = Job.of(
        *configs.compose(["protocol=held_out", "protocol.k=10", "model=precomputed", "model.path=x"]), ""
    ).cfg.protocol
    found = corpus_of(corpus, protocol, 0)
    (pool,) = found.pools
    names = corpus.frame["word"].str.split()
    used = {position for sets in (*pool.a, *pool.b) for position in sets}
    assert not used & set(pool.retrievable)
    for part in (0, 1):
        first, second = ({names[row][part] for row in rows} for rows in (used, pool.retrievable))
        assert not first & second
    assert pool.k == 5
    for places in found.exchange.permutations(3):
        moved = found.exchange.moved(np.array(sorted(used)), places[None])[0]
        assert not set(moved) & set(pool.retrievable)


# The property placebo.


def test_the_share_that_is_told_is_that_of_a_cross_validated_ridge_regression():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 12))
    y = x[:, 0] + 0.5 * rng.normal(size=200)
    fold = np.random.default_rng([7, 0, 3]).permutation(200) % encoded_property.FOLDS
    residuals = []
    for penalty in encoded_property.PENALTIES:
        residual = 0.0
        for number in range(encoded_property.FOLDS):
            train, test = fold != number, fold == number
            scatter = np.cov(x[train].T, ddof=0) * train.sum()
            model = Ridge(alpha=penalty * np.trace(scatter) / 12).fit(x[train], y[train])
            residual += ((y[test] - model.predict(x[test])) ** 2).sum()
        residuals.append(residual)
    expected = 1 - min(residuals) / ((y - y.mean()) ** 2).sum()
    assert encoded_property.explained(x, y, (7,)) == pytest.approx(expected, abs=1e-9)
    assert encoded_property.explained(x, rng.normal(size=200), (7,)) < 0.05


def test_another_property_has_the_ratings_own_values_and_is_encoded_as_well():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 8))
    y = np.round(x[:, 0] + 0.3 * rng.normal(size=400), 1)
    found = encoded_property.encoded(x, y, 30, (0,))
    assert (np.sort(found, axis=0) == np.sort(y)[:, None]).all()
    told = [encoded_property.explained(x, column, (0,)) for column in found.T]
    assert np.mean(told) == pytest.approx(encoded_property.explained(x, y, (0,)), abs=0.05)
