"""What is looked at block by block, against brute force over Python floats."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from src.experiments import looks as rooms
from src.experiments.attributes import Pool
from src.experiments.looks import Scores, looks
from src.metrics import sc_eat

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
    scores, seen = Scores(len(targets), pools, 1), [[[]] * len(targets) for _ in pools]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rooms, "BLOCK", block)
        # Three or so targets a walk.
        patch.setattr(rooms, "NEAREST", 16 * 3 * pools[0].k)
        if tile:
            patch.setattr(rooms, "ITEMS", tile)
        for look in looks(targets, corpus, pools, every=tile is None, held=0):
            assert (look.shown is None) == (tile is None)
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
    scores = Scores(5, [Pool(np.arange(12), None, a, b, outcomes, 3)], 1)
    (look,) = looks(targets, corpus, scores._pools)
    scores.see(look)
    expected = [sc_eat(look.near[:, one], look.near[:, other]) for one, other in zip(a, b, strict=True)]
    assert scores.intrinsic == pytest.approx(torch.stack(expected, dim=1).numpy(), rel=1e-10, nan_ok=True)


def _seen(*asked, **how):
    pools = asked[2]
    scores, nearest = Scores(len(asked[0]), pools, 1), [[] for _ in pools]
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
def test_a_pool_is_walked_where_it_is_too_large_and_not_all_is_asked_for(every, held):
    rng = np.random.default_rng(0)
    pools = pools_of(rng, 24, False)
    shown = [
        look.shown for look in looks(vectors(rng, 5, False), vectors(rng, 24, False), pools, every, held)
    ]
    assert [one is not None for one in shown] == [not every and held < 12 * WIDTH * 8] * 2
