"""Check members, sizes and minimum corpora of the attribute sets A and B."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.configs import ProtocolConfig
from src.errors import NotApplicable
from src.stimuli import build_table
from src.stimuli.loaders import fill_templates
from src.studies.propagation.attributes import corpus_of
from src.studies.propagation.top_k import TOP_K
from tests.studies.propagation.world import World, clusters_of

PROTOCOL = ProtocolConfig(k=1, extremes=3, set_size=840, ddof=1)


def faces(*sizes):
    groups = [f"g{i}" for i, size in enumerate(sizes) for _ in range(size)]
    ids = [f"f{i:04d}" for i in range(len(groups))]
    return build_table("faces", pd.DataFrame({"id": ids, "group": groups}), "t")


def labels(per_group, groups=6):
    items = [{"word": f"r{g} w{i}", "group": f"g{g}"} for g in range(groups) for i in range(per_group)]
    return build_table("labels", fill_templates(pd.DataFrame(items), [f"{t} {{}}" for t in "abcdef"]), "t")


def words(count):
    items = pd.DataFrame({"word": [f"w{i}" for i in range(count)]})
    items["valence"] = np.random.default_rng(0).integers(0, 4, count) / 4  # ties
    return build_table("words", fill_templates(items, ["the {}", "a {}"]), "t")


# 144 phrases x 6 templates = 864 sentences per group; 1,000 faces per group.
@pytest.mark.parametrize("corpus", [labels(144), faces(*[1000] * 6)], ids=["labels", "faces"])
def test_sets_have_the_sizes_of_the_paper(corpus):
    (pool,) = corpus_of(corpus, PROTOCOL, seed=0).pools
    assert [len(a) for a in pool.a] == [840] * 6
    groups = corpus.frame["group"].to_numpy()
    for index, (a, b) in enumerate(zip(pool.a, pool.b, strict=True)):
        assert set(groups[a]) == {f"g{index}"}
        assert pd.Series(groups[b]).value_counts().tolist() == [140] * 6
        assert bool(set(a) & set(b)) is (corpus.role == "labels")


@given(sizes=st.lists(st.integers(1, 60), min_size=2, max_size=6), limit=st.integers(1, 70))
def test_sets_are_as_large_as_the_smallest_group_allows(sizes, limit):
    groups, protocol = len(sizes), replace(PROTOCOL, set_size=limit)
    allowed = [n for n in range(groups, limit + 1, groups) if n + n // groups <= min(sizes)]
    if not allowed:
        blamed = r"the smallest of \d groups has"
        if limit < groups:
            blamed = f"protocol.set_size={limit}: expected at least {groups}, the number of groups of faces"
        with pytest.raises(NotApplicable, match=blamed):
            corpus_of(faces(*sizes), protocol, seed=0)
        return
    (pool,) = corpus_of(faces(*sizes), protocol, seed=0).pools
    assert [len(a) for a in pool.a] == [max(allowed)] * groups
    assert all(not set(a) & set(b) for a, b in zip(pool.a, pool.b, strict=True))


def test_extremes_are_ordered_by_valence_then_word_in_each_template():
    corpus = words(20)
    pools = corpus_of(corpus, PROTOCOL, seed=0).pools
    assert [pool.template for pool in pools] == ["a {}", "the {}"]
    items = corpus.frame.drop_duplicates("word")[["valence", "word"]]
    order = [word for _, word in sorted(items.itertuples(index=False, name=None))]
    for pool in pools:
        names = corpus.frame["word"].to_numpy()[pool.rows]
        assert names[pool.b[0]].tolist() == order[:3]
        assert names[pool.a[0]].tolist() == order[-3:]


def test_extremes_are_halved():
    corpus = corpus_of(words(40), replace(PROTOCOL, extremes=7), seed=0)
    splits = [corpus.redraw(split) for split in (1, 1, 2)]
    first_a = [split[0][0][0][0].tolist() for split in splits]
    assert first_a[0] == first_a[1] != first_a[2]
    names, words_of_pool = corpus.table.frame["word"].to_numpy(), []
    for number, pool in enumerate(corpus.pools):
        halves = [half[number] for half in splits[0]]
        for place, (members,) in enumerate((pool.a, pool.b)):
            sets = [half[place][0].tolist() for half in halves]
            assert [len(positions) for positions in sets] == [3, 4]
            assert sorted(sets[0] + sets[1]) == sorted(members)
        words_of_pool.append([names[pool.rows[half[0][0]]].tolist() for half in halves])
    # The same words in each template.
    assert words_of_pool[0] == words_of_pool[1]


@pytest.mark.parametrize(
    ("role", "attributes"), [("faces", "corpus"), ("faces", "held_out"), ("labels", "corpus")]
)
def test_sets_of_groups_from_halves_share_no_cluster(role, attributes):
    table = World(faces_per_group=40).tables[role]
    corpus = corpus_of(table, replace(PROTOCOL, set_size=12, attributes=attributes, k=4), seed=0)
    groups = table.frame["group"].to_numpy()
    names = table.frame["word" if role == "labels" else "id"].to_numpy()
    halves, used = corpus.redraw(1), []
    assert len(halves) == 2
    for ((a, b),) in halves:
        size = len(a[0])
        assert 4 <= size <= 12
        for index, group in enumerate(table.groups):
            assert len({*a[index]}) == len({*b[index]}) == size
            assert {*groups[a[index]]} == {group}
            assert [*pd.Series(groups[b[index]]).value_counts()] == [size // 4] * 4
        used.append(np.unique(np.concatenate([*a, *b])))
        assert corpus.drawable[used[-1]].all()
    for way in range(2 if role == "labels" else 1):
        first, second = ({clusters_of(names[row])[way] for row in rows} for rows in used)
        assert not first & second
    assert len(halves[0][0][0][0]) == len(halves[1][0][0][0])


def test_small_corpora_are_not_applicable():
    with pytest.raises(NotApplicable, match=r"at least 6 words .*extremes=3 .*, got 5.*=2 or less"):
        corpus_of(words(5), PROTOCOL, seed=0)
    with pytest.raises(NotApplicable, match="faces: expected at least two groups, got one"):
        corpus_of(faces(20), PROTOCOL, seed=0)


@pytest.mark.parametrize(("corpus", "size"), [(words(20), 20), (faces(10, 10), 20), (labels(3, 2), 36)])
def test_k_must_be_smaller_than_the_pool(corpus, size):
    TOP_K.check(corpus_of(corpus, replace(PROTOCOL, k=size - 1), seed=0))
    with pytest.raises(NotApplicable, match=rf"protocol.k={size} of {size} {corpus.role}"):
        TOP_K.check(corpus_of(corpus, replace(PROTOCOL, k=size), seed=0))


HELD_OUT = replace(PROTOCOL, attributes="held_out", k=10)


@pytest.mark.parametrize("role", ["words", "scenes"])
def test_clusters_with_an_extreme_are_not_retrieved(role):
    table = World().tables[role]
    corpus = corpus_of(table, HELD_OUT, seed=0)
    names = table.frame["word" if role == "words" else "id"].to_numpy()
    parts = {}
    for pool in corpus.pools:
        sets = {clusters_of(name) for name in names[pool.rows[[*pool.a[0], *pool.b[0]]]]}
        expected = [position for position, row in enumerate(pool.rows) if clusters_of(names[row]) not in sets]
        assert pool.retrievable.tolist() == expected
        assert len(expected) < len(pool.rows) - 6  # more than the six extremes leave
        parts |= {names[row]: clusters_of(names[row]) not in sets for row in pool.rows}
    # Only what is retrieved is exchanged.
    for permutation in corpus.exchange.draw_permutations(5):
        for name, place in zip(corpus.exchange.names, corpus.exchange.names[permutation], strict=True):
            assert parts[place] if parts[name] else place == name


@pytest.mark.parametrize("role", ["faces", "labels"])
def test_clusters_of_a_group_are_halved(role):
    table = World().tables[role]
    corpus = corpus_of(table, HELD_OUT, seed=0)
    exchange, (pool,) = corpus.exchange, corpus.pools
    names = table.frame["word" if role == "labels" else "id"].to_numpy()
    groups = table.frame["group"].to_numpy()
    halves = np.flatnonzero(corpus.drawable), pool.retrievable
    assert {*pool.attributes} <= {*halves[0]}
    assert pool.k == 5
    for way in range(2 if role == "labels" else 1):
        for group in table.groups:
            first, second = (
                {clusters_of(names[row])[way] for row in half if groups[row] == group} for half in halves
            )
            assert not first & second
            everything = {clusters_of(name)[way] for name in names[groups == group]}
            # The larger half is retrieved from.
            assert (len(first), len(second)) == (len(everything) // 2, (len(everything) + 1) // 2)
    # Phrases of a race word of one half and a gender word of the other are in neither.
    used = sum(map(len, halves)) / len(names)
    assert used == 1 if role == "faces" else 0.4 < used < 0.65
    for permutation in exchange.draw_permutations(3):
        for half in halves:
            assert {*exchange.permute_rows(half, permutation[None])[0]} == {*half}


def test_linked_morphs_are_halved_by_parents():
    pairs = [(f"{g}{i}", f"{g}{j}") for g in "gh" for i in range(9) for j in range(i)]
    frame = pd.DataFrame(pairs, columns=["parent_a", "parent_b"])
    frame = frame.assign(id=["~".join(pair) for pair in pairs], group=frame["parent_a"].str[0])
    table = build_table("faces", frame, "t")
    corpus = corpus_of(table, replace(HELD_OUT, set_size=4), seed=0)
    (pool,) = corpus.pools
    first, second = (
        {*table.frame[["parent_a", "parent_b"]].to_numpy()[rows].ravel()}
        for rows in (np.flatnonzero(corpus.drawable), pool.retrievable)
    )
    assert not first & second
    assert (len(first), len(second)) == (8, 10)  # 4 and 5 parents of each group
    # Morphs of parents in different halves are in neither.
    assert (corpus.drawable.sum(), len(pool.retrievable)) == (2 * 6, 2 * 10)
    assert corpus.exchange.explain_refusal("g") == "fewer than 1,000 placements"
