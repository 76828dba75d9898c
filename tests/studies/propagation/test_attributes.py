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
        with pytest.raises(NotApplicable, match=r"the smallest of \d groups has"):
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


def test_other_draws_of_valence_are_halves_of_the_sets():
    corpus = corpus_of(words(40), replace(PROTOCOL, extremes=7), seed=0)
    draws = [corpus.redraw(draw) for draw in (1, 1, 2)]
    assert all(np.array_equal(*sets) for sets in zip(draws[0][0][0], draws[1][0][0], strict=True))
    assert not np.array_equal(draws[0][0][0][0], draws[2][0][0][0])
    frame, first_words = corpus.table.frame, []
    for pool, (a, b) in zip(corpus.pools, draws[0], strict=True):
        for half, (members,) in zip((a, b), (pool.a, pool.b), strict=True):
            assert (len(half[0]), len({*half[0]} & {*members})) == (3, 3)
        first_words.append(frame["word"].iloc[pool.rows[a[0]]].tolist())
    # The same words in each template.
    assert first_words[0] == first_words[1]


@pytest.mark.parametrize("role", ["faces", "labels"])
def test_other_draws_of_groups_are_sets_of_the_same_sizes(role):
    table = faces(30, 25) if role == "faces" else labels(5, groups=3)
    corpus = corpus_of(table, replace(PROTOCOL, set_size=12), seed=0)
    groups = table.frame["group"].to_numpy()
    (pool,), ((a, b),) = corpus.pools, corpus.redraw(1)
    for index, group in enumerate(table.groups):
        for drawn, members in ((a[index], pool.a[index]), (b[index], pool.b[index])):
            assert len(drawn) == len(members) == len({*drawn})
            assert not np.array_equal(np.sort(drawn), np.sort(members))
        assert {*groups[a[index]]} == {group}
        assert len({*pd.Series(groups[b[index]]).value_counts()}) == 1


def test_small_corpora_are_not_applicable():
    with pytest.raises(NotApplicable, match=r"words: .*extremes=3 .* needs 6 items, got 5.*=2 or less"):
        corpus_of(words(5), PROTOCOL, seed=0)
    with pytest.raises(NotApplicable, match="faces: expected two groups or more, got one"):
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
    for permutation in corpus.exchange.permutations(5):
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
    for permutation in exchange.permutations(3):
        for half in halves:
            assert {*exchange.permuted_rows(half, permutation[None])[0]} == {*half}


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
    assert corpus.exchange.refusal("g") == "fewer than 1,000 placements"
