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
