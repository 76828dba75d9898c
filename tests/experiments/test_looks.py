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
@given(seed=st.integers(0, 2**32 - 1), block=st.sampled_from([1, 30, 2**20]), held_out=st.booleans())
def test_both_scores_are_those_of_brute_force(several, seed, block, held_out):
    rng = np.random.default_rng(seed)
    targets, corpus = vectors(rng, 7, several == "targets"), vectors(rng, 24, several == "corpus")
    pools = pools_of(rng, len(corpus), held_out)
    scores, seen = Scores(len(targets), pools, 1), [[[]] * len(targets) for _ in pools]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rooms, "BLOCK", block)
        for look in looks(targets, corpus, pools):
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
