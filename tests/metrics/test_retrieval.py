"""Top-k against a stable sort, outcomes against loops."""

import sys
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from src.metrics import cosines, mean_outcome, nearer, retrieved, screened, similarity, top_k

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
    monkeypatch.setattr(sys.modules["src.metrics.partial_sort"], "SPLIT", 1)
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


@pytest.mark.parametrize("order", ["ascending", "sampled ones largest", "sampled ones smallest"])
@pytest.mark.parametrize("ties", [False, True])
def test_what_is_retrieved_of_a_long_row_does_not_hang_on_its_order(order, ties):
    # Every third is sampled.
    values = np.random.default_rng(0).random((9, 3500))
    values[:4] = np.sort(values[:4], axis=1)
    if order != "ascending":
        values[:4, ::3] += 1 if order == "sampled ones largest" else -1
    values = values.round(2) if ties else values
    expected = np.sort(np.argsort(-values, axis=1, kind="stable")[:, :100], axis=1)
    assert (retrieved(torch.from_numpy(values), 100).numpy() == expected).all()


def close(rng, count, width, *several):
    """Unit vectors of which many lie within float32's rounding of one another, or are the same."""
    found = rng.normal(size=(count, *several, width))
    near = rng.integers(0, count, count)
    apart = rng.choice([0, 1e-12, 1e-9, 1e-7, 1e-5, 1], size=(count, *[1] * len(several), 1))
    found = found[near] + apart * rng.normal(size=found.shape)
    return torch.nn.functional.normalize(torch.from_numpy(found), dim=-1)


@given(seed=st.integers(0, 2**32), data=st.data())
def test_what_float32_screens_is_what_float64_finds(seed, data):
    rng = np.random.default_rng(seed)
    of, width = data.draw(st.sampled_from(["", "x", "y"])), data.draw(st.integers(1, 40))
    sizes = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 150))
    x, y = (close(rng, n, width, *[3] * (own == of)) for own, n in zip("xy", sizes, strict=True))
    k = data.draw(st.integers(1, len(y)))
    assert torch.equal(screened(x, y, y.float(), k), retrieved(cosines(x, y), k))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("most", [0, 1])
@given(seed=st.integers(0, 2**32))
def test_what_float32_screens_does_not_depend_on_the_number_of_cores(threads, most, seed):
    rng = np.random.default_rng(seed)
    x, y = close(rng, 8, 6), close(rng, 150, 6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "get_num_threads", lambda: threads)
        patch.setattr(sys.modules["src.metrics.partial_sort"], "SPLIT", 1)
        patch.setattr(sys.modules["src.metrics.retrieval"], "MOST_UNSURE", most)
        found = screened(x, y, y.float(), 20)
    expected = np.argsort(-cosines(x, y).numpy(), axis=1, kind="stable")[:, :20]
    assert (found.numpy() == np.sort(expected, axis=1)).all()


@pytest.mark.parametrize(("spread", "computed"), [(1.0, False), (0.0, True)])
def test_only_where_most_are_unsure_all_are_computed(spread, computed, monkeypatch):
    rng, whole = np.random.default_rng(0), []
    monkeypatch.setattr(
        sys.modules["src.metrics.retrieval"], "cosines", lambda *of: whole.append(0) or cosines(*of)
    )
    x, y = (
        unit(rng, 5, 16),
        torch.nn.functional.normalize(unit(rng, 1, 16) + spread * unit(rng, 2000, 16), dim=-1),
    )
    found = screened(x, y, y.float(), 20)
    assert bool(whole) == computed
    assert torch.equal(found, retrieved(cosines(x, y), 20))


def test_few_products_are_made_in_float64(monkeypatch):
    rng, pairs = np.random.default_rng(0), []
    own = sys.modules["src.metrics.retrieval"].paired
    monkeypatch.setattr(
        sys.modules["src.metrics.retrieval"], "paired", lambda *of: pairs.append(len(of[2])) or own(*of)
    )
    x, y = unit(rng, 20, 512), unit(rng, 20_000, 512)
    screened(x, y, y.float(), 500)
    assert sum(pairs) < 20 * 20


def test_float32_is_wrong_by_no_more_than_is_allowed_for():
    rng = np.random.default_rng(0)
    for width in (2, 7, 512, 3000):
        # All of one sign: nothing cancels, and errors add up.
        x, y = (torch.from_numpy(np.abs(rng.normal(size=(40, width)))) for _ in "xy")
        x, y = (torch.nn.functional.normalize(one, dim=-1) for one in (x, y))
        wrong = (x.float() @ y.float().T).double() - x @ y.T
        assert 0 < wrong.abs().max() < (width + 8) * 2.0**-24


@pytest.mark.parametrize("k", [0, 6])
def test_what_is_screened_out_of_range_is_refused(k):
    with pytest.raises(ValueError, match=rf"k={k} of a corpus of 5 items: from 1 to 5"):
        screened(torch.zeros(2, 3), torch.zeros(5, 3), torch.zeros(5, 3), k)


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


def test_outcomes_of_a_corpus_are_not_copied():
    # They may be mapped from a file of any size.
    nearest, outcomes = torch.arange(500)[None], torch.zeros(100_000, 6, dtype=torch.float64)
    tracemalloc.start()
    mean_outcome(nearest, outcomes)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**17


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
