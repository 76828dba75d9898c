"""Check experiments on unusual inputs, and the uncertainty of rho against naive loops and known answers."""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file
from scipy import stats
from sklearn.linear_model import Ridge

from src import configs
from src.embeddings import embeddings
from src.jobs.identity import Job
from src.stimuli import build_table, load
from src.stimuli.loaders import fill_templates, phrases
from src.studies.propagation import experiment, null_models, null_scores, retrieved_items
from src.studies.propagation.attributes import corpus_of
from src.studies.shared.exchange_units import Exchange, Factor, exchange_of
from tests import reference

PROTOCOL = {"k": 11, "extremes": 6, "set_size": 15, "ddof": 1}
FEW_DRAWS = {**PROTOCOL, "placebo": 19, "bootstrap": 200, "attribute_draws": 5, "property_draws": 10}
TEXTS = ["words_to_scenes", "labels_to_faces", "labels_to_scenes", "words_to_faces"]


def load_folder(folder):
    tables, vectors = {}, {}
    for role in ("faces", "scenes", "words", "labels"):
        frame = pd.read_parquet(folder / f"{role}.parquet")
        order = np.argsort(frame["id"].to_numpy(dtype=str), kind="stable")
        tables[role] = reference.rows_of(frame)
        vectors[role] = load_file(folder / f"{role}.safetensors")["embedding"][order].astype(float).tolist()
    return tables, vectors


def overrides(folder, exp, **protocol):
    fields = [f"protocol.{name}={value}" for name, value in protocol.items()]
    return ["model=precomputed", f"model.path={folder}", f"exp={exp}", *fields]


def scores_of(targets):
    return {(row.stratum, row.id): (row.intrinsic, row.extrinsic) for row in targets.itertuples()}


def inputs(folder, exp, **protocol):
    cfg = Job.of(*configs.compose(overrides(folder, exp, **{**FEW_DRAWS, **protocol})), "").cfg
    tables = [load(cfg, role) for role in (cfg.exp.targets, cfg.exp.corpus)]
    vectors = [embeddings(cfg, table.role, lambda role: load(cfg, role)).vectors for table in tables]
    return *tables, *vectors, cfg.protocol, 5


def result(folder, exp, **protocol):
    return experiment.run(*inputs(folder, exp, **protocol))


def draws(outputs, kind, stratum):
    rows = outputs.draws[(outputs.draws["kind"] == kind) & (outputs.draws["stratum"] == stratum)]
    return rows.sort_values("draw")["rho"].to_numpy()


@pytest.mark.parametrize("exp", ["faces_to_words", "words_to_scenes"])
def test_extremes_are_not_retrieved_if_removed(exp, folder):
    outputs = result(folder, exp, attributes="held_out")
    rows, _ = reference.propagate(exp, *load_folder(folder), **PROTOCOL, seed=5, held_out=True)
    assert outputs.analyses["rho"].tolist() == pytest.approx([row["rho"] for row in rows], abs=1e-12)


@pytest.mark.parametrize("exp", reference.EXPERIMENTS)
@pytest.mark.parametrize("attributes", ["corpus", "held_out"])
def test_identity_permutations_give_measured_rho(exp, attributes, folder, monkeypatch):
    def identity(self, count, *arguments):
        return np.tile(np.arange(len(self.grid), dtype=np.int32), (count, 1))

    monkeypatch.setattr(Exchange, "permutations", identity)
    monkeypatch.setattr(
        "src.studies.propagation.attributes.Corpus.redraw", lambda self, _: [(p.a, p.b) for p in self.pools]
    )
    outputs = result(folder, exp, attributes=attributes)
    for row in outputs.analyses.itertuples():
        assert row.rho_placebo_units == pytest.approx(row.rho, abs=1e-12)
        for kind in ("placebo", "attributes"):
            assert draws(outputs, kind, row.stratum) == pytest.approx(row.rho, abs=1e-9)
        assert row.p_placebo == 1
        assert row.sd_attributes == pytest.approx(0, abs=1e-9)


def test_columns_summarise_the_draws(folder):
    outputs = result(folder, "faces_to_words")
    for row in outputs.analyses.itertuples():
        rhos = draws(outputs, "placebo", row.stratum)
        assert len(rhos) == 19
        assert row.p_placebo == (1 + (rhos >= row.rho - 1e-12).sum()) / 20
        assert (row.placebo_mean, row.placebo_q95) == pytest.approx((rhos.mean(), np.quantile(rhos, 0.95)))
        assert row.placebo_n == row.n == 22
        assert row.family_q95 == pytest.approx(np.quantile(draws(outputs, "family", row.stratum), 0.95))
        low, high = np.quantile(draws(outputs, "property", row.stratum), [0.05, 0.95])
        assert (row.property_q05, row.property_q95) == pytest.approx((low, high))
        assert row.sd_attributes == pytest.approx(draws(outputs, "attributes", row.stratum).std(ddof=1))
        low, high = np.percentile(draws(outputs, "bootstrap", row.stratum), [2.5, 97.5])
        assert (row.ci_low, row.ci_high) == pytest.approx((low, high))
        assert row.ci_low <= row.rho <= row.ci_high


def test_validity_is_agreement_with_the_known_property(folder):
    outputs = result(folder, "words_to_scenes", targets="all")
    rho = stats.spearmanr(outputs.targets["intrinsic"], outputs.targets["valence"]).statistic
    assert outputs.analyses["validity"][0] == pytest.approx(rho)
    outputs = result(folder, "faces_to_labels", strata="all")
    for row in outputs.analyses.itertuples():
        rows = outputs.targets[outputs.targets["stratum"] == row.stratum]
        is_member = rows["group"] == row.group
        members, non_members = rows["intrinsic"][is_member], rows["intrinsic"][~is_member]
        auc = stats.mannwhitneyu(members, non_members).statistic / len(members) / len(non_members)
        assert row.validity == pytest.approx(auc)
    assert result(folder, "faces_to_words").analyses["validity"].isna().all()


@pytest.mark.parametrize("exp", TEXTS)
def test_sentences_and_templates_as_units(exp, single):
    words, sentences, templates = (result(single, exp, unit=u) for u in ("item", "sentence", "template"))
    scores = sentences.targets.assign(word=sentences.targets["id"].str[:-1])
    means = scores.groupby(["stratum", "word"])[["intrinsic", "extrinsic"]].mean()
    expected = words.targets.set_index(["stratum", "id"])[["intrinsic", "extrinsic"]].sort_index()
    assert means.to_numpy() == pytest.approx(expected.to_numpy(), abs=1e-11)

    def rho_of(rows):
        return stats.spearmanr(rows["intrinsic"], rows["extrinsic"]).statistic

    analyses = (units.analyses.itertuples() for units in (sentences, templates))
    for row, by_template in zip(*analyses, strict=True):
        rows = scores[scores["stratum"] == row.stratum]
        assert row.rho == pytest.approx(rho_of(rows))
        rhos = [rho_of(template_rows) for _, template_rows in rows.groupby("template")]
        assert by_template.rho == pytest.approx(np.mean(rhos))
        assert (row.n, by_template.n) == (len(rows), len(rows) // 2)
        assert np.isnan(by_template.p)
        assert by_template.ci_low <= by_template.rho <= by_template.ci_high


def test_null_models_use_a_sample_of_many_units(single, monkeypatch):
    monkeypatch.setattr(null_scores, "MAX_SAMPLED", 8)
    outputs = result(single, "faces_to_words")
    assert outputs.analyses["placebo_n"].tolist() == [8, 8, 8]
    assert outputs.analyses["n"].tolist() == [22, 22, 22]
    pd.testing.assert_frame_equal(outputs.draws, result(single, "faces_to_words").draws, check_exact=True)
    assert not outputs.analyses["rho_placebo_units"].equals(outputs.analyses["rho"])


def test_contributions_sum_to_the_difference_of_outcomes(folder, monkeypatch):
    monkeypatch.setattr(retrieved_items, "MAX_ITEMS", 1000)
    for exp, baseline in (("faces_to_words", None), ("words_to_faces", 1 / 3)):
        outputs = result(folder, exp)
        sums = outputs.retrieved.groupby("stratum")[["contribution", "share"]].sum()
        means = outputs.targets.groupby("stratum")["extrinsic"].mean()
        expected = means - (baseline or means.mean())
        assert sums["contribution"].to_numpy() == pytest.approx(expected.to_numpy(), abs=1e-9)
        assert sums["share"].to_numpy() == pytest.approx(1)


def test_equal_vectors_are_equally_similar(job, tmp_path):
    """Break ties by position, and leave effect sizes of zero deviations undefined, despite rounding."""
    rng = np.random.default_rng(0)
    scenes = pd.DataFrame({"id": [f"s{i:04d}" for i in range(1001)], "valence": rng.uniform(size=1001)})
    words = pd.DataFrame({"word": [f"w{i:02d}" for i in range(40)], "valence": rng.uniform(size=40)})
    words = words.assign(id=words["word"], template="{}", sentence=words["word"])
    vector = rng.normal(size=(1, 64))
    outputs = experiment.run(
        build_table("words", words, "t"),
        build_table("scenes", scenes, "t"),
        torch.from_numpy(rng.normal(size=(40, 64))),
        torch.from_numpy(np.repeat(vector, 1001, axis=0)),
        job("protocol.k=31", "protocol.extremes=5").cfg.protocol,
        0,
    )
    assert outputs.targets["intrinsic"].isna().all()
    assert outputs.targets["extrinsic"].to_numpy() == pytest.approx(scenes["valence"][:31].mean(), abs=1e-12)
    assert outputs.analyses["reason"].tolist() == ["0 units: at least 3 are needed"]
    assert outputs.analyses["n_excluded"].tolist() == [10]


def test_a_group_without_targets_has_no_rho_and_a_reason(single):
    targets, corpus, vectors, *options = inputs(single, "faces_to_labels", placebo=0, bootstrap=0)
    is_other = targets.frame["group"] != "Beta Men"
    faces = build_table("faces", targets.frame[is_other], "t")
    rows = experiment.run(faces, corpus, vectors[is_other.to_numpy(copy=True)], *options).analyses
    assert rows["n"].tolist() == [22, 22, 0]
    assert rows["reason"].tolist() == ["", "", "0 units: at least 3 are needed"]


# Exchange units.


def labels(has_columns=True, words=4):
    race, gender = (
        {f"{kind}{group}": [f"{kind.lower()}{group}{i}" for i in range(words)] for group in range(count)}
        for kind, count in (("R", 3), ("G", 2))
    )
    frame = phrases(configs.LabelsConfig(race, gender))
    frame = fill_templates(frame, ["a {}", "the {}"])
    if not has_columns:
        frame = frame.drop(columns=["race_word", "gender_word"])
    return build_table("labels", frame, "t")


@pytest.mark.parametrize("has_columns", [True, False])
def test_labels_exchange_race_words_and_gender_words(has_columns):
    corpus = labels(has_columns)
    exchange = exchange_of(corpus, 3)
    assert len(exchange.factors) == 2
    permutations = exchange.permutations(5)
    assert (exchange.permutations(2) == permutations[:2]).all()
    for other in (exchange_of(corpus, 4), exchange_of(labels(has_columns, words=5), 3)):
        assert (other.permutations(2)[:, :10] != permutations[:2, :10]).any()
    # Phrases of an incomplete design are exchanged singly.
    incomplete = corpus.frame[corpus.frame["word"] != "r00 g00"]
    assert len(exchange_of(build_table("labels", incomplete, "t"), 0).factors) == 1
    for permutation in permutations:
        assert sorted(permutation) == list(range(96))
        before = [name.split() for name in exchange.names]
        after = [name.split() for name in exchange.names[permutation]]
        # Race words and gender words are permuted separately: neither move depends on the other word.
        for position in (0, 1):
            moves = {(old[position], new[position]) for old, new in zip(before, after, strict=True)}
            assert len(moves) == len({old for old, _ in moves})


@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=12), seed=st.integers(0, 99))
def test_families_stay_together(sizes, seed):
    stems = [f"s{number}" for number, size in enumerate(sizes) for _ in range(size)]
    units = np.arange(len(stems))
    column = units[:, None]
    factors = (Factor((column,), len(units)),)
    exchange = Exchange(column, column, factors, units.astype(str), (seed,))
    (permutation,) = exchange.families(stems).permutations(1)
    assert sorted(permutation) == list(units)
    moves = {(stems[unit], stems[target]) for unit, target in enumerate(permutation)}
    assert len(moves) == len(sizes)


def test_halves_share_no_word():
    protocol = configs.ProtocolConfig(attributes="held_out", k=10, set_size=840, extremes=1, ddof=1)
    corpus = corpus_of(labels(), protocol, 0)
    exchange, (pool,) = corpus.exchange, corpus.pools
    names = corpus.table.frame["word"].str.split()
    attribute_rows = {position for sets in (*pool.a, *pool.b) for position in sets}
    assert not attribute_rows & set(pool.retrievable)
    for word in (0, 1):
        first, second = ({names[row][word] for row in rows} for rows in (attribute_rows, pool.retrievable))
        assert not first & second
    assert pool.k == 5
    for permutation in exchange.permutations(3):
        moved = exchange.permuted_rows(np.array(sorted(attribute_rows)), permutation[None])[0]
        assert not set(moved) & set(pool.retrievable)


# The property placebo.


def test_explained_share_is_of_a_cross_validated_ridge_regression():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 12))
    y = x[:, 0] + 0.5 * rng.normal(size=200)
    fold = np.random.default_rng([7, 0, 3]).permutation(200) % null_models.FOLDS
    residuals = []
    for penalty in null_models.PENALTIES:
        residual = 0.0
        for number in range(null_models.FOLDS):
            train, test = fold != number, fold == number
            scatter = np.cov(x[train].T, ddof=0) * train.sum()
            model = Ridge(alpha=penalty * np.trace(scatter) / 12).fit(x[train], y[train])
            residual += ((y[test] - model.predict(x[test])) ** 2).sum()
        residuals.append(residual)
    expected = 1 - min(residuals) / ((y - y.mean()) ** 2).sum()
    assert null_models.cross_validated_r2(x, y, (7,)) == pytest.approx(expected, abs=1e-9)
    assert null_models.cross_validated_r2(x, rng.normal(size=200), (7,)) < 0.05


def test_random_properties_have_the_values_and_the_encoding_of_the_ratings():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 8))
    y = np.round(x[:, 0] + 0.3 * rng.normal(size=400), 1)
    properties = null_models.draw_encoded(x, y, 30, (0,))
    assert (np.sort(properties, axis=0) == np.sort(y)[:, None]).all()
    shares = [null_models.cross_validated_r2(x, column, (0,)) for column in properties.T]
    assert np.mean(shares) == pytest.approx(null_models.cross_validated_r2(x, y, (0,)), abs=0.05)
