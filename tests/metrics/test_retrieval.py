"""Check top-k against a stable sort, outcomes and similarities against loops."""

import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from src.metrics import cosines, mean_outcome, merge_tile, retrieve, retrieve_screened, similarity, top_k

# Few distinct values, so that ties are frequent.
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
    result = top_k(torch.from_numpy(values), k)
    assert result.tolist() == [brute_force(row, k) for row in values.tolist()]


@pytest.mark.parametrize("threads", [1, 3, 80])
def test_top_k_does_not_depend_on_the_number_of_cores(threads, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(sys.modules["src.metrics.retrieval"], "MIN_THREADED", 1)
    values = torch.rand(50, 200, generator=torch.Generator().manual_seed(2)).mul(20).round()
    assert top_k(values, 17).tolist() == [brute_force(row, 17) for row in values.tolist()]


@given(values=tied, data=st.data())
def test_retrieval_does_not_depend_on_tiles_of_the_corpus(values, data):
    k, tile_size = (data.draw(st.integers(1, values.shape[1])) for _ in "kt")
    similarities = torch.from_numpy(values)
    result = similarities[:, :0], torch.empty(len(similarities), 0, dtype=torch.int64)
    for tile in torch.arange(similarities.shape[1]).split(tile_size):
        result = merge_tile(*result, similarities[:, tile], tile, k)
    assert result[1].tolist() == [sorted(brute_force(row, k)) for row in values.tolist()]
    assert torch.equal(result[1], retrieve(similarities, k))
    assert torch.equal(result[0], similarities.gather(1, result[1]))


def draw_close(rng, count, width, *per_item):
    """Draw unit vectors; many are equal or differ by less than the rounding of float32."""
    vectors = rng.normal(size=(count, *per_item, width))
    originals = rng.integers(0, count, count)
    distances = rng.choice([0, 1e-12, 1e-9, 1e-7, 1e-5, 1], size=(count, *[1] * len(per_item), 1))
    vectors = vectors[originals] + distances * rng.normal(size=vectors.shape)
    return torch.nn.functional.normalize(torch.from_numpy(vectors), dim=-1)


@given(seed=st.integers(0, 2**32), data=st.data())
def test_screening_in_float32_gives_the_result_of_float64(seed, data):
    rng = np.random.default_rng(seed)
    multiple, width = data.draw(st.sampled_from(["", "x", "y"])), data.draw(st.integers(1, 40))
    sizes = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 150))
    x, y = (draw_close(rng, n, width, *[3] * (side == multiple)) for side, n in zip("xy", sizes, strict=True))
    k = data.draw(st.integers(1, len(y)))
    assert torch.equal(retrieve_screened(x, y, y.float(), k), retrieve(cosines(x, y), k))


def test_errors_of_float32_are_within_the_bound():
    rng = np.random.default_rng(0)
    for width in (2, 7, 512, 3000):
        # All values are positive: errors add up instead of cancelling.
        x, y = (torch.from_numpy(np.abs(rng.normal(size=(40, width)))) for _ in "xy")
        x, y = (torch.nn.functional.normalize(vectors, dim=-1) for vectors in (x, y))
        error = (x.float() @ y.float().T).double() - x @ y.T
        assert 0 < error.abs().max() < (width + 8) * 2.0**-24


@pytest.mark.parametrize("k", [0, 6])
def test_k_out_of_range_is_refused(k):
    vectors = torch.zeros(2, 3), torch.zeros(5, 3), torch.zeros(5, 3)
    for function, *arguments in ((retrieve_screened, *vectors), (top_k, torch.zeros(2, 5))):
        with pytest.raises(ValueError, match=rf"k={k} of a corpus of 5 items: from 1 to 5"):
            function(*arguments, k)


@given(values=tied, data=st.data())
def test_mean_outcome_is_the_loop(values, data):
    m = values.shape[1]
    k = data.draw(st.integers(1, m))
    outcomes = np.random.default_rng(m).uniform(size=(m, 3))
    result = mean_outcome(top_k(torch.from_numpy(values), k), torch.from_numpy(outcomes))
    expected = [outcomes[brute_force(row, k)].mean(axis=0) for row in values.tolist()]
    assert result.numpy() == pytest.approx(np.array(expected), rel=1e-12)


def draw_unit_vectors(rng, *shape):
    vectors = rng.normal(size=shape)
    return torch.from_numpy(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))


def test_similarity_is_the_largest_cosine_and_leaves_its_inputs_unchanged():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(4, 6)), rng.normal(size=(5, 6))
    before = x.copy()
    expected = [[a @ b / np.linalg.norm(a) / np.linalg.norm(b) for b in y] for a in x]
    assert similarity(torch.from_numpy(x), torch.from_numpy(y)).numpy() == pytest.approx(np.array(expected))
    assert (x == before).all()
    images, texts = draw_unit_vectors(rng, 4, 3, 6), draw_unit_vectors(rng, 5, 6)
    expected = np.array([[max(float(q @ text) for q in image) for text in texts] for image in images])
    assert similarity(images, texts).numpy() == pytest.approx(expected)
    assert similarity(texts, images).numpy() == pytest.approx(expected.T)


@pytest.mark.parametrize("tile", [1, 20, 2**20])
def test_similarity_does_not_depend_on_the_tile(tile, monkeypatch):
    monkeypatch.setattr(sys.modules["src.metrics.similarity"], "TILE", tile)
    rng = np.random.default_rng(0)
    texts, images = draw_unit_vectors(rng, 4, 6), draw_unit_vectors(rng, 7, 3, 6)
    per_vector = torch.stack([cosines(texts, images[:, q]) for q in range(3)])
    assert torch.equal(cosines(texts, images), per_vector.amax(dim=0))


def test_similarity_refuses_vectors_of_wrong_shape():
    with pytest.raises(ValueError, match="both have several vectors per item"):
        similarity(torch.zeros(2, 3, 4), torch.zeros(2, 3, 4))
    with pytest.raises(ValueError, match="equal width, got 4 and 5"):
        similarity(torch.zeros(2, 4), torch.zeros(2, 5))
