"""Check association tests against naive loops, published effect sizes and their symmetries."""

import itertools
import json
import math

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file
from scipy.stats import permutation_test, pointbiserialr, t

from src.errors import InputError, NotApplicable
from src.jobs import encoder_job
from src.metrics import compare_associations, point_biserial
from src.stimuli import PROMPTS, Table
from src.studies.eat import experiment, sets
from src.studies.eat.association_tests import AssociationTest, list_roles, list_tests
from src.studies.eat.config import ORDERS, EatConfig, SetConfig
from tests.conftest import GROUPS
from tests.paths import SHARED
from tests.studies.propagation.test_uncertainty import load_folder, overrides
from tests.studies.test_precomputed import perform

MODALITY_ROLES = {"image": ("faces", "scenes"), "text": ("labels", "words")}
EXTREMES = 5


def naive_sets(rows, group_role, valence_role, pair):
    """Return positions of the rows of X and Y by item, and of the highest and lowest valence by item."""
    name = "word" if "word" in rows[valence_role][0] else "id"
    valences = {row[name]: row["valence"] for row in rows[valence_role]}
    ordered = sorted(valences, key=lambda item: (valences[item], item))
    chosen = [ordered[-EXTREMES:], ordered[:EXTREMES]]
    attributes = [
        [[i for i, row in enumerate(rows[valence_role]) if row[name] == item] for item in items]
        for items in chosen
    ]
    name = "word" if "word" in rows[group_role][0] else "id"
    targets = []
    for group in pair:
        items = sorted({row[name] for row in rows[group_role] if row["group"] == group})
        targets.append([[i for i, row in enumerate(rows[group_role]) if row[name] == item] for item in items])
    return targets, attributes


def naive_cosine(first, second):
    """Return the largest cosine over the vectors of two items, at most one of which has several."""
    a, b = (np.atleast_2d(item) for item in (first, second))
    a, b = (item / np.linalg.norm(item, axis=1, keepdims=True) for item in (a, b))
    return (a @ b.T).max()


def mean_vector(item):
    vectors = np.atleast_2d(item)
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).mean(axis=0)


def naive_d(vectors, rows, order, pair):
    first, second = order.split("_")
    group_role, valence_role = MODALITY_ROLES[first][0], MODALITY_ROLES[second][1]
    targets, attributes = naive_sets(rows, group_role, valence_role, pair)
    left, right = vectors[group_role], vectors[valence_role]
    if order == "image_image":
        left, right = ([mean_vector(item) for item in side] for side in (left, right))

    def association(item):
        means = [
            np.mean([naive_cosine(left[i], right[j]) for i in item for word in words for j in word])
            for words in attributes
        ]
        return means[0] - means[1]

    x, y = ([association(item) for item in items] for items in targets)
    return (np.mean(x) - np.mean(y)) / np.std([*x, *y], ddof=1), len(x), len(y)


MODALITY_ROLES = {"image": ("faces", "scenes"), "text": ("labels", "words")}


def test_d_equals_the_naive_loop_in_all_orders(folder, job, tracker):
    eat_job = job(*overrides(folder, "eat", extremes=EXTREMES))
    analyses = perform(eat_job, tracker).set_index(["test", "order"])
    rows, vectors = load_folder(folder)
    pairs = [*itertools.combinations(sorted(GROUPS), 2)]
    assert {*analyses.index} == {(", ".join(pair), order) for pair in pairs for order in ORDERS}
    for pair, order in itertools.product(pairs[:2], ORDERS):
        row = analyses.loc[(", ".join(pair), order)]
        d, n_x, n_y = naive_d(vectors, rows, order, pair)
        assert row["d"] == pytest.approx(d, abs=1e-9), (pair, order)
        assert (row["n_x"], row["n_y"], row["n_a"], row["n_b"]) == (n_x, n_y, EXTREMES, EXTREMES)
        assert row["d_low"] < row["d"] < row["d_high"]
        assert (row["set_x"], row["set_y"], row["set_a"], row["set_b"]) == (*pair, "pleasant", "unpleasant")


def test_targets_with_common_clusters_have_an_interval_and_no_p(folder, job, tracker):
    analyses = perform(job(*overrides(folder, "eat", extremes=EXTREMES)), tracker)
    is_text = analyses["order"].str.startswith("text")
    texts = analyses[is_text & analyses["reason"].str.startswith("no p")]
    assert texts[["p", "null_low"]].isna().all(axis=None)
    assert analyses[~is_text]["p"].between(0, 1, inclusive="right").all()
    assert set(analyses[~is_text]["p_method"]) == {"monte_carlo"}
    assert set(analyses[~is_text]["partitions"]) == {10_000}


def test_morphs_with_a_common_parent_have_no_p():
    ids, chain = (np.array([f"{letter}{number:02d}" for number in range(13)]) for letter in "mp")
    targets = [sets.SetItems("faces", rows, ids[rows]) for rows in (np.arange(6), np.arange(6, 12))]
    test = AssociationTest("t", tuple("XYAB"), ())
    each = experiment.SelectedTest(test, "image_image", (*targets, *targets))
    x, y = np.random.default_rng(0).normal(size=(2, 6))
    # In the chain, the second parent of a morph is the first of the next.
    for second, is_linked in ((chain[1:], True), (ids[1:], False)):
        parents = pd.DataFrame({"parent_a": chain[:-1], "parent_b": second})
        row = experiment._build_row(each, x, y, {"faces": parents}, 0)
        assert row["reason"].startswith("no p") == ("p" not in row) == is_linked


def test_orders_and_groups_are_chosen(folder, job, tracker):
    pair = sorted(GROUPS)[:2]
    options = ["exp.orders=[image_text]", f"exp.groups=[{pair[1]},{pair[0]}]"]
    eat_job = job(*overrides(folder, "eat", extremes=EXTREMES), *options)
    (row,) = perform(eat_job, tracker).to_dict("records")
    assert (row["test"], row["order"]) == (", ".join(pair), "image_text")
    table = pd.read_parquet(eat_job.output / "results" / "associations.parquet")
    x, y = (table.loc[table["set"] == letter, "association"].to_numpy() for letter in "XY")
    assert compare_associations(x, y, 0).d == pytest.approx(row["d"], abs=1e-12)
    assert list_roles(eat_job.cfg.exp) == ("faces", "words")


def test_the_interval_is_the_jackknife_over_targets(folder, job, tracker):
    eat_job = job(*overrides(folder, "eat", extremes=EXTREMES), "exp.orders=[image_text]")
    row = perform(eat_job, tracker).iloc[0]
    table = pd.read_parquet(eat_job.output / "results" / "associations.parquet")
    table = table[table["test"] == row["test"]].sort_values("id")
    s, is_x = table["association"].to_numpy(), (table["set"] == "X").to_numpy()

    def naive(remaining):
        return math.atanh(pointbiserialr(is_x[remaining], s[remaining]).statistic)

    count = len(s)
    assert count <= 100
    without = np.array([naive(np.arange(count) != left_out) for left_out in range(count)])
    error = math.sqrt((count - 1) / count * ((without - without.mean()) ** 2).sum())
    half_width = t.ppf(0.975, min(is_x.sum(), (~is_x).sum()) - 1) * error
    center, scale = naive(np.full(count, True)), math.sqrt(count * (count - 1) / (is_x.sum() * (~is_x).sum()))
    expected = [scale * math.tanh(center + sign * half_width) for sign in (-1, 0, 1)]
    assert [row["d_low"], row["d"], row["d_high"]] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("n_x", "n_y", "shift"), [(6, 6, 0), (6, 6, 3), (25, 25, 1)])
def test_the_interval_covers_the_population(n_x, n_y, shift):
    rng, is_x, draws = np.random.default_rng(0), np.arange(n_x + n_y) < n_x, 400
    share = n_x / (n_x + n_y)
    population_d = shift / math.sqrt(1 + share * (1 - share) * shift**2)
    clusters = pd.DataFrame({"cluster": [f"{number:03d}" for number in range(n_x + n_y)]})
    covered = 0
    for _ in range(draws):
        s = rng.normal(size=n_x + n_y) + shift * is_x
        d = (s[is_x].mean() - s[~is_x].mean()) / s.std(ddof=1)
        low, high, _, _ = experiment._compute_interval(s, n_x, clusters, d)
        covered += low <= population_d <= high
    # Within three standard errors of .95, or conservative.
    assert covered / draws >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / draws)


SCORES = st.lists(st.floats(-1, 1).map(lambda value: round(value, 6)), min_size=2, max_size=6)


@settings(max_examples=60, deadline=None)
@given(x=SCORES, y=SCORES, scale=st.floats(0.01, 100), shift=st.floats(-5, 5))
def test_d_changes_sign_with_x_and_y_and_ignores_scale_and_shift(x, y, scale, shift):
    x, y = np.array(x), np.array(y)
    result, swapped = compare_associations(x, y), compare_associations(y, x)
    if np.ptp(np.concatenate([x, y])) == 0:
        assert math.isnan(result.d)
        assert result.p == 1
        return
    assert swapped.d == pytest.approx(-result.d, abs=1e-9)
    scaled = compare_associations(x * scale + shift, y * scale + shift)
    assert scaled.d == pytest.approx(result.d, abs=1e-6)
    # Both one-sided p count ties: together at least 1.
    assert result.p + swapped.p >= 1 - 1e-12
    remaining = np.ones((1, len(x) + len(y)), dtype=bool)
    is_x = np.arange(len(x) + len(y)) < len(x)
    (correlation,) = point_biserial(np.concatenate([x, y]), is_x, remaining)
    n_x, n_y, count = len(x), len(y), len(x) + len(y)
    assert correlation * math.sqrt(count * (count - 1) / (n_x * n_y)) == pytest.approx(result.d, abs=1e-6)


def test_the_correlation_of_each_subsample_equals_scipys():
    rng = np.random.default_rng(0)
    s, is_x = rng.normal(size=12), np.arange(12) < 5
    remaining = rng.random((20, 12)) < 0.8
    expected = [pointbiserialr(is_x[mask], s[mask]).statistic for mask in remaining]
    assert point_biserial(s, is_x, remaining) == pytest.approx(np.array(expected), abs=1e-12)
    assert np.isnan(point_biserial(s, is_x, is_x[None])).all()
    assert np.isnan(point_biserial(np.ones(12), is_x, remaining)).all()


@pytest.mark.parametrize(("n_x", "n_y"), [(4, 4), (3, 7), (6, 2)])
@pytest.mark.parametrize("seed", range(3))
def test_p_and_null_are_those_of_all_partitions(seed, n_x, n_y):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(0.4, 1, n_x), rng.normal(size=n_y)
    result = compare_associations(x, y)
    reference = permutation_test(
        (x, y), lambda a, b: a.mean() - b.mean(), n_resamples=np.inf, alternative="greater"
    )
    assert (result.is_exact, result.partitions) == (True, math.comb(n_x + n_y, n_x))
    assert result.p == pytest.approx(reference.pvalue, abs=1e-12)
    null = reference.null_distribution / np.concatenate([x, y]).std(ddof=1)
    assert (result.null_low, result.null_high) == pytest.approx(tuple(np.quantile(null, [0.025, 0.975])))


def test_blocks_of_permutations_change_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=30), rng.normal(size=41)
    result = compare_associations(x, y, seed=5)
    monkeypatch.setattr("src.metrics.association.MAX_PERMUTED_VALUES", 1000)
    assert compare_associations(x, y, seed=5) == result
    assert (result.is_exact, result.partitions) == (False, 10_000)


def write_ieat(path):
    """Write the recorded vectors of iEAT as precomputed vectors of faces, normalised."""
    frames, vectors = [], []
    for file in sorted((SHARED / "ieat").glob("*.csv.gz")):
        table = pd.read_csv(file, index_col=0)
        group = file.name.removesuffix(".csv.gz").replace("_", "/")
        frames.append(pd.DataFrame({"id": group + "/" + table["img"], "group": group}))
        vectors.append(table.drop(columns="img").to_numpy(dtype=float))
    path.mkdir()
    pd.concat(frames, ignore_index=True).to_parquet(path / "faces.parquet")
    rows = np.concatenate(vectors)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    # safetensors writes the bytes as they are: rows first.
    save_file({"embedding": np.ascontiguousarray(rows, dtype=np.float32)}, path / "faces.safetensors")
    return path


@pytest.mark.skipif(not (SHARED / "ieat").is_dir(), reason="needs the iEAT vectors in shared/data/ieat")
def test_recorded_ieat_vectors_give_the_published_effect_sizes(tmp_path, job, tracker):
    folder = write_ieat(tmp_path / "simclr")
    analyses = perform(job(*overrides(folder, "eat_ieat"), "exp.orders=[image_image]"), tracker)
    rows = analyses.set_index("test")
    # Steed & Caliskan 2021, simclr.
    published = {"insect_flower": 1.68869, "weapon": 1.37585, "race": -0.57121}
    assert rows["d"].to_dict() == pytest.approx(published, abs=1e-4)
    assert rows["n_x"].to_dict() == {"insect_flower": 35, "weapon": 6, "race": 6}
    assert rows["p_method"].to_dict() == {"insect_flower": "monte_carlo", "weapon": "exact", "race": "exact"}
    assert rows["p"]["insect_flower"] == pytest.approx(1 / 10_001)
    assert rows["p"]["race"] > 0.5
    assert rows["d"].between(rows["d_low"], rows["d_high"]).all()


def write_prompts(folder, sentences, width, seed=0):
    vectors = np.random.default_rng(seed).normal(size=(len(sentences), width))
    frame = pd.DataFrame({"id": [f"p{number}" for number in range(len(sentences))], "sentence": sentences})
    folder.mkdir()
    frame.to_parquet(folder / "prompts.parquet")
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    save_file({"embedding": vectors.astype(np.float32)}, folder / "prompts.safetensors")
    return dict(zip(sentences, vectors.astype(np.float32).astype(float), strict=True))


WORDS = {"targ1": ["aster", "clover"], "targ2": ["ant", "flea", "gnat"]}
WORDS |= {"attr1": ["joy", "love"], "attr2": ["abuse", "crash", "filth"]}


def write_weat(path, **changes):
    content = {key: {"category": key.upper(), "examples": words} for key, words in (WORDS | changes).items()}
    path.write_text(json.dumps(content, indent=1))
    return path


def test_a_file_of_texts_averages_the_templates_of_a_word(tmp_path, job, tracker):
    templates = ["{}", "This is {}."]
    words = list(itertools.chain(*WORDS.values()))
    sentences = [template.replace("{}", word) for word in words for template in templates]
    vectors = write_prompts(tmp_path / "lab", sentences, 8)
    path = write_weat(tmp_path / "weat1.jsonl")
    options = [f"exp.file={path}", f"exp.templates=['{templates[0]}','{templates[1]}']"]
    (row,) = perform(job(*overrides(tmp_path / "lab", "eat"), *options), tracker).to_dict("records")

    def mean(word, others):
        pairs = itertools.product(templates, others, templates)
        return np.mean([vectors[a.replace("{}", word)] @ vectors[b.replace("{}", v)] for a, v, b in pairs])

    x, y = (
        [mean(word, WORDS["attr1"]) - mean(word, WORDS["attr2"]) for word in WORDS[key]]
        for key in ("targ1", "targ2")
    )
    assert row["d"] == pytest.approx((np.mean(x) - np.mean(y)) / np.std([*x, *y], ddof=1), abs=1e-6)
    assert (row["test"], row["order"], row["set_x"]) == ("weat1", "text_text", "TARG1")
    assert (row["n_x"], row["n_y"], row["n_a"], row["n_b"]) == (2, 3, 2, 3)
    assert (row["partitions"], row["p_method"]) == (10, "exact")
    assert row["reason"] == "no interval: fewer than 5 clusters"
    assert math.isnan(row["d_low"])


def test_sets_of_a_file_change_the_key(tmp_path, job):
    """Swap two sets: the same sentences, but another test."""
    write_prompts(tmp_path / "lab", list(itertools.chain(*WORDS.values())), 8)
    path = write_weat(tmp_path / "weat1.json")

    def key():
        eat_job = job(*overrides(tmp_path / "lab", "eat"), f"exp.file={path}")
        return encoder_job.compute_key(encoder_job.prepare(eat_job))

    before = key()
    write_weat(path, targ1=WORDS["targ2"], targ2=WORDS["targ1"])
    assert key() != before
    write_weat(path)
    assert key() == before


def config(**changes):
    names = {"x": ["rose", "lily"], "y": ["gnat", "flea"], "a": ["joy", "love"], "b": ["war", "filth"]}
    exp = EatConfig(paper="", sets={name: SetConfig(texts=texts) for name, texts in names.items()})
    exp.tests = {"t": ["x", "y", "a", "b"]}
    for name, value in changes.items():
        setattr(exp, name, value)
    return exp


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tests": {"t": ["x", "y", "a"]}}, "expected the names of four sets, X, Y, A and B, got 3"),
        ({"tests": {"t": ["x", "y", "a", "bb"]}}, r"no set 'bb'\. Did you mean 'b'"),
        ({"tests": {}}, "exp.tests: no test"),
        ({"orders": ["image_txt"]}, r"expected some of .*Did you mean 'image_text'"),
        ({"orders": []}, "expected some of"),
        ({"orders": ["image_text"]}, "share no modality"),
        ({"languages": ["en"]}, "only tests of a file have a language"),
        ({"attributes": ["a"]}, "expected the names of two sets"),
        (
            {"sets": {**config().sets, "x": SetConfig(texts=["rose"], words="highest")}},
            "words and texts are two sources of texts",
        ),
        ({"sets": {**config().sets, "x": SetConfig(words="highest")}}, "X is from words, Y from prompts"),
    ],
)
def test_mistakes_in_the_settings_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        list_tests(config(**changes), ["g", "h"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": ["rose", "gnat"]}, "X and Y share 1 items, first 'gnat'"),
        ({"b": ["joy", "filth"]}, "A and B share 1 items, first 'joy'"),
        ({"y": ["gnat"]}, "1 items; a set needs 2"),
        ({"y": ["gnat", " "]}, "an empty text"),
        ({"templates": ["a"]}, "expected {} once, got it 0 times"),
        ({"templates": ["{}", "{}"]}, "expected different sentences"),
    ],
)
def test_unsuitable_sets_are_refused_before_any_work(job, changes, message):
    cfg = job("exp=eat").cfg
    cfg.exp = config(templates=changes.get("templates", ["{}"]))
    for name in changes.keys() & cfg.exp.sets.keys():
        cfg.exp.sets[name] = SetConfig(texts=changes[name])
    with pytest.raises(InputError, match=message):
        experiment.check(cfg, {})


def test_tests_and_texts_change_on_the_command_line(job):
    options = ["+exp.tests.mine=[flower,insect,tool,weapon]", "exp.sets.flower.texts=[rose,lily]"]
    exp = job("exp=eat_ieat", *options).cfg.exp
    assert [test.name for test in list_tests(exp, [])] == ["insect_flower", "weapon", "race", "mine"]
    assert exp.sets["flower"].texts == ["rose", "lily"]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (["exp.groups=[Nobody]"], InputError, "no faces of 'Nobody'"),
        ([f"exp.groups=[{GROUPS[0]}]"], NotApplicable, "a test compares two groups"),
        (["protocol.extremes=40"], NotApplicable, "need 80. Set protocol.extremes=25 or less"),
        (["exp=eat_ieat", "exp.orders=[image_image]"], NotApplicable, "no faces of 'insect-flower/flower'"),
    ],
)
def test_an_unsuitable_dataset_is_refused(single, job, options, error, message):
    with pytest.raises(error, match=message):
        encoder_job.prepare(job(*overrides(single, "eat", extremes=EXTREMES), *options))


def test_texts_that_a_projection_removed_leave_their_set():
    frame = pd.DataFrame({"id": ["b", "c"], "sentence": ["b", "c"], "word": ["b", "c"], "group": ""})
    rows, names = sets._find_texts(Table(PROMPTS, frame, 2), ["a", "b", "c"], ["{}"])
    assert (rows.tolist(), names.tolist()) == ([0, 1], ["b", "c"])


def test_vectors_of_two_models_are_refused(job):
    cfg = job("exp=eat", "exp.orders=[image_text]").cfg
    vectors = {"faces": torch.ones(2, 3), "words": torch.ones(2, 4)}
    with pytest.raises(InputError, match="several widths"):
        experiment.run(cfg, {}, vectors)
