"""What is looked at block by block, against brute force over Python floats."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from src.configs import ProtocolConfig
from src.metrics import sc_eat, similarity
from src.studies.propagation import similarity_blocks as rooms
from src.studies.propagation.attributes import Pool
from src.studies.propagation.sc_eat import SC_EAT
from src.studies.propagation.scores import Scores
from src.studies.propagation.similarity_blocks import looks
from src.studies.propagation.top_k import TopK

WIDTH = 3


def vectors(rng, count, several):
    """Of few directions, some of them several times: ties are the rule."""
    found = rng.integers(-1, 2, (count, 2 if several else 1, WIDTH)).astype(np.float32)
    found[(found == 0).all(axis=-1)] = 1
    found *= rng.uniform(1, 1 + 1e-7, (count, found.shape[1], 1)).astype(np.float32)
    return torch.from_numpy(found if several else found[:, 0])


def cosine(x, y):
    dot, lengths = math.fsum(a * b for a, b in zip(x, y, strict=True)), math.hypot(*x) * math.hypot(*y)
    return round(dot / lengths, 12)


def cosines(targets, corpus):
    """[N][M]: the largest over an image's vectors."""
    x, y = (side.reshape(len(side), -1, WIDTH).tolist() for side in (targets, corpus))
    return [[max(cosine(p, q) for p in target for q in item) for item in y] for target in x]


def pools_of(rng, count, held_out):
    """Two pools that interleave, of two contents that share B."""
    found = []
    for start in (0, 1):
        rows = np.arange(start, count, 2)
        a, other, b = (rng.permutation(len(rows))[: len(rows) // 2] for _ in range(3))
        kept = np.sort(rng.permutation(len(rows))[1:]) if held_out else None
        outcomes = rng.uniform(size=(len(rows), 2))
        found.append(
            Pool(rows, None, [a, other], [b, b], outcomes, int(rng.integers(1, len(rows) - 1)), kept)
        )
    return found


def scores_of(targets, corpus, pools):
    retrieved = TopK(pools, np.empty(0, int), np.empty((0, 1), int))
    return Scores(targets, corpus, pools, SC_EAT, retrieved, ProtocolConfig(ddof=1))


@pytest.mark.parametrize("several", ["targets", "corpus", "neither"])
@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    block=st.sampled_from([1, 30, 2**20]),
    held_out=st.booleans(),
    tile=st.sampled_from([None, 1, 5, 2**20]),
)
def test_both_scores_are_those_of_brute_force(several, seed, block, held_out, tile):
    rng = np.random.default_rng(seed)
    targets, corpus = vectors(rng, 7, several == "targets"), vectors(rng, 24, several == "corpus")
    pools = pools_of(rng, len(corpus), held_out)
    scores, seen = scores_of(targets, corpus, pools), [[[]] * len(targets) for _ in pools]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rooms, "BLOCK", block)
        # Three or so targets a walk.
        patch.setattr(rooms, "NEAREST", 16 * 3 * pools[0].k)
        if tile:
            patch.setattr(rooms, "ITEMS", tile)
        for look in looks(targets, corpus, pools, every=tile is None, held=0):
            assert (look.near is None) == (tile is not None)
            scores.see(look)
            seen[look.number][look.block] = look.nearest.tolist()

    near = cosines(targets, corpus)
    intrinsic, extrinsic = np.zeros((7, 2)), np.zeros((7, 2))
    for pool, found in zip(pools, seen, strict=True):
        own = [[row[item] for item in pool.rows] for row in near]
        kept = range(len(pool.rows)) if pool.retrievable is None else pool.retrievable.tolist()
        best = [sorted(kept, key=lambda i, row=row: (-row[i], i))[: pool.k] for row in own]
        assert found == [sorted(row) for row in best]
        table = torch.tensor(own, dtype=torch.float64)
        for content in range(2):
            intrinsic[:, content] += sc_eat(table[:, pool.a[content]], table[:, pool.b[content]]).numpy() / 2
        extrinsic += pool.outcomes[np.array(found)].mean(axis=1) / 2
    assert scores.intrinsic == pytest.approx(intrinsic, rel=1e-10, abs=1e-12, nan_ok=True)
    assert scores.extrinsic == pytest.approx(extrinsic, rel=1e-12)


def test_each_b_has_its_contents():
    rng = np.random.default_rng(0)
    targets, corpus = vectors(rng, 5, False), vectors(rng, 12, False)
    a, b = [np.array([0, 1, 2]), np.array([3, 4])], [np.array([5, 6]), np.array([7, 8, 9])]
    outcomes = np.zeros((12, 2))
    pools = [Pool(np.arange(12), None, a, b, outcomes, 3)]
    scores = scores_of(targets, corpus, pools)
    (look,) = looks(targets, corpus, pools)
    scores.see(look)
    expected = [sc_eat(look.near[:, one], look.near[:, other]) for one, other in zip(a, b, strict=True)]
    assert scores.intrinsic == pytest.approx(torch.stack(expected, dim=1).numpy(), rel=1e-10, nan_ok=True)


def _seen(*asked, **how):
    pools = asked[2]
    scores, nearest = scores_of(*asked), [[] for _ in pools]
    for look in looks(*asked, **how):
        scores.see(look)
        nearest[look.number].append(look.nearest)
    return scores, [torch.cat(found) for found in nearest]


@pytest.mark.parametrize("items", [40, 700, 2**14])
def test_a_pool_that_is_walked_is_what_it_is_where_it_is_held(items, monkeypatch):
    rng = np.random.default_rng(3)
    targets = torch.from_numpy(rng.normal(size=(50, 16)).astype(np.float32))
    corpus = torch.from_numpy(rng.normal(size=(3000, 16)).astype(np.float32))
    corpus[rng.permutation(3000)[:900]] = corpus[:30].repeat(30, 1)
    pools = pools_of(rng, 3000, True)
    held, expected = _seen(targets, corpus, pools)
    monkeypatch.setattr(rooms, "ITEMS", items)
    walked, found = _seen(targets, corpus, pools, every=False, held=0)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
    assert walked.extrinsic.tobytes() == held.extrinsic.tobytes()
    assert walked.intrinsic == pytest.approx(held.intrinsic, rel=1e-9)


@pytest.mark.parametrize(("every", "held"), [(True, 0), (False, 12 * WIDTH * 8), (False, 12 * WIDTH * 8 - 1)])
def test_a_pool_is_walked_where_it_is_too_large_and_not_all_is_asked_for(every, held, monkeypatch):
    rng, walks = np.random.default_rng(0), []
    monkeypatch.setattr(rooms, "_walked", lambda *given, own=rooms._walked: walks.append(1) or own(*given))
    pools = pools_of(rng, 24, False)
    near = [look.near for look in looks(vectors(rng, 5, False), vectors(rng, 24, False), pools, every, held)]
    assert len(walks) == 2 * (not every and held < 12 * WIDTH * 8)
    assert [one is not None for one in near] == [every] * 2


@pytest.mark.parametrize(("several", "share"), [("corpus", 0.5), ("corpus", 0.1), ("neither", 0.5)])
def test_similarities_are_computed_once(several, share):
    rng = np.random.default_rng(0)
    targets, corpus = vectors(rng, 5, False), vectors(rng, 100, several == "corpus")
    half = int(50 * share)
    sets = np.arange(half), np.arange(half, 2 * half)
    pool = Pool(np.arange(100), None, [sets[0]], [sets[1]], np.zeros((100, 1)), 3)
    (look,) = looks(targets, corpus, [pool], every=False)
    # An image's several vectors have no mean to be met by: most of its similarities are needed, or few.
    assert (look.near is not None) == (several == "corpus" and share == 0.5)


def test_what_hardly_deviates_has_the_effect_size_of_its_similarities():
    rng = np.random.default_rng(0)
    corpus = torch.from_numpy(rng.normal(size=(40, 4)))
    corpus[:, 0] = 0
    # All cosines 0; of 1e-5; of any size.
    targets = torch.from_numpy(np.stack([[1, 0, 0, 0], [1, 1e-5, 1e-5, 0], *rng.normal(size=(3, 4))]))
    pools = [Pool(np.arange(40), None, [np.arange(15)], [np.arange(10, 40)], np.zeros((40, 1)), 3)]
    scores, _ = _seen(targets, corpus, pools, every=False)
    expected = sc_eat(similarity(targets, corpus[:15]), similarity(targets, corpus[10:]))
    assert math.isnan(scores.intrinsic[0, 0])
    assert scores.intrinsic[1, 0] == pytest.approx(expected[1].item(), rel=1e-12)
    assert scores.intrinsic[2:, 0] == pytest.approx(expected[2:].numpy(), rel=0, abs=2e-12)
