"""Check So-B-IT against a naive implementation, its nulls against relabelled faces, and its errors.

See docs/methods.md, section 4.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from src.configs import ProtocolConfig
from src.errors import InputError, NotApplicable
from src.stimuli import PROMPTS, Table
from src.studies.protocol import load_study
from src.studies.shared.exchange_units import build_exchange
from src.studies.sobit.axes import describe_missing_p, explain_missing_p, group_faces, permute_cells
from src.studies.sobit.caption_association import compute_associations
from src.studies.sobit.caption_retrieval import Nearest, resample_top, simulate_nulls
from src.studies.sobit.prompts import compose_baseline
from tests.metrics.test_group_measures import naive_measures

RACES, GENDERS = ("Alpha", "Beta", "Gamma"), ("Men", "Women")
WORDS = {
    "tempers": {"adjective": ["brisk", "odd"], "noun": ["hero"]},
    "trades": {"activity": ["reading"], "noun": ["hero"]},
}
SMALL = ["protocol.permutations=99", "protocol.bootstrap=60", "protocol.vocabulary=40", "protocol.top_k=7"]


def faces(count=60, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"id": [f"f{i:03d}" for i in range(count)]})
    # Every cell has a face, and cells differ in size.
    cells = np.concatenate([np.arange(6), rng.choice(6, count - 6, p=[0.3, 0.1, 0.2, 0.1, 0.2, 0.1])])
    frame["race"] = [RACES[cell // 2] for cell in cells]
    frame["gender"] = [GENDERS[cell % 2] for cell in cells]
    return Table("faces", frame.assign(group=frame["race"] + " " + frame["gender"]), count)


@pytest.fixture
def compose(job):
    """Return a function that composes an experiment with random vectors.

    `n_vectors`: number of vectors per face; 0: one per face, in an array without the axis of vectors.
    """

    def make(measure, *overrides, table=None, seed=0, n_vectors=0, words=WORDS):
        cfg = job(f"exp=sobit_{measure}", "dataset=photos", *SMALL, *overrides).cfg
        cfg.taxonomy.categories = words
        face_table = table or faces()
        rng = np.random.default_rng(seed)
        prompts = load_study(cfg.exp).prompts(cfg)
        shapes = {
            "faces": (len(face_table.frame), *([n_vectors] if n_vectors else []), 8),
            PROMPTS: (len(prompts.frame), 8),
        }
        vectors = {}
        for role, shape in shapes.items():
            values = torch.from_numpy(rng.normal(size=shape)).float()
            vectors[role] = torch.nn.functional.normalize(values, dim=-1)
        return cfg, {"faces": face_table, PROMPTS: prompts}, vectors

    return make


def cosines(tables, vectors):
    """Compute caption -> cosine with each face, in float64."""
    x, y = vectors["faces"].double().numpy(), vectors[PROMPTS].double().numpy()
    x, y = (v / np.linalg.norm(v, axis=-1, keepdims=True) for v in (x, y))
    result = np.einsum("...d,pd->p...", x, y)
    result = result.max(axis=2) if result.ndim == 3 else result
    return dict(zip(tables[PROMPTS].frame["sentence"], result, strict=True))


def label_faces(frame, axis):
    """Return the group of each face on an axis: race, gender or both."""
    return frame["race"] + " " + frame["gender"] if axis == "both" else frame[axis]


def naive_association(row, is_member):
    """Compute C, the association of a caption with a group, from its cosines with the faces."""
    return (row[is_member].mean() - row[~is_member].mean()) / row.std(ddof=1)


@pytest.mark.parametrize("n_vectors", [0, 3])
def test_association_equals_its_definition(compose, n_vectors):
    cfg, tables, vectors = compose("association", n_vectors=n_vectors)
    analyses, cosine_of = load_study(cfg.exp).run(cfg, tables, vectors).analyses, cosines(tables, vectors)
    frame = tables["faces"].frame
    assert len(analyses) == 5 * (3 + 2 + 6)
    words = {("brisk", "a photo of a brisk person"), ("odd", "a photo of an odd person")}
    words |= {("hero", "a photo of a hero"), ("reading", "a photo of a person who is reading")}
    assert {*zip(analyses["word"], analyses["caption"], strict=True)} == words
    for row in analyses.itertuples():
        is_member = (label_faces(frame, row.axis) == row.group).to_numpy()
        assert (row.n, row.n_rest) == (is_member.sum(), (~is_member).sum())
        expected = naive_association(cosine_of[row.caption], is_member)
        assert row.association == pytest.approx(expected, abs=1e-9)
        assert row.association_low <= row.association_high
        assert 0 < row.p <= row.q <= 1


def normal_score(row, is_member):
    test = stats.ttest_ind(row[is_member], row[~is_member], equal_var=False)
    return stats.norm.isf(test.pvalue / 2), test


def test_p_is_the_share_of_permutations_whose_largest_score_is_as_large(compose):
    table = people([1] * 60 + [2] * 30)
    of_person = table.frame.groupby("cluster")[["race", "gender"]].transform("first")
    table = replace(table, frame=table.frame.assign(**of_person))
    cfg, tables, vectors = compose("association", table=table, words={"tempers": {"noun": ["hero"]}})
    analyses, cosine_of = load_study(cfg.exp).run(cfg, tables, vectors).analyses, cosines(tables, vectors)
    row, face_set = cosine_of["a photo of a hero"], group_faces(table, ["race", "gender", "both"])
    permuted = np.concatenate([*permute_cells(face_set, 99, cfg.seed, 40)])
    for axis in face_set.axes:
        labels = axis.is_member.argmax(axis=1)
        indices = np.arange(len(axis.groups))
        largest = [max(normal_score(row, labels[cells] == g)[0] for g in indices) for cells in permuted]
        rows = analyses[analyses["axis"] == axis.name].set_index("group").loc[axis.groups]
        for g, (_, result) in zip(indices, rows.iterrows(), strict=True):
            score, test = normal_score(row, labels[face_set.cell_of_face] == g)
            assert result["p"] == pytest.approx((1 + np.sum(np.array(largest) >= score)) / 100)
            # |C| whose score is the 95th percentile of the largest score.
            t = stats.t.isf(stats.norm.sf(np.quantile(largest, 0.95)), test.df)
            ratio = result["null_q95"] / abs(result["association"])
            assert ratio == pytest.approx(t / abs(test.statistic), rel=1e-4)


def people(sizes, races=None, seed=0):
    """Build a table of people with `sizes` faces each.

    `races`: index in RACES of each person's race; genders then alternate over faces. None: each face has a
    race and a gender of its own.
    """
    person = np.repeat([f"p{i:03d}" for i in range(len(sizes))], sizes)
    table = faces(len(person), seed)
    frame = table.frame.assign(cluster=person)
    if races is not None:
        frame["race"] = np.array(RACES)[np.repeat(races, sizes)]
        frame["gender"] = np.where(frame.index % 2 == 0, "Women", "Men")
    return replace(table, frame=frame)


def test_faces_of_a_person_move_together():
    sizes = [1] * 6 + [2] * 8 + [3] * 5 + [7]
    face_set = group_faces(people(sizes, races=np.arange(20) % 3), ["race"])
    starts = np.cumsum([0, *sizes[:-1]])
    observed = face_set.cell_of_face[starts]
    permuted = np.concatenate([*permute_cells(face_set, 200, 0, 64)])
    assert (permuted == np.repeat(permuted[:, starts], sizes, axis=1)).all()
    for size in (1, 2, 3, 7):
        is_size = np.array(sizes) == size
        assert (np.sort(permuted[:, starts[is_size]], axis=1) == np.sort(observed[is_size])).all()
    assert len(np.unique(permuted, axis=0)) > 190


def test_faces_of_a_person_share_their_bootstrap_weight():
    sizes = [1, 3, 2] * 10
    face_set = group_faces(people(sizes, races=np.arange(30) % 3), ["race"])
    starts = np.cumsum([0, *sizes[:-1]])
    weights = np.empty((60, 20), dtype=int)
    for rows, drawn in face_set.draw_weights(20, 0):
        weights[rows] = drawn.T
    assert (weights == np.repeat(weights[starts], sizes, axis=0)).all()
    assert (weights[starts].sum(axis=0) == 30).all()


def test_a_group_has_no_p_where_too_few_people_can_change_place(compose):
    few = "fewer than 5 people in the group or outside of it"
    sizes, races = [1] * 34, np.array([0] * 4 + [1] * 15 + [2] * 15)
    face_set = group_faces(people(sizes, races), ["race"])
    assert explain_missing_p(face_set, face_set.axes[0]) == [few, "", ""]
    assert describe_missing_p(face_set, "association") == [f"no p for Alpha: {few}"]
    # Four people with five faces each are four people. The others have other numbers of faces.
    sizes = [5] * 4 + [2] * 15 + [3] * 15
    face_set = group_faces(people(sizes, races), ["race"])
    reasons = explain_missing_p(face_set, face_set.axes[0])
    assert reasons[0] == few
    assert all(reason.startswith("fewer than 1,000 ways ") for reason in reasons[1:])
    # All of a group's 12 people have one face; 8 others have one, and 30 others have two.
    races = np.array([0] * 12 + [1] * 19 + [2] * 19)
    face_set = group_faces(people([1] * 20 + [2] * 30, races), ["race"])
    reasons = explain_missing_p(face_set, face_set.axes[0])
    assert reasons[0].startswith("fewer than half of ")
    assert reasons[1:] == ["", ""]
    cfg, tables, vectors = compose("association", "exp.axes=[race]", table=people([1] * 20 + [2] * 30, races))
    result = load_study(cfg.exp).run(cfg, tables, vectors)
    has_p = result.analyses["group"] != "Alpha"
    for name in ("p", "q", "null_q95"):
        assert (result.analyses[name].notna() == has_p).all()
    assert result.analyses["association_low"].notna().all()
    assert [note.partition(":")[0] for note in result.notes] == ["no p for Alpha"]


@pytest.mark.parametrize("sizes", [[1] * 60, [1] * 30 + [2] * 15, [*range(1, 13)], [5] * 12, [4] * 15])
def test_a_group_lacks_p_where_propagation_would_not_permute_it(sizes):
    races = np.sort(np.arange(len(sizes)) % 3)
    table = people(sizes, races)
    face_set = group_faces(table, ["race"])
    exchange = build_exchange(replace(table, frame=table.frame.assign(group=table.frame["race"])), 0)
    reasons = explain_missing_p(face_set, face_set.axes[0])
    for group, count, reason in zip(RACES, np.bincount(races), reasons, strict=True):
        assert bool(reason) == (count < 5 or bool(exchange.explain_refusal(group)))


def test_linked_morphs_count_as_a_single_person(compose):
    table = faces(60)
    parents = {
        f"parent_{end}": [f"m{int(i) % 5 + shift}" for i in range(60)] for end, shift in (("a", 0), ("b", 1))
    }
    morphs = replace(table, frame=table.frame.assign(**parents))
    cfg, tables, vectors = compose("association", table=morphs)
    result = load_study(cfg.exp).run(cfg, tables, vectors)
    assert result.analyses["p"].isna().all()
    assert result.analyses["association_low"].notna().all()
    assert len(result.notes) == 1
    cfg, tables, vectors = compose("retrieval", table=morphs)
    retrieved = load_study(cfg.exp).run(cfg, tables, vectors)
    assert retrieved.analyses[["p", "q", "null_q95", "maxskew_p"]].isna().all(axis=None)
    assert retrieved.notes == result.notes


def test_axes_are_any_columns_and_their_combinations(compose):
    table = faces(90)
    ages = np.array(["old", "young"])[np.random.default_rng(8).integers(2, size=90)]
    table = replace(table, frame=table.frame.assign(age=ages))
    names = ["age", "gender:age", "race:gender:age", "both"]
    cfg, tables, vectors = compose("association", f"exp.axes=[{','.join(names)}]", table=table)
    rows = load_study(cfg.exp).run(cfg, tables, vectors).analyses
    assert [*rows["axis"].unique()] == names
    assert [*rows[rows["axis"] == "gender:age"]["group"].unique()] == [
        "Men old", "Men young", "Women old", "Women young",
    ]  # fmt: skip
    assert rows[rows["axis"] == "race:gender:age"]["group"].nunique() == 12
    # The same numbers as an axis that the table spells out.
    spelt = replace(table, frame=table.frame.assign(mix=table.frame["gender"] + " " + table.frame["age"]))
    cfg, tables, _ = compose("association", "exp.axes=[mix]", table=spelt)
    expected = load_study(cfg.exp).run(cfg, tables, vectors).analyses
    same = rows[rows["axis"] == "gender:age"]
    np.testing.assert_allclose(same["association"].to_numpy(), expected["association"].to_numpy(), atol=1e-6)
    cfg, _, _ = compose("association", "exp.axes=[both]", table=table)
    both = load_study(cfg.exp).run(cfg, tables | {"faces": table}, vectors).analyses
    np.testing.assert_allclose(
        both["association"].to_numpy(), rows[rows["axis"] == "both"]["association"].to_numpy(), atol=1e-6
    )


def expect_small_p(top, labels, has_sets, rng, draws=300):
    """Compute the probability that p of the shares of the top k is at most .5.

    It is below .5: shares are discrete, so that many permutations tie with the observed deviation. p is at
    most .5 if at most 49 of 99 permutations reach the deviation. Labels [30, 4] are permuted within sets of
    four faces, or between people with four faces each.
    """
    relabelled = np.broadcast_to(labels, (draws, 30, 4))
    relabelled = rng.permuted(relabelled, axis=2) if has_sets else rng.permuted(relabelled[:, :, 0], axis=1)
    relabelled = relabelled.reshape(draws, 120) if has_sets else np.repeat(relabelled, 4, axis=1)
    base = np.bincount(labels.ravel()) / 120
    shares = (relabelled[:, top, None] == np.arange(3)).mean(axis=1)
    largest = (np.abs(shares - base) / np.sqrt(base * (1 - base))).max(axis=1)
    tails = (largest >= largest[:, None] - 1e-9).mean(axis=1)
    return stats.binom(99, tails).cdf(49).mean()


@pytest.mark.thorough
@pytest.mark.parametrize("has_sets", [False, True])
def test_retrieval_rejects_at_the_nominal_rate_where_faces_are_linked(compose, has_sets):
    # The four pictures of a person, or the four faces of a scene (of all groups), share a direction of their
    # vectors.
    relabellings, rng = 150, np.random.default_rng(6)
    linked = np.repeat(np.arange(30), 4)
    p, expected = np.zeros((2, relabellings))
    off = ("protocol.bootstrap=0", "exp.axes=[race]", "protocol.top_k=12")
    cfg, tables, vectors = compose("retrieval", *off, words={"tempers": {"noun": ["hero"]}})
    for number in range(relabellings):
        labels = rng.permutation(np.arange(30) % 3)[linked]
        if has_sets:
            labels = np.concatenate([rng.permutation([0, 1, 2, rng.integers(3)]) for _ in range(30)])
        frame = faces(120).frame.assign(race=np.array(RACES)[labels], group=np.array(RACES)[labels])
        frame["set" if has_sets else "person"] = [f"p{link:02d}" for link in linked]
        tables["faces"] = Table("faces", frame, 120)
        values = 3 * rng.normal(size=(30, 8))[linked] + rng.normal(size=(120, 8))
        vectors["faces"] = torch.nn.functional.normalize(torch.from_numpy(values).float(), dim=-1)
        p[number] = load_study(cfg.exp).run(cfg, tables, vectors).analyses["p"].min()
        top = np.argsort(-cosines(tables, vectors)["a photo of a hero"])[:12]
        labels, reference_rng = labels.reshape(30, 4), np.random.default_rng(number)
        expected[number] = expect_small_p(top, labels, has_sets, reference_rng)
    assert (p <= 0.05).sum() <= stats.binom(relabellings, 0.05).ppf(0.999)
    # Few of such discrete p are at most .05: the check above would miss p that are too large. This one does
    # not.
    low, high = stats.binom.interval(0.998, relabellings, expected.mean())
    assert low <= (p <= 0.5).sum() <= high


def test_unequal_spreads_with_equal_means_reject_at_the_nominal_rate():
    # One of four groups has 10 people and twice the spread of the others. Each caption is a draw.
    rng, captions, sizes = np.random.default_rng(3), 400, [10, 80, 100, 110]
    labels = np.repeat(np.arange(4), sizes)
    similarities = rng.normal(scale=np.where(labels == 0, 2, 1)[:, None], size=(300, captions)) / 100
    rest = np.sqrt(1 - np.sum(similarities**2, axis=1, keepdims=True))
    frame = pd.DataFrame({"id": [f"f{i:03d}" for i in range(300)], "race": labels.astype(str)})
    face_set = group_faces(Table("faces", frame, 300), ["race"])
    protocol = ProtocolConfig(permutations=199, bootstrap=0)
    vectors = torch.from_numpy(np.concatenate([similarities, rest], axis=1))
    measures = compute_associations(
        face_set, vectors, torch.eye(captions, captions + 1).double(), protocol, seed=0
    )
    rejected = measures["p"].min(axis=1) <= 0.05
    assert stats.binom(captions, 0.05).ppf(0.001) <= rejected.sum() <= stats.binom(captions, 0.05).ppf(0.999)
    # A pooled spread is too small for the group: with it, nearly every fifth draw would reject.
    error = np.sqrt(1 / face_set.axes[0].sizes + 1 / (300 - face_set.axes[0].sizes))
    largest = np.abs(measures["association"] / error).max(axis=1)
    assert np.mean(largest > stats.norm.isf(0.025 / 4)) > 0.12


def test_the_baseline_is_of_the_largest_association_of_each_axis(compose):
    cfg, tables, vectors = compose("association")
    analyses, cosine_of = load_study(cfg.exp).run(cfg, tables, vectors).analyses, cosines(tables, vectors)
    frame = tables["faces"].frame
    frequent = compose_baseline(cfg)
    assert len(frequent) == 40
    for (caption, axis), rows in analyses.groupby(["caption", "axis"]):
        labels = label_faces(frame, axis)

        def largest_c(name, labels=labels):
            members = [(labels == group).to_numpy() for group in set(labels)]
            return max(abs(naive_association(cosine_of[name], is_member)) for is_member in members)

        expected = np.mean([largest_c(name) >= largest_c(caption) - 1e-12 for name in frequent])
        assert rows["baseline_share"].to_numpy() == pytest.approx(expected, abs=1e-12)


def test_retrieval_equals_its_definition(compose):
    cfg, tables, vectors = compose("retrieval")
    result, cosine_of = load_study(cfg.exp).run(cfg, tables, vectors), cosines(tables, vectors)
    frame, k = tables["faces"].frame, 7
    analyses = result.analyses.drop_duplicates(["caption", "axis", "group"])
    for (caption, axis), rows in analyses.groupby(["caption", "axis"]):
        labels = label_faces(frame, axis).to_numpy()
        names, indices = np.unique(labels, return_inverse=True)
        top = indices[np.argsort(-cosine_of[caption], kind="stable")[:k]]
        p, base = (np.array([np.mean(x == g) for g in range(len(names))]) for x in (top, indices))
        by_group = rows.set_index("group").loc[names]
        assert by_group["share_topk"].to_numpy() == pytest.approx(p)
        assert by_group["base_share"].to_numpy() == pytest.approx(base)
        assert by_group["ratio"].to_numpy() == pytest.approx(p / base)
        expected = naive_measures(top, base)
        assert rows.iloc[0][[*expected]].to_dict() == pytest.approx(expected)
    nearest = result.tables["nearest"]
    hero = nearest[nearest["caption"] == "a photo of a hero"]
    order = np.argsort(-cosine_of["a photo of a hero"], kind="stable")[:k]
    assert list(hero["id"]) == list(frame["id"].iloc[order])
    assert list(hero["rank"]) == [*range(1, k + 1)]


def test_the_null_of_a_composition_is_hypergeometric():
    """Compare with the exact probabilities when 30 of 60 faces are drawn without replacement."""
    face_set, k, draws = group_faces(faces(), ["gender"]), 30, 2000
    (axis,) = face_set.axes
    largest = simulate_nulls(axis, face_set, k, ProtocolConfig(permutations=draws), 0)[0]
    count = np.arange(k + 1)
    probabilities = stats.hypergeom.pmf(count, 60, axis.sizes[0], k)
    deviation = np.abs(count / k - axis.base[0]) / np.sqrt(axis.base[0] * (1 - axis.base[0]))
    for limit in np.unique(deviation.round(9)):
        expected = probabilities[deviation >= limit - 1e-6].sum()
        low, high = stats.binom.interval(1 - 1e-6, draws, min(expected, 1))
        assert low <= (largest >= limit - 1e-6).sum() <= high


def test_strength_is_the_share_of_frequent_words_that_are_no_stronger(compose):
    cfg, tables, vectors = compose("strength")
    analyses, cosine_of = load_study(cfg.exp).run(cfg, tables, vectors).analyses, cosines(tables, vectors)
    strengths = {caption: np.sort(row)[-7:].mean() for caption, row in cosine_of.items()}
    frequent = [strengths[caption] for caption in compose_baseline(cfg)]
    assert len(analyses) == 5
    assert analyses["axis"].isna().all()
    for row in analyses.itertuples():
        assert row.similarity == pytest.approx(strengths[row.caption], abs=1e-9)
        assert row.strength == pytest.approx(
            np.mean([value <= strengths[row.caption] + 1e-12 for value in frequent])
        )
        assert row.similarity_low <= row.similarity_high


def test_a_bootstrap_sample_of_every_face_once_gives_the_estimates(compose, monkeypatch):
    cfg, tables, vectors = compose("association")
    count_once = lambda rows, draws, seed: np.ones((draws, len(rows)), dtype=np.int16)  # noqa: E731
    monkeypatch.setattr("src.studies.sobit.axes.draw_weights", count_once)
    result = load_study(cfg.exp).run(cfg, tables, vectors)
    rows = result.analyses
    for name in ("association_low", "association_high"):
        assert rows[name].to_numpy() == pytest.approx(rows["association"].to_numpy(), abs=1e-5)
    largest = rows["association"].abs().groupby([rows["caption"], rows["axis"]]).max()
    drawn = result.tables["draws"].groupby(["caption", "axis"])["largest"].mean()
    assert drawn.loc[largest.index].to_numpy() == pytest.approx(largest.to_numpy(), abs=1e-5)


def test_bootstrap_weights_equal_repeated_faces(compose):
    _, tables, vectors = compose("association")
    cosine_of = cosines(tables, vectors)["a photo of a hero"]
    face_set = group_faces(tables["faces"], ["both"])
    weights = np.empty((60, 5), dtype=int)
    for rows, drawn in face_set.draw_weights(5, 0):
        weights[rows] = drawn.T
        assert (drawn.sum(axis=1) == len(rows)).all()  # each cell keeps its size
    order = np.argsort(-cosine_of, kind="stable")
    shares, strengths = resample_top(Nearest(order[None], cosine_of[order][None], 7), face_set, 5, 0)
    labels = label_faces(tables["faces"].frame, "both").to_numpy()
    for draw in range(5):
        repeated = np.repeat(order, weights[order, draw])[:7]
        assert strengths[0, draw] == pytest.approx(cosine_of[repeated].mean())
        expected = [np.mean(labels[repeated] == group) for group in face_set.axes[0].groups]
        assert shares[0, draw] == pytest.approx(expected)


@pytest.mark.thorough
@pytest.mark.parametrize("measure", ["association", pytest.param("retrieval", marks=pytest.mark.exhaustive)])
def test_randomly_relabelled_faces_reject_at_the_nominal_rate(compose, measure):
    # Count corrected p <= .05 for each word and axis. The limits are corrected for the number of counts: at
    # the nominal rate, at least one count is above the upper limit in at most 1 of 1,000 such tests, and at
    # least one is below the lower limit in as many.
    relabellings, rejected = 300, np.zeros((5, 3))
    off = ("protocol.bootstrap=0", "protocol.vocabulary=0")
    cfg, tables, vectors = compose(measure, *off, "protocol.top_k=15")
    frame, rng = tables["faces"].frame, np.random.default_rng(5)
    for _ in range(relabellings):
        labels = frame[["race", "gender", "group"]].iloc[rng.permutation(len(frame))].to_numpy()
        columns = dict(zip(["race", "gender", "group"], labels.T, strict=True))
        relabelled = replace(tables["faces"], frame=frame.assign(**columns))
        rows = load_study(cfg.exp).run(cfg, {**tables, "faces": relabelled}, vectors).analyses
        rows = rows.assign(number=rows.groupby(["axis", "group"]).cumcount())
        minimum = rows.groupby(["number", "axis"])["p"].min().unstack()
        rejected += minimum.to_numpy() <= 0.05
    assert rejected.max() <= stats.binom(relabellings, 0.05).ppf(1 - 0.001 / rejected.size)
    if measure == "association":  # shares are discrete, so that their test rejects less often
        assert rejected.min() >= stats.binom(relabellings, 0.05).ppf(0.001 / rejected.size)


def test_draws_depend_on_the_faces_alone(compose):
    # With fewer words, turned vectors (of the same cosines) and another order of faces, samples and
    # permutations are the same.
    cfg, tables, vectors = compose("association")
    analyses = load_study(cfg.exp).run(cfg, tables, vectors).analyses
    hero_cfg, hero_tables, _ = compose("association", words={"tempers": {"noun": ["hero"]}})
    sentences = list(tables[PROMPTS].frame["sentence"])
    rows = [sentences.index(sentence) for sentence in hero_tables[PROMPTS].frame["sentence"]]
    rng = np.random.default_rng(9)
    rotation = torch.from_numpy(stats.ortho_group.rvs(8, random_state=rng)).float()
    order = rng.permutation(60)
    shuffled = tables["faces"].frame.iloc[order].reset_index(drop=True)
    hero_tables["faces"] = replace(tables["faces"], frame=shuffled)
    hero_vectors = {"faces": vectors["faces"][order] @ rotation, PROMPTS: vectors[PROMPTS][rows] @ rotation}
    hero_analyses = load_study(hero_cfg.exp).run(hero_cfg, hero_tables, hero_vectors).analyses
    expected = analyses[(analyses["word"] == "hero") & (analyses["category"] == "tempers")]
    for name in ("association", "association_low", "association_high", "p", "null_q95"):
        assert hero_analyses[name].to_numpy() == pytest.approx(expected[name].to_numpy(), abs=1e-6), name


NO_DRAWS = ["protocol.permutations=0", "protocol.bootstrap=0"]


@pytest.mark.parametrize(
    ("measure", "estimate", "of_draws"),
    [
        ("association", "association", ["p", "q", "null_q95", "association_low"]),
        ("retrieval", "share_topk", ["p", "maxskew_p", "share_low"]),
    ],
)
def test_without_draws_only_columns_of_draws_are_empty(compose, measure, estimate, of_draws):
    cfg, tables, vectors = compose(measure, *NO_DRAWS)
    rows = load_study(cfg.exp).run(cfg, tables, vectors).analyses
    assert rows[of_draws].isna().all(axis=None)
    assert rows[estimate].notna().all()


def test_faces_with_equal_vectors_have_no_association(compose):
    cfg, tables, vectors = compose("association")
    vectors["faces"] = vectors["faces"][:1].expand(60, -1).contiguous()
    rows = load_study(cfg.exp).run(cfg, tables, vectors).analyses
    assert rows[["association", "p", "q", "baseline_share"]].isna().all(axis=None)


def test_without_a_vocabulary_there_is_no_baseline_and_strength_is_refused(compose):
    cfg, tables, vectors = compose("association", *NO_DRAWS, "protocol.vocabulary=0")
    assert load_study(cfg.exp).run(cfg, tables, vectors).analyses["baseline_share"].isna().all()
    with pytest.raises(InputError, match="vocabulary=0"):
        compose("strength", "protocol.vocabulary=0")


def edited(**columns):
    frame = faces().frame.assign(**columns)
    return Table(
        "faces", frame.drop(columns=[name for name, value in columns.items() if value is None]), len(frame)
    )


@pytest.mark.parametrize(
    ("table", "overrides", "error", "message"),
    [
        (edited(gender=None), [], NotApplicable, "expected a column gender"),
        (edited(gender="Men"), [], NotApplicable, "expected two or more values of gender, got only 'Men'"),
        (edited(gender=["", *["Men", "Women"] * 29, "Men"]), [], InputError, "1 of 60 have no gender, first"),
        (faces(), ["exp.axes=[rase]"], NotApplicable, "expected a column rase .*Did you mean 'race'"),
        (faces(), ["exp.axes=[race:race]"], InputError, "each once"),
        (faces(), ["exp.axes=[both,gender:race]"], InputError, "each once"),
        (faces(), ["exp.axes=[]"], InputError, "expected one or more of race, gender, or combinations"),
        (faces(), ["exp.axes=[race,race]"], InputError, "each once"),
        (faces(), ["exp.measure=retrieval", "protocol.top_k=60"], NotApplicable, "Set it to 59 or less"),
    ],
)
def test_faces_that_cannot_be_compared_are_refused_before_any_work(job, table, overrides, error, message):
    cfg = job("exp=sobit_association", *overrides).cfg
    with pytest.raises(error, match=message) as raised:
        load_study(cfg.exp).check(cfg, {"faces": table})
    assert isinstance(raised.value, NotApplicable) == (error is NotApplicable)
    cfg = job("exp=sobit_association", "exp.axes=[gender]").cfg
    load_study(cfg.exp).check(cfg, {"faces": edited(race=None)})  # the axis gender needs no race
