"""Top-k against a stable sort, outcomes against loops."""

import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from src.metrics import cosines, mean_outcome, nearer, retrieved, similarity, top_k

# Few distinct values, so that ties are the rule.
tied = arrays(
    np.float32,
    array_shapes(min_dims=2, max_dims=2, max_side=12),
    elements=st.sampled_from([-1.0, 0.0, 0.25, 1.0]),
)


def brute_force(row: list[float], k: int) -> list[int]:
    return sorted(range(len(row)), key=lambda position: (-row[position], position))[:k]


@given(values=tied, data=st.data())
def test_top_k_breaks_ties_by_position(values, data):
    k = data.draw(st.integers(1, values.shape[1]))
    found = top_k(torch.from_numpy(values), k)
    assert found.tolist() == [brute_force(row, k) for row in values.tolist()]


@given(values=tied, data=st.data())
def test_what_is_retrieved_is_the_top_k_in_order_of_position(values, data):
    k = data.draw(st.integers(1, values.shape[1]))
    found = retrieved(torch.from_numpy(values), k)
    assert found.tolist() == [sorted(brute_force(row, k)) for row in values.tolist()]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_top_k_of_many_is_a_stable_sort(dtype):
    values = torch.rand(64, 3000, generator=torch.Generator().manual_seed(0), dtype=dtype)
    values = (values * 5000).round() / 5000
    expected = np.argsort(-values.numpy(), axis=1, kind="stable")[:, :500]
    assert (top_k(values, 500).numpy() == expected).all()


@pytest.mark.parametrize("threads", [1, 3, 80])
def test_top_k_does_not_depend_on_the_number_of_cores(threads, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    values = torch.rand(50, 200, generator=torch.Generator().manual_seed(2)).mul(20).round()
    assert top_k(values, 17).tolist() == [brute_force(row, 17) for row in values.tolist()]


@pytest.mark.parametrize("block", [1, 3, 7, 50])
def test_top_k_does_not_depend_on_the_block_size(block):
    values = torch.rand(50, 200, generator=torch.Generator().manual_seed(1)).mul(20).round()
    parts = torch.cat([top_k(part, 17) for part in values.split(block)])
    assert torch.equal(parts, top_k(values, 17))


@given(values=tied, data=st.data())
def test_what_is_retrieved_does_not_depend_on_the_tiles_in_which_a_corpus_is_seen(values, data):
    k, size = (data.draw(st.integers(1, values.shape[1])) for _ in "kt")
    whole = torch.from_numpy(values)
    found = whole[:, :0], torch.empty(len(whole), 0, dtype=torch.int64)
    for tile in torch.arange(whole.shape[1]).split(size):
        found = nearer(*found, whole[:, tile], tile, k)
    assert found[1].tolist() == [sorted(brute_force(row, k)) for row in values.tolist()]
    assert torch.equal(found[1], retrieved(whole, k))
    assert torch.equal(found[0], whole.gather(1, found[1]))


@pytest.mark.parametrize("k", [0, 6])
def test_top_k_out_of_range_is_refused(k):
    with pytest.raises(ValueError, match=rf"k={k} of a corpus of 5 items: from 1 to 5"):
        top_k(torch.zeros(2, 5), k)


@given(values=tied, data=st.data())
def test_mean_outcome_is_the_loop(values, data):
    _n, m = values.shape
    k = data.draw(st.integers(1, m))
    outcomes = np.random.default_rng(m).uniform(size=(m, 3))
    found = mean_outcome(top_k(torch.from_numpy(values), k), torch.from_numpy(outcomes))
    expected = [outcomes[brute_force(row, k)].mean(axis=0) for row in values.tolist()]
    assert found.numpy() == pytest.approx(np.array(expected), rel=1e-12)


@given(values=tied, data=st.data())
def test_shares_sum_to_one_over_groups(values, data):
    k = data.draw(st.integers(1, values.shape[1]))
    member = torch.nn.functional.one_hot(torch.arange(values.shape[1]) % 4, 4)
    shares = mean_outcome(top_k(torch.from_numpy(values), k), member)
    assert torch.allclose(shares.sum(dim=1), torch.ones(len(values), dtype=torch.float64))


def unit(rng, *shape):
    vectors = rng.normal(size=shape)
    return torch.from_numpy(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))


def test_similarity_is_the_cosine():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(4, 6)), rng.normal(size=(5, 6))
    expected = [[a @ b / np.linalg.norm(a) / np.linalg.norm(b) for b in y] for a in x]
    assert similarity(torch.from_numpy(x), torch.from_numpy(y)).numpy() == pytest.approx(np.array(expected))


def test_of_several_vectors_the_most_similar_counts():
    rng = np.random.default_rng(0)
    images, texts = unit(rng, 4, 3, 6), unit(rng, 5, 6)
    expected = np.array([[max(float(q @ text) for q in image) for text in texts] for image in images])
    assert similarity(images, texts).numpy() == pytest.approx(expected)
    assert similarity(texts, images).numpy() == pytest.approx(expected.T)


@pytest.mark.parametrize("tile", [1, 20, 2**20])
def test_similarity_does_not_depend_on_the_tile(tile, monkeypatch):
    monkeypatch.setattr(sys.modules["src.metrics.similarity"], "TILE", tile)
    rng = np.random.default_rng(0)
    texts, images = unit(rng, 4, 6), unit(rng, 7, 3, 6)
    single = torch.stack([cosines(texts, images[:, q]) for q in range(3)])
    assert torch.equal(cosines(texts, images), single.amax(dim=0))


def test_similarity_leaves_the_vectors_as_they_are():
    vectors = torch.tensor([[3.0, 4.0]], dtype=torch.float64)
    similarity(vectors, vectors)
    assert vectors.tolist() == [[3.0, 4.0]]


def test_similarity_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match="one side must be texts"):
        similarity(torch.zeros(2, 3, 4), torch.zeros(2, 3, 4))
    with pytest.raises(ValueError, match="width 4 meet vectors of 5"):
        similarity(torch.zeros(2, 4), torch.zeros(2, 5))
