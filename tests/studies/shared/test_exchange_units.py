"""Check exchanges of clusters by enumeration (docs/methods.md, section 6.1), and units drawn together."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from src import configs
from src.stimuli import build_table, clusters
from src.stimuli.loaders import compose_phrases, fill_templates
from src.studies.shared.exchange_units import build_exchange
from src.studies.shared.resampling import draw_weights


def scenes(sizes):
    """Build scenes in clusters of these sizes; ids are in another order than clusters."""
    names = [f"c{number:02d}" for number, size in enumerate(sizes) for _ in range(size)]
    ids = [f"{7 * place % 97:02d}" for place in range(len(names))]
    return build_table("scenes", pd.DataFrame({"id": ids, "cluster": names, "valence": 0.5}), "t")


def faces(groups_of_clusters):
    """Build faces from the groups of the faces of each cluster, such as ["xx", "y"]."""
    rows = [(f"c{number:02d}", g) for number, members in enumerate(groups_of_clusters) for g in members]
    frame = pd.DataFrame(rows, columns=["cluster", "group"])
    return build_table("faces", frame.assign(id=[f"f{place:03d}" for place in range(len(rows))]), "t")


def labels(race_words, gender_words, templates=("a {}", "the {}")):
    frame = compose_phrases(configs.LabelsConfig(race_words, gender_words))
    return build_table("labels", fill_templates(frame, templates), "t")


RACES = {"X": ["xa", "xas", "xb", "xc"], "Y": ["ya", "yas", "yb", "yc"]}
GENDERS = {"Men": ["man", "men", "sir", "son"], "Women": ["aunt", "aunts", "girl", "maid"]}


@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=12), seed=st.integers(0, 99))
def test_clusters_of_a_size_change_places_and_rows_follow_by_id(sizes, seed):
    corpus = scenes(sizes)
    exchange = build_exchange(corpus, seed)
    rng = np.random.default_rng([seed, int(corpus.hash[:16], 16), 1])
    expected, members = np.empty(sum(sizes), dtype=int), {}
    # The table is sorted by id.
    for row, cluster in enumerate(corpus.frame["cluster"]):
        members.setdefault(cluster, []).append(row)
    for size in sorted({*sizes}):
        names = sorted(name for name, rows in members.items() if len(rows) == size)
        for name, place in zip(names, rng.permutation(len(names)), strict=True):
            expected[members[name]] = members[names[place]]
    assert exchange.draw_permutations(1)[0].tolist() == expected.tolist()
    # A permutation does not depend on how many are drawn.
    assert (exchange.draw_permutations(3)[0] == expected).all()
    assert exchange.n_clusters == len(sizes)


def test_words_change_places_with_all_sentences():
    words = ["cat", "cats", "dog", "dogs", "bird", "tree"]
    frame = fill_templates(pd.DataFrame({"word": words, "valence": 0.5}), ["a {}", "the {}"])
    corpus = build_table("words", frame, "t")
    exchange = build_exchange(corpus, 0)
    permutations = exchange.draw_permutations(40)
    for permutation in permutations:
        moved = dict(zip(exchange.names, exchange.names[permutation], strict=True))
        assert (moved["cat"], moved["cats"]) in {("cat", "cats"), ("dog", "dogs")}
        assert {moved["bird"], moved["tree"]} == {"bird", "tree"}
    rows = exchange.permute_rows(np.arange(12), permutations)
    template = corpus.frame["template"].to_numpy()
    assert (template[rows] == template).all()
    assert len(np.unique(permutations, axis=0)) == 4


def test_a_phrase_goes_to_the_pair_of_the_places_of_its_words():
    corpus = labels(RACES, GENDERS)
    exchange = build_exchange(corpus, 3)
    permutations = exchange.draw_permutations(30)
    for permutation in permutations:
        assert sorted(permutation) == [*range(64)]
        moves = [{}, {}]
        for old, new in zip(exchange.names, exchange.names[permutation], strict=True):
            for position, (before, after) in enumerate(zip(old.split(), new.split(), strict=True)):
                assert moves[position].setdefault(before, after) == after
        # Both forms of a word go to both forms of another, in order.
        assert {(moves[0]["xa"], moves[0]["xas"]), (moves[0]["ya"], moves[0]["yas"])} == {
            ("xa", "xas"),
            ("ya", "yas"),
        }
        assert (moves[1]["man"], moves[1]["men"]) in {("man", "men"), ("aunt", "aunts")}
    assert len({tuple(permutation) for permutation in permutations}) > 25
    for other in (build_exchange(corpus, 4), build_exchange(labels(RACES, GENDERS, ["{}"]), 3)):
        assert (other.draw_permutations(2) != permutations[:2]).any()


def placements(levels, values, names):
    """Enumerate placements of values over levels as clusters of a size change places, by brute force."""
    distinct = set()
    members = {name: [level for level in levels if names[level] == name] for name in sorted({*names})}
    sizes = sorted({len(rows) for rows in members.values()})
    of_size = [[name for name in members if len(members[name]) == size] for size in sizes]
    for orders in itertools.product(*map(itertools.permutations, of_size)):
        placed = list(values)
        for same, order in zip(of_size, orders, strict=True):
            for name, place in zip(same, order, strict=True):
                for old, new in zip(members[name], members[place], strict=True):
                    placed[new] = values[old]
        distinct.add(tuple(placed))
    return len(distinct)


@pytest.mark.parametrize("sizes", [[1, 1, 1, 2, 2], [3, 1, 2], [1, 1, 2, 2, 2, 4]])
def test_placements_of_valence_are_counted(sizes):
    names = np.repeat([*range(len(sizes))], sizes)
    count = placements(range(len(names)), [*range(len(names))], names)
    log_placements, movable = build_exchange(scenes(sizes), 0).count_placements(None)
    assert 10**log_placements == pytest.approx(count)
    assert movable == sum(size for size in sizes if sizes.count(size) > 1) / sum(sizes)


@pytest.mark.parametrize(
    "clusters_of", [["x", "y", "x", "xx", "yy", "yyy"], ["x", "y", "y", "xy", "xx", "yy"]]
)
def test_placements_of_a_group_are_counted(clusters_of):
    names = np.repeat([*range(len(clusters_of))], [*map(len, clusters_of)])
    # A cluster of several groups counts as of none.
    values = ["x" if {*members} == {"x"} else "-" for members in clusters_of for _ in members]
    count = placements(range(len(names)), values, names)
    exchange = build_exchange(faces(clusters_of), 0)
    log_placements, movable = exchange.count_placements("x")
    assert 10**log_placements == pytest.approx(count)
    # Clusters can move where others of their size are of another kind.
    kinds = {(len(members), {*members} == {"x"}) for members in clusters_of}
    movable_sizes = {size for size, of_x in kinds if (size, not of_x) in kinds}
    expected = sum(len(members) for members in clusters_of if len(members) in movable_sizes)
    assert movable == expected / sum(map(len, clusters_of))


def test_placements_of_crossed_words_are_the_product_over_both():
    exchange = build_exchange(labels(RACES, GENDERS), 0)
    counts = []
    for words, group in ((RACES, "X"), (GENDERS, "Men")):
        names = [word for members in words.values() for word in members]
        lemmas = [clusters.map_lemmas(names)[word] for word in names]
        values = [group if word in words[group] else "-" for word in names]
        counts.append(placements(range(len(names)), values, np.array(lemmas)))
    assert counts == [12, 12]  # 2 of pairs, 6 of four words alone
    assert exchange.count_placements("X Men") == (pytest.approx(math.log10(144)), 1)


def test_a_corpus_that_cannot_be_permuted_and_an_incomplete_grid_are_refused():
    few = "fewer than 1,000 placements"
    assert build_exchange(scenes([1] * 6), 0).explain_refusal(None) == few  # 720
    assert build_exchange(scenes([1] * 7), 0).explain_refusal(None) == ""  # 5,040
    immovable = "less than half of the items can change place"
    assert build_exchange(scenes([1] * 7 + [8]), 0).explain_refusal(None) == immovable
    assert build_exchange(scenes([1] * 8 + [8]), 0).explain_refusal(None) == ""
    # One linked component of morphs per group: two clusters of different sizes.
    pairs = [*itertools.combinations("abcd", 2), *itertools.combinations("vwxyz", 2)]
    morphs = pd.DataFrame(pairs, columns=["parent_a", "parent_b"])
    morphs = morphs.assign(id=["~".join(pair) for pair in pairs], group=["g"] * 6 + ["h"] * 10)
    assert build_exchange(build_table("faces", morphs, "t"), 0).explain_refusal("g") == few
    # Each group has its own placements: with a single cluster, z has 12.
    alone = build_exchange(faces([*"xxxxxxyyyyyz"]), 0)
    assert [alone.explain_refusal(group) for group in "xyz"] == [few, few, few]
    alone = build_exchange(faces([*"xxxxxxxyyyyyyyz"]), 0)
    assert [alone.explain_refusal(group) for group in "xyz"] == ["", "", few]
    corpus = labels(RACES, GENDERS)
    incomplete = corpus.frame[corpus.frame["word"] != "xa man"]
    table = build_table("labels", incomplete, "t")
    reason = "race words and gender words are not fully crossed"
    assert build_exchange(table, 0).explain_refusal("X Men") == reason
    guessed = table.frame.drop(columns=["race_word", "gender_word"])
    assert len(build_exchange(build_table("labels", guessed, "t"), 0).factors) == 1


def test_only_parts_exchange_and_sizes_are_counted_within_them():
    exchange = build_exchange(scenes([1, 1, 2, 2, 1, 1, 3]), 0)
    # A unit of the cluster of three leaves: the two that stay are a cluster of two.
    cluster = exchange.factors[0].clusters
    parts = np.where(cluster < 4, 1, 2)
    parts[np.flatnonzero(cluster == 6)[0]] = 0
    restricted = exchange.restrict([parts])
    assert sorted(block.shape for block in restricted.factors[0].blocks) == [(1, 2), (2, 1), (2, 1), (2, 2)]
    for permutation in restricted.draw_permutations(20):
        assert (parts[permutation] == parts).all()
        assert permutation[parts == 0].tolist() == np.flatnonzero(parts == 0).tolist()
    # All six units of the first part, and two of four in the second.
    log_placements, movable = restricted.count_placements(None)
    assert 10**log_placements == pytest.approx(2 * 2 * 2)
    assert movable == 8 / 10


MORPHS = pd.DataFrame({"name": ["a~b", "a~c", "b~c", "c~d", "d"], "parent_a": ["a", "a", "b", "c", None]})
MORPHS["parent_b"] = ["b", "c", "c", "d", None]


def test_a_sample_has_as_many_units_as_there_are():
    drawn = draw_weights(pd.DataFrame({"name": [f"u{i}" for i in range(50)]}), 4000, seed=1)
    assert (drawn.sum(axis=1) == 50).all()
    # Binomial(50, 1/50) of each unit, and a covariance of -1/50 of any two.
    assert drawn.mean() == 1
    assert drawn.var(axis=0).mean() == pytest.approx(1 - 1 / 50, abs=0.02)
    assert np.cov(drawn[:, 0], drawn[:, 1])[0, 1] == pytest.approx(-1 / 50, abs=0.07)
    assert len(np.unique(drawn, axis=0)) > 3990


def test_a_morph_has_the_product_of_the_counts_of_its_parents():
    drawn = draw_weights(MORPHS, 500, seed=0)
    # The weight of d, which has no parents, is its count; the others follow from four counts that sum to 4.
    d = drawn[:, 4]
    for ab, ac, bc, cd, count_d in drawn:
        assert any(
            a + b + c + count_d == 4 and (a * b, a * c, b * c, c * count_d) == (ab, ac, bc, cd)
            for a, b, c in itertools.product(range(5), repeat=3)
        )
    assert d.mean() == pytest.approx(1, abs=0.12)


@pytest.mark.parametrize("frame", [MORPHS, MORPHS[["name"]]], ids=["morphs", "single"])
def test_the_draw_depends_on_seed_and_names_alone(frame):
    shuffled = frame.sample(frac=1, random_state=0)
    assert (draw_weights(shuffled, 60, seed=3) == draw_weights(frame, 60, seed=3)[:, shuffled.index]).all()
    assert (draw_weights(frame, 60, seed=3) != draw_weights(frame, 60, seed=4)).any()
    other = frame.assign(name=frame["name"].str.upper())
    assert (draw_weights(other, 60, seed=3) != draw_weights(frame, 60, seed=3)).any()


def matched(sets, people=None):
    """Build faces from the groups of each set, such as ["xy", "xxy"], and the names of their people."""
    rows = [(f"s{number:03d}", group) for number, groups in enumerate(sets) for group in groups]
    frame = pd.DataFrame(rows, columns=["set", "group"])
    frame["person"] = [None] * len(rows) if people is None else [*"".join(people)]
    # Ids are in another order than sets.
    frame["id"] = [f"f{37 * place % 1009:04d}" for place in range(len(rows))]
    return build_table("faces", frame, "t")


def test_faces_change_places_within_their_sets():
    corpus = matched(["xy", "xxy", "x", "xyz"])
    exchange, sets = build_exchange(corpus, 0), corpus.frame["set"].to_numpy()
    assert exchange.n_clusters == 4
    permutations = exchange.draw_permutations(300)
    assert (sets[permutations] == sets).all()
    groups = corpus.frame["group"].to_numpy()
    distinct = {tuple(groups[permutation]) for permutation in permutations}
    assert len(distinct) == 2 * 3 * 6
    # Placements of x: of 1 among 2, of 2 among 3, of 1 among 3.
    log_placements, movable = exchange.count_placements("x")
    assert (10**log_placements, movable) == (pytest.approx(2 * 3 * 3), 8 / 9)  # one face is alone in its set


def test_people_in_several_sets_change_places_with_those_in_the_same_sets():
    corpus = matched(["xxyy", "xxyy", "xy"], ["abcd", "abcd", "ae"])
    exchange = build_exchange(corpus, 0)
    assert exchange.n_clusters == 1  # person a links all three sets
    frame = corpus.frame
    moves = set()
    for permutation in exchange.draw_permutations(100):
        assert (frame["set"].to_numpy()[permutation] == frame["set"]).all()
        moved = pd.Series(frame["person"].to_numpy()[permutation]).groupby(frame["person"]).unique()
        assert all(len(people) == 1 for people in moved)
        moves.add(tuple(people[0] for people in moved))
    # a and e share their sets with nobody and stay; b, c and d change places in both of their sets.
    assert moves == {("a", *order, "e") for order in itertools.permutations("bcd")}


def test_faces_without_a_set_and_faces_of_other_parts_stay_in_place():
    corpus = matched(["xyxy", "xyxy", "xy"])
    frame = corpus.frame.assign(set=corpus.frame["set"].where(corpus.frame["set"] != "s002", None))
    exchange = build_exchange(build_table("faces", frame, "t"), 0)
    stay = frame["set"].isna().to_numpy()
    permutations = exchange.draw_permutations(30)
    assert (permutations[:, stay] == np.flatnonzero(stay)).all()
    parts = np.where(frame["set"] == "s000", 0, 1 + np.arange(len(frame)) % 2)
    permutations = exchange.restrict([parts]).draw_permutations(30)
    assert (parts[permutations] == parts).all()
    assert (permutations[:, parts == 0] == np.flatnonzero(parts == 0)).all()


@pytest.mark.parametrize(
    ("sets", "is_refused"),
    [
        (["xx", "yy"] * 40, True),
        (["xx"] * 41 + ["xy"] * 40, True),
        (["xx"] * 40 + ["xy"] * 40, False),
        (["x"] * 81 + ["xy"] * 40, True),
        (["x"] * 80 + ["xy"] * 40, False),
    ],
)
def test_sets_of_a_single_group_are_refused(sets, is_refused):
    reason = build_exchange(matched(sets), 0).explain_refusal("x")
    assert reason == ("less than half of the faces are in a set with people of other groups" * is_refused)


def test_an_empty_column_of_sets_is_as_none():
    frame = matched(["x"] * 8 + ["y"] * 8).frame
    empty, without = (
        build_exchange(build_table("faces", each, "t"), 0)
        for each in (frame.assign(set=None), frame.drop(columns="set"))
    )
    assert empty.explain_refusal("x") == ""
    assert (empty.draw_permutations(20) == without.draw_permutations(20)).all()


@pytest.mark.parametrize(("effect", "low", "high"), [(0.0, 0.02, 0.085), (0.5, 0.9, 1.0)])
def test_level_and_power_where_scenes_differ_and_go_with_the_group(effect, low, high):
    """Draw worlds in which the scene decides the score, and sets with more of x are of brighter scenes."""
    rng = np.random.default_rng(5)
    compositions = ["xxxy", "xxyy", "xyyy"]
    corpus = matched([compositions[number % 3] for number in range(90)])
    frame, n_draws, n_worlds = corpus.frame, 199, 400
    scene, names = pd.factorize(frame["set"], sort=True)
    share = frame["group"].eq("x").groupby(scene).mean().to_numpy()
    is_x = frame["group"].eq("x").to_numpy()
    # Heavy-tailed scenes, whose spread differs; noise of faces is skewed.
    scenes = 5 * share[:, None] + rng.standard_t(3, (len(names), n_worlds)) * (1 + share[:, None])
    scores = scenes[scene] + rng.exponential(size=(len(frame), n_worlds)) + effect * is_x[:, None]

    def share_of_small_p(exchange):
        labels = is_x[exchange.draw_permutations(n_draws)].astype(float)
        centre = np.mean(labels, axis=0, keepdims=True)  # the expectation under the null
        offset = (centre / centre.sum() - (1 - centre) / (1 - centre).sum()) @ scores
        nulls = np.abs(compare_means(labels, scores) - offset)
        observed = np.abs(compare_means(is_x[None].astype(float), scores) - offset)
        return float(((1 + (nulls >= observed).sum(axis=0)) / (1 + n_draws) <= 0.05).mean())

    assert low <= share_of_small_p(build_exchange(corpus, 1)) <= high
    if not effect:  # the same worlds, with faces exchanged freely: the scene is taken for the group
        free = build_exchange(build_table("faces", frame.drop(columns="set"), "t"), 1)
        assert share_of_small_p(free) > 0.3


def compare_means(labels, scores):
    """Return mean scores of x minus those of y, [draws, worlds]."""
    weights = labels / labels.sum(axis=1, keepdims=True)
    return (weights - (1 - labels) / (1 - labels).sum(axis=1, keepdims=True)) @ scores
