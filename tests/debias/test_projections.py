"""The algebra, against references written naively and by properties; what leaves, and what is said of it."""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from src.debias import Prompts, project, projection, prompts
from src.errors import InputError
from src.metrics import similarity
from src.stimuli import Table, checked
from tests.debias.chosen import PAPER, chosen

SEEDS = st.integers(0, 2**32 - 1)


def table(role, ids):
    return Table(role, pd.DataFrame({"id": ids, "sentence": ids}), len(ids))


def made(removed, pairs=0):
    """Prompts of invented sentences: some whose directions are removed, and pairs of others."""
    spurious = [f"a{i}" for i in range(removed)]
    alike = [(f"b{i}", f"c{i}") for i in range(pairs)]
    return Prompts(table("prompts", sorted([*spurious, *sum(alike, ())])), spurious, alike)


def random(seed, *shape):
    drawn = torch.from_numpy(np.random.default_rng(seed).normal(size=shape))
    return drawn / drawn.norm(dim=-1, keepdim=True)


def plain(columns):
    """P0 of the vectors of prompts, one column each."""
    return projection(chosen("orth_proj"), made(columns.shape[1]), columns.T)


def loss(candidate, start, vectors, pairs, strength):
    """The objective of Chuang et al. 2023, term by term."""
    far = sum((candidate[i][j] - start[i][j]) ** 2 for i in range(len(start)) for j in range(len(start)))
    apart = 0.0
    for first, second in pairs:
        apart += sum((candidate @ vectors[first] - candidate @ vectors[second]) ** 2)
    return far + strength / len(pairs) * apart


@given(SEEDS, st.integers(1, 8), st.integers(0, 12))
def test_p0_is_the_orthogonal_projection_off_the_prompts(seed, removed, more):
    columns = random(seed, removed, removed + more).T
    found = plain(columns)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found @ found, found, rtol=0, atol=1e-12)
    torch.testing.assert_close(found, found.T, rtol=0, atol=1e-14)
    torch.testing.assert_close(found @ columns, torch.zeros_like(columns), rtol=0, atol=1e-12)
    assert float(found.trace()) == pytest.approx(more, abs=1e-9)  # and nothing besides is removed


@given(SEEDS)
def test_p0_is_the_published_formula(seed):
    columns = random(seed, 6, 20).T.numpy()
    naive = np.eye(20) - columns @ np.linalg.pinv(columns, rcond=1e-6)
    np.testing.assert_allclose(plain(torch.from_numpy(columns)), naive, rtol=0, atol=1e-10)


@given(SEEDS, st.floats(0.01, 100))
def test_lengths_and_the_vectors_type_decide_nothing(seed, scale):
    columns = random(seed, 4, 40).T
    torch.testing.assert_close(plain(columns * scale), plain(columns), rtol=0, atol=1e-12)
    torch.testing.assert_close(plain(columns.float()), plain(columns), rtol=0, atol=1e-5)


@given(SEEDS, st.sampled_from([0.0, 1e-13, 1e-11, 1e-9, 1e-8]))
def test_prompts_that_all_but_coincide_count_as_one(seed, gap):
    columns = random(seed, 4, 12).T
    near = columns[:, :1] + gap * random(seed + 1, 1, 12).T
    found = plain(torch.cat([columns, near], dim=1))
    assert float(torch.linalg.matrix_norm(found, 2)) <= 1 + 1e-9
    torch.testing.assert_close(found, plain(columns), rtol=0, atol=1e-6)


@given(SEEDS, st.sampled_from([1e-5, 1e-3]))
def test_prompts_that_differ_by_more_are_two_directions(seed, gap):
    columns = random(seed, 3, 12).T
    near = columns[:, :1] + gap * random(seed + 1, 1, 12).T
    found = plain(torch.cat([columns, near], dim=1))
    assert float(found.trace()) == pytest.approx(12 - 4)
    torch.testing.assert_close(found @ found, found, rtol=0, atol=1e-9)


@settings(max_examples=20)
@given(SEEDS, st.sampled_from([0.5, 10.0, 1000.0]))
def test_the_calibrated_projection_minimises_its_loss(seed, strength):
    given_prompts = made(removed=2, pairs=3)
    vectors = random(seed, 8, 5)
    rows = {sentence: row for row, sentence in enumerate(given_prompts.table.frame["id"])}
    start = plain(vectors[[rows["a0"], rows["a1"]]].T).numpy()
    pairs = [(rows[a], rows[b]) for a, b in given_prompts.pairs]
    found = projection(chosen("orth_proj_scm", strength=strength), given_prompts, vectors).numpy()

    def objective(flat):
        return loss(flat.reshape(5, 5), start, vectors.numpy(), pairs, strength)

    reached = minimize(objective, start.ravel(), method="BFGS", options={"gtol": 1e-9, "maxiter": 2000})
    scale = 1 + abs(reached.fun)
    assert objective(found.ravel()) <= reached.fun + 1e-9 * scale
    np.testing.assert_allclose(found, reached.x.reshape(5, 5), rtol=0, atol=1e-4)
    for step in np.random.default_rng(seed).normal(size=(10, 25)) * 1e-3:
        assert objective(found.ravel() + step) > objective(found.ravel())


@given(SEEDS, st.integers(1, 6), st.integers(1, 9), st.floats(0, 1e5))
def test_at_the_calibrated_projection_the_gradient_is_zero(seed, removed, pairs, strength):
    given_prompts = made(removed, pairs)
    vectors = random(seed, removed + 2 * pairs, 10)
    start = plain(vectors[:removed].T)
    found = projection(chosen("orth_proj_scm", strength=strength), given_prompts, vectors).requires_grad_()
    difference = vectors[removed : removed + pairs] - vectors[removed + pairs :]
    far = ((found - start) ** 2).sum()
    apart = sum((found @ z).square().sum() for z in difference) * strength / pairs
    (gradient,) = torch.autograd.grad(far + apart, found)
    assert float(gradient.abs().max()) < 1e-10 * (1 + strength)
    assert float(torch.linalg.matrix_norm(found.detach(), 2)) <= 1 + 1e-9


@given(SEEDS)
def test_a_weak_calibration_is_none_and_a_strong_one_makes_pairs_alike(seed):
    given_prompts, vectors = made(removed=3, pairs=4), random(seed, 11, 16)
    start = plain(vectors[:3].T)

    def calibrated(strength):
        return projection(chosen("orth_proj_scm", strength=strength), given_prompts, vectors)

    torch.testing.assert_close(calibrated(0.0), start, rtol=0, atol=1e-14)
    torch.testing.assert_close(calibrated(1e-9), start, rtol=0, atol=1e-8)
    apart = [float((calibrated(s) @ (vectors[3:7] - vectors[7:]).T).norm()) for s in (0, 1, 1000)]
    assert apart[0] > apart[1] > 10 * apart[2]


def test_composed_methods_remove_what_their_groups_are_called():
    for method in ("orth_proj", "orth_proj_calibrated", "orth_proj_scm"):
        found = prompts(chosen(method), PAPER)
        sentences = found.table.frame["sentence"]
        vectors = random(1, len(sentences), 64).float()
        matrix = projection(chosen(method), found, vectors)
        start = plain(vectors[[row for row, s in enumerate(sentences) if s in found.spurious]].T)
        # Whatever is projected comes to lie where the six prompts say nothing.
        torch.testing.assert_close(start @ matrix, matrix, rtol=0, atol=1e-12)
        assert (method == "orth_proj") == torch.equal(matrix, start)


def test_more_prompts_than_dimensions_are_refused():
    with pytest.raises(InputError) as raised:
        projection(chosen("orth_proj"), made(6), random(0, 6, 5))
    assert "vectors of width 5 have no room for the directions of 6 prompts" in str(raised.value)
    # Pairs need no room of their own.
    assert projection(chosen("orth_proj_scm"), made(2, pairs=9), random(0, 20, 5)).shape == (5, 5)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_vectors_that_are_none_are_told(bad):
    vectors = random(0, 4, 9)
    vectors[2, 3] = bad
    with pytest.raises(InputError, match="prompts: 1 vectors hold NaN or infinity, first that of 'a2'"):
        projection(chosen("orth_proj"), made(4), vectors)
    with pytest.raises(InputError, match="faces: 1 vectors hold NaN or infinity, first that of 'f2'"):
        project(table("faces", [f"f{i}" for i in range(4)]), vectors, torch.eye(9).double())


@pytest.mark.parametrize("shape", [(3, 9), (4, 2, 9), (9,)])
def test_vectors_of_another_table_are_a_mistake_of_ours(shape):
    with pytest.raises(ValueError, match="prompts: vectors of shape .* for 4 rows"):
        projection(chosen("orth_proj"), made(4), torch.ones(shape))
    if len(shape) != 3:
        with pytest.raises(ValueError, match="words: vectors of shape .* for 4 rows"):
            project(table("words", list("abcd")), torch.ones(shape), torch.eye(9).double())


def test_vectors_of_another_width_are_told():
    with pytest.raises(InputError) as raised:
        project(table("faces", ["f"]), random(0, 1, 8), torch.eye(9).double())
    assert "faces have vectors of width 8, the prompts of width 9. Take both from one model." in str(
        raised.value
    )


@given(SEEDS, st.sampled_from([(7, 12), (7, 3, 12)]), st.sampled_from([torch.float32, torch.float64]))
def test_vectors_are_projected_and_of_unit_length_again(seed, shape, dtype):
    matrix = projection(chosen("orth_proj_scm"), made(2, pairs=3), random(seed, 8, 12))
    vectors = random(seed + 1, *shape).to(dtype)
    before = vectors.clone()
    faces = table("faces", [f"f{i}" for i in range(7)])
    kept, found, notes = project(faces, vectors, matrix)
    assert (kept, notes) == (faces, [])
    assert found.dtype == torch.float64
    assert torch.equal(vectors, before)
    for index in np.ndindex(shape[:-1]):
        moved = matrix.numpy() @ vectors[index].double().numpy()
        np.testing.assert_allclose(found[index], moved / np.sqrt((moved**2).sum()), rtol=0, atol=1e-10)


def test_equal_texts_stay_equally_similar():
    vectors = random(3, 50, 33).float().repeat(4, 1)
    matrix = projection(chosen("orth_proj"), made(5), random(4, 5, 33).float())
    _, found, _ = project(table("faces", [f"{i:03}" for i in range(200)]), vectors, matrix)
    cosines = similarity(random(5, 3, 33), found)
    assert torch.equal(cosines, cosines[:, :50].repeat(1, 4))


def words(count=5):
    rows = [
        {
            "id": f"w{i}{t}",
            "word": f"w{i}",
            "template": f"{t} {{}}",
            "sentence": f"{t} w{i}",
            "valence": i / count,
        }
        for i in range(count)
        for t in "ab"
    ]
    return checked("words", pd.DataFrame(rows), "here", expected=9, notes=["some are long"])


def first_axis(width=4):
    """What is left is all but the first axis."""
    matrix = torch.eye(width, dtype=torch.float64)
    matrix[0, 0] = 0
    return matrix


def test_a_word_of_which_nothing_is_left_leaves_with_all_its_sentences():
    given_words, vectors = words(), random(0, 10, 4).float()
    vectors[3] = torch.tensor([1.0, 9e-7, 0, 0])  # w1 in the second template
    vectors[4] = torch.tensor([1.0, 2e-6, 0, 0])  # w2 in the first: enough is left
    kept, found, notes = project(given_words, vectors, first_axis())
    assert list(kept.frame["id"]) == ["w0a", "w0b", "w2a", "w2b", "w3a", "w3b", "w4a", "w4b"]
    assert list(kept.frame.index) == list(range(8))
    assert (kept.role, kept.expected, kept.items) == ("words", 9, 4)
    assert notes == ["1 words of 5 leave, first 'w1': the projection leaves nothing of them"]
    assert kept.notes == ("some are long", *notes)
    assert given_words.items == 5
    expected = vectors[[0, 1, 4, 5, 6, 7, 8, 9]].double() @ first_axis()
    torch.testing.assert_close(found, torch.nn.functional.normalize(expected, dim=-1), rtol=0, atol=1e-12)
    checked("words", kept.frame, "still a full grid")


@pytest.mark.parametrize("queries", [0, 3])
def test_an_image_leaves_if_nothing_is_left_of_one_of_its_vectors(queries):
    vectors = random(1, 6, 3, 4) if queries else random(1, 6, 4)
    gone = torch.tensor([-1.0, 0, 0, 0]).double()
    vectors[(2, 1) if queries else 2] = gone
    vectors[(5, 0) if queries else 5] = gone
    kept, found, notes = project(table("scenes", list("abcdef")), vectors, first_axis())
    assert list(kept.frame["id"]) == ["a", "b", "d", "e"]
    assert found.shape == (4, *vectors.shape[1:])
    assert torch.isfinite(found).all()
    assert notes == ["2 scenes of 6 leave, first 'c': the projection leaves nothing of them"]


def test_a_prompt_of_which_nothing_is_left_is_an_error():
    asked = Table("prompts", pd.DataFrame({"id": ["p", "q"], "sentence": ["p", "q"], "word": ["p", "q"]}), 2)
    vectors = torch.eye(4)[:2].double()
    with pytest.raises(InputError, match="prompts: nothing is left of 'p' after the projection"):
        project(asked, vectors, first_axis())
    kept, _, _ = project(asked, vectors.flip(1), first_axis())
    assert kept is asked


@pytest.mark.parametrize("role", ["words", "faces"])
def test_if_nothing_is_left_of_anything_that_is_an_error(role):
    shown = words() if role == "words" else table("faces", list("abcdefghij"))
    matrix = projection(chosen("orth_proj"), made(4), random(0, 4, 4))
    with pytest.raises(InputError, match=rf"{role}: nothing is left of any of \d+ after the projection"):
        project(shown, random(1, 10, 4).float(), matrix)
