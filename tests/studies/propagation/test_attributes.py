"""Attribute sets A and B: who is drawn, how many, and when a corpus is too small."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.configs import ProtocolConfig
from src.errors import NotApplicable
from src.stimuli import checked
from src.stimuli.texts import in_templates
from src.studies.propagation.attributes import corpus_of
from src.studies.propagation.top_k import TOP_K


def pools(*arguments, **named):
    return corpus_of(*arguments, **named).pools


PROTOCOL = ProtocolConfig(k=1, extremes=3, set_size=840, ddof=1)


def protocol(**changed) -> ProtocolConfig:
    return ProtocolConfig(**{**vars(PROTOCOL), **changed})


def faces(*sizes: int):
    names = [f"g{i}" for i, size in enumerate(sizes) for _ in range(size)]
    return checked(
        "faces", pd.DataFrame({"id": [f"f{i:04d}" for i in range(len(names))], "group": names}), "t"
    )


def labels(per_group: int, groups: int = 6):
    items = pd.DataFrame(
        [{"word": f"r{g} w{i}", "group": f"g{g}"} for g in range(groups) for i in range(per_group)]
    )
    return checked("labels", in_templates(items, [f"{t} {{}}" for t in "abcdef"]), "t")


def test_the_paper_s_sizes():
    # 144 phrases x 6 templates = 864 sentences per group; 1,000 faces per group.
    for corpus in (labels(144), faces(*[1000] * 6)):
        (pool,) = pools(corpus, PROTOCOL, seed=0)
        assert [len(a) for a in pool.a] == [840] * 6
        own = corpus.frame["group"].to_numpy()
        for index, (a, b) in enumerate(zip(pool.a, pool.b, strict=True)):
            assert set(own[a]) == {f"g{index}"}
            assert pd.Series(own[b]).value_counts().tolist() == [140] * 6
            assert bool(set(a) & set(b)) is (corpus.role == "labels")


@given(sizes=st.lists(st.integers(1, 60), min_size=2, max_size=6), most=st.integers(1, 70))
def test_n_is_the_largest_that_the_rule_allows(sizes, most):
    groups = len(sizes)
    allowed = [
        n for n in range(groups, most + 1, groups) if n <= min(sizes) and n + n // groups <= min(sizes)
    ]
    if not allowed:
        with pytest.raises(NotApplicable, match=r"the smallest of \d groups has"):
            pools(faces(*sizes), protocol(set_size=most), seed=0)
        return
    (pool,) = pools(faces(*sizes), protocol(set_size=most), seed=0)
    assert [len(a) for a in pool.a] == [max(allowed)] * groups
    assert all(not set(a) & set(b) for a, b in zip(pool.a, pool.b, strict=True))


def test_the_draw_is_the_stated_one():
    corpus = faces(10, 12)
    (pool,) = pools(corpus, PROTOCOL, seed=7)
    ids = corpus.frame["id"].to_numpy()
    for index, a in enumerate(pool.a):
        own = sorted(corpus.frame["id"][corpus.frame["group"] == f"g{index}"])
        permuted = np.random.default_rng([7, index]).permutation(own)
        assert ids[a].tolist() == permuted[: len(a)].tolist()
        assert set(permuted[-len(a) // 2 :]) <= set(ids[pool.b[index]])


def words(count: int):
    rng = np.random.default_rng(0)
    items = pd.DataFrame({"word": [f"w{i}" for i in range(count)]})
    items["valence"] = rng.integers(0, 4, count) / 4  # ties
    return checked("words", in_templates(items, ["the {}", "a {}"]), "t")


def test_extremes_are_ordered_by_valence_then_word_and_alike_in_each_template():
    corpus = words(20)
    found = pools(corpus, PROTOCOL, seed=0)
    assert [pool.template for pool in found] == ["a {}", "the {}"]
    items = corpus.frame.drop_duplicates("word")[["valence", "word"]]
    order = [word for _, word in sorted(items.itertuples(index=False, name=None))]
    for pool in found:
        names = corpus.frame["word"].to_numpy()[pool.rows]
        assert names[pool.b[0]].tolist() == order[:3]
        assert names[pool.a[0]].tolist() == order[-3:]


def test_too_few_items_for_the_extremes():
    with pytest.raises(NotApplicable, match=r"words: 5 items, 6 are needed.*protocol.extremes=2 or less"):
        pools(words(5), PROTOCOL, seed=0)


@pytest.mark.parametrize(("corpus", "size"), [(words(20), 20), (faces(10, 10), 20), (labels(3, 2), 36)])
def test_k_must_leave_something_out(corpus, size):
    TOP_K.check(corpus_of(corpus, protocol(k=size - 1), seed=0))
    with pytest.raises(NotApplicable, match=rf"protocol.k={size} of {size} {corpus.role}"):
        TOP_K.check(corpus_of(corpus, protocol(k=size), seed=0))


def test_one_group_is_no_comparison():
    with pytest.raises(NotApplicable, match="one group only, two are needed"):
        pools(faces(20), PROTOCOL, seed=0)
