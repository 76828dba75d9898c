"""Check experiments on unusual inputs, and the uncertainty of rho against naive loops and known answers."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load_file
from scipy import stats
from sklearn.linear_model import Ridge

from src import configs
from src.embeddings import load_embeddings
from src.jobs.identity import Job
from src.stimuli import build_table, load
from src.studies.propagation import encoded_properties, experiment, null_scores, retrieved_items
from src.studies.propagation.attributes import corpus_of
from src.studies.propagation.null_models import draw_null_models
from src.studies.shared.exchange_units import Exchange
from tests import reference
from tests.studies.propagation.world import PROTOCOL as WORLD_PROTOCOL
from tests.studies.propagation.world import SEED, World

PROTOCOL = {"k": 11, "extremes": 6, "set_size": 15, "ddof": 1}
FEW_DRAWS = {**PROTOCOL, "placebo": 19, "attribute_draws": 5, "property_draws": 10}
TEXT_TARGETS = ["words_to_scenes", "labels_to_faces", "labels_to_scenes", "words_to_faces"]


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
    vectors = [load_embeddings(cfg, table.role, lambda role: load(cfg, role)).vectors for table in tables]
    return *tables, *vectors, cfg.protocol, 5


def result(folder, exp, **protocol):
    return experiment.run(*inputs(folder, exp, **protocol))


def select_rhos(outputs, kind, stratum):
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

    monkeypatch.setattr(Exchange, "draw_permutations", identity)
    monkeypatch.setattr(
        "src.studies.propagation.attributes.Corpus.redraw",
        lambda self, _: [[(p.a, p.b) for p in self.pools]] * 2,
    )
    outputs = result(folder, exp, attributes=attributes)
    for row in outputs.analyses.itertuples():
        assert row.rho_placebo_units == pytest.approx(row.rho, abs=1e-12)
        for kind in ("placebo", "attributes"):
            assert select_rhos(outputs, kind, row.stratum) == pytest.approx(row.rho, abs=1e-9)
        assert row.p_placebo == 1
        assert row.sd_attributes == pytest.approx(0, abs=1e-9)


def test_columns_summarise_the_draws(folder):
    outputs = result(folder, "faces_to_words")
    for row in outputs.analyses.itertuples():
        rhos = select_rhos(outputs, "placebo", row.stratum)
        assert len(rhos) == 19
        assert row.p_placebo == (1 + (rhos >= row.rho - 1e-12).sum()) / 20
        assert (row.placebo_mean, row.placebo_q95) == pytest.approx((rhos.mean(), np.quantile(rhos, 0.95)))
        assert row.placebo_n == row.n == 22
        first, second = select_rhos(outputs, "attributes", row.stratum).reshape(-1, 2).T
        assert len(first) == 5
        assert row.sd_attributes == pytest.approx(np.sqrt(np.mean((first - second) ** 2) / 2))


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


@pytest.mark.parametrize("exp", TEXT_TARGETS)
def test_sentences_and_templates_as_units(exp, single):
    words, sentences, templates = (result(single, exp, unit=u) for u in ("item", "sentence", "template"))
    # The id of a sentence is its word, followed by the first letter of its template.
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


def test_null_models_use_a_sample_of_units_if_there_are_many(single, monkeypatch):
    monkeypatch.setattr(null_scores, "MAX_SAMPLED", 8)
    outputs = result(single, "faces_to_words")
    assert outputs.analyses["placebo_n"].tolist() == [8, 8, 8]
    assert outputs.analyses["n"].tolist() == [22, 22, 22]
    again = result(single, "faces_to_words")  # also of a sample: the same one in every run
    pd.testing.assert_frame_equal(outputs.draws, again.draws, check_exact=True)
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
    """Ties are broken by position, and effect sizes with an SD of 0 are undefined, despite rounding."""
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
    targets, corpus, target_vectors, *others = inputs(single, "faces_to_labels", placebo=0)
    is_other = targets.frame["group"] != "Beta Men"
    faces = build_table("faces", targets.frame[is_other], "t")
    rows = experiment.run(faces, corpus, target_vectors[is_other.to_numpy(copy=True)], *others).analyses
    assert rows["n"].tolist() == [22, 22, 0]
    assert rows["reason"].tolist() == ["", "", "0 units: at least 3 are needed"]


# The property placebo.


def r2_of(vectors, ratings, clusters, seed):
    """Cross-validate ridge regressions on the leading axes, in folds of whole clusters, with scikit-learn."""
    names = sorted({*clusters})
    fold_of = np.random.default_rng([*seed, 0, 3]).permutation(len(names)) % 5
    fold = np.array([fold_of[names.index(name)] for name in clusters])
    u, s, _ = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)
    axes = (s > 1e-5 * s[0]) & (np.arange(len(s)) < len(names) // 3)
    x, errors = (u * s)[:, axes], []
    for penalty in np.logspace(-4, 3, 8):
        error = 0.0
        for number in range(5):
            train = fold != number
            scatter = np.trace(np.cov(x[train].T, ddof=0)) * train.sum() / x.shape[1]
            model = Ridge(alpha=penalty * scatter).fit(x[train], ratings[train])
            error += ((ratings[~train] - model.predict(x[~train])) ** 2).sum()
        errors.append(error)
    return 1 - min(errors) / ((ratings - ratings.mean()) ** 2).sum()


def encoded_world(noise=0.5, draws=60):
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(300, 12)) * np.linspace(2, 0.2, 12)
    ratings = np.round(vectors[:, 0] + vectors[:, 5] + noise * rng.normal(size=300), 1)
    clusters = np.arange(300) // 2
    permutations = np.argsort(rng.uniform(size=(draws, 300)), axis=1)
    return vectors, ratings, clusters, permutations, (7,)


def test_properties_have_the_values_and_the_r2_of_the_ratings():
    vectors, ratings, clusters, permutations, seed = encoded_world()
    properties = encoded_properties.draw_encoded_properties(vectors, ratings, clusters, permutations, seed)
    assert properties.reason == ""
    assert properties.values.shape == (300, 60)
    assert (np.sort(properties.values, axis=0) == np.sort(ratings)[:, None]).all()
    assert properties.r2 == pytest.approx(r2_of(vectors, ratings, clusters, seed), abs=1e-9)
    r2 = [r2_of(vectors, column, clusters, seed) for column in properties.values.T]
    assert properties.r2_draws == pytest.approx(np.mean(r2[: encoded_properties.FITTED_DRAWS]), abs=1e-9)
    assert abs(properties.r2_draws - properties.r2) <= 0.02
    assert np.mean(r2) == pytest.approx(properties.r2, abs=0.03)
    # Draws are other properties than the ratings, and than one another.
    correlations = np.abs(np.corrcoef(np.column_stack([ratings, properties.values]).T))
    assert np.mean(correlations[0, 1:]) < 0.6
    assert (correlations[np.triu_indices(61, 1)] < 0.999).all()


def test_loadings_are_rotated_in_units_of_the_singular_values():
    """Check draws with a single block of 8 axes.

    Each axis has a share of the variance of a drawn property. Its mean over draws equals that of a projection
    of the vectors on a random direction, which is drawn naively (`random`).
    """
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(2000, 8)) * np.linspace(2, 0.2, 8)
    vectors -= vectors.mean(axis=0)
    permutations = np.argsort(rng.uniform(size=(400, 2000)), axis=1)
    properties = encoded_properties.draw_encoded_properties(
        vectors, vectors.sum(axis=1), np.arange(2000), permutations, (7,)
    )
    u, singular, _ = np.linalg.svd(vectors, full_matrices=False)
    centred = properties.values - properties.values.mean(axis=0)
    shares = ((u.T @ centred) ** 2 / (centred**2).sum(axis=0)).mean(axis=1)
    random = (singular * rng.normal(size=(20_000, 8))) ** 2
    assert shares == pytest.approx((random / random.sum(axis=1, keepdims=True)).mean(axis=0), abs=0.03)


def test_properties_that_cannot_be_drawn_are_refused_with_a_reason(monkeypatch):
    monkeypatch.setattr(encoded_properties, "MAX_R2_ERROR", 0)
    properties = encoded_properties.draw_encoded_properties(*encoded_world(draws=20))
    assert properties.values.shape == (300, 0)
    assert properties.reason.startswith("no property with the ratings' R² (0.9")
    vectors, _, clusters, permutations, seed = encoded_world(draws=20)
    noise = np.random.default_rng(3).normal(size=300)
    properties = encoded_properties.draw_encoded_properties(vectors, noise, clusters, permutations, seed)
    assert properties.values.shape == (300, 0)
    assert properties.reason == "the vectors predict the ratings with R² below 0.05"


def test_few_clusters_leave_few_axes():
    vectors, ratings, _, permutations, seed = encoded_world(draws=20)
    clusters = np.arange(300) % 20
    axes = encoded_properties.Ridge(vectors, clusters, seed).singular_values
    assert len(axes) == 20 // encoded_properties.CLUSTERS_PER_AXIS < vectors.shape[1]
    properties = encoded_properties.draw_encoded_properties(vectors, ratings, clusters, permutations, seed)
    assert properties.r2 == pytest.approx(r2_of(vectors, ratings, clusters, seed), abs=1e-9)


@pytest.mark.parametrize("exp", ["scenes_to_words", "words_to_scenes", "faces_to_words", "labels_to_scenes"])
def test_sets_and_outcomes_are_of_the_property(exp):
    world = World()
    outputs = world.run(exp, replace(WORLD_PROTOCOL, property_draws=20))
    role = exp.split("_to_")[1]
    corpus = corpus_of(world.tables[role], replace(WORLD_PROTOCOL, property_draws=20), SEED)
    null_models = draw_null_models(corpus, world.vectors[role]).null_models
    (properties,) = [models.outcomes(0).numpy() for models in null_models if models.kind == "property"]
    frame = world.tables[role].frame
    for number in (0, 7):
        values = dict(zip(corpus.exchange.names, properties[:, number], strict=True))
        frame["valence"] = frame["word" if "word" in frame else "id"].map(values)
        units = world.naive(exp)[None]
        for row in outputs.analyses.itertuples():
            members = [unit for unit in units.values() if row.group in (None, unit[2].get("group"))]
            rho = stats.spearmanr(*zip(*(unit[:2] for unit in members), strict=True)).statistic
            rhos = select_rhos(outputs, "property", row.stratum)
            assert rhos[number] == pytest.approx(rho, abs=1e-9)
            # The targets with extreme valence are not those with extreme values of a draw: all are compared.
            assert row.rho_property_units == pytest.approx(row.rho if row.group else row.rho_all, abs=1e-12)
            assert (row.property_q05, row.property_q95) == pytest.approx([*np.quantile(rhos, [0.05, 0.95])])
            assert abs(row.property_r2 - row.property_r2_draws) <= 0.02
