"""Check prompts against lists by hand, projections against naive references, and removal of stimuli."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from src import configs
from src.debias import Prompts, build_prompts, compute_projection, project, select_projected_roles
from src.errors import InputError
from src.stimuli import Table, build_table

METHODS = ("orth_proj", "orth_proj_calibrated", "orth_proj_scm")
PAPER = ["Black Men", "Black Women", "White Men", "White Women"]


@cache
def _compose(name):
    config, _ = configs.compose([f"debias={name}"])
    return OmegaConf.to_object(config.debias)


def compose_method(name, **changes):
    return replace(_compose(name), **changes)


DEMO = [f"{people} {gender}" for people in ("Niffite", "Luupite", "Laapian") for gender in ("Women", "Men")]
RACES = [f"{race} {gender}" for race in ("Asian", "Black", "White") for gender in ("Men", "Women")]
GENDERS = ("male", "female", "man", "woman")


@pytest.mark.parametrize(
    ("groups", "phrases"),
    [
        (PAPER, [*GENDERS, "white person", "black person"]),
        (DEMO, [*GENDERS, "niffite person", "luupite person", "laapian person"]),
        (RACES, [*GENDERS, "asian person", "black person", "white person"]),
        (["Male", "Female"], GENDERS),
        (["black women", "BLACK  MEN "], [*GENDERS, "black person"]),
        (
            ["East Asian Women", "Latino_Hispanic Men"],
            [*GENDERS, "east asian person", "latino hispanic person"],
        ),
        (["Black Women"], ["female", "woman", "black person"]),
    ],
)
def test_prompts_name_only_groups_of_the_dataset(groups, phrases):
    result = build_prompts(compose_method("orth_proj"), groups)
    expected = sorted(f"A photo of a {phrase}." for phrase in phrases)
    assert list(result.table.frame["sentence"]) == result.spurious == expected
    assert result.pairs == []


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (["old", "young"], [("old person", "young person")]),
        (["Men", "Women"], [("male", "female")]),
        (["a", "b", "c"], [("a person", "b person"), ("b person", "c person"), ("a person", "c person")]),
        (["Men", "old"], [("male", "old person")]),  # neither is a crossed name
        (
            ["Black Men", "White Women", "Black Women"],
            [("black male", "black female"), ("white female", "black female")],
        ),
    ],
)
def test_pairs_of_groups_with_simple_and_crossed_names(groups, expected):
    pairs = build_prompts(compose_method("orth_proj_scm", classes=["A {}."]), groups).pairs
    assert {*map(frozenset, pairs)} == {frozenset((f"A {a}.", f"A {b}.")) for a, b in expected}


@pytest.mark.parametrize("method", METHODS)
@given(groups=st.sets(st.sampled_from([*DEMO, *RACES]), min_size=5), rng=st.randoms())
def test_each_sentence_occurs_once_in_any_order_of_groups(method, groups, rng):
    order = sorted(groups)
    result = build_prompts(compose_method(method), order)
    frame = result.table.frame
    assert (result.table.role, list(frame.columns)) == ("prompts", ["id", "sentence"])
    assert result.table.n_source_items == result.table.n_items == len(frame)
    assert list(frame["id"]) == list(frame["sentence"]) == sorted(set(frame["sentence"]))
    assert set(frame["id"]) == {*result.spurious, *(s for pair in result.pairs for s in pair)}
    rng.shuffle(order)
    shuffled = build_prompts(compose_method(method), [*order, order[0]])
    assert (shuffled.spurious, shuffled.pairs) == (result.spurious, result.pairs)
    assert shuffled.table.hash == result.table.hash


def test_a_sentence_both_removed_and_calibrated_on_occurs_once():
    result = build_prompts(compose_method("orth_proj_scm", classes=["A photo of a {}."]), ["Men", "Women"])
    assert list(result.table.frame["id"]) == sorted(f"A photo of a {gender}." for gender in GENDERS)
    assert result.pairs == [("A photo of a male.", "A photo of a female.")]


def test_a_method_without_a_template_projects_nothing():
    assert build_prompts(compose_method("none"), PAPER) is None
    assert build_prompts(compose_method("none"), []) is None
    assert select_projected_roles(compose_method("none")) == frozenset()


@pytest.mark.parametrize(
    ("changes", "groups", "message"),
    [
        ({}, [], "debias=orth_proj_scm: no groups, so"),
        ({}, ["Black Men", "Black Male"], "the groups 'Black Male' and 'Black Men' have the same phrase"),
        ({}, ["Black Men", "_ "], "the name of the group '_ ' contains no word"),
        ({}, ["Black Men", "White Women"], "no two of the groups Black Men, White Women differ in exactly"),
        ({"spurious": "A {} or {}."}, PAPER, "once in the template 'A {} or {}.', got it 2 times"),
        ({"classes": ["A {}.", "A {x}."]}, PAPER, "once in the template 'A {x}.', got it 0 times"),
        (
            {"nouns": {"Men": ["male", " "]}},
            PAPER,
            "debias.nouns.Men=['male', ' ']: expected words for people",
        ),
        ({"strength": 5.0, "classes": []}, PAPER, "debias.strength=5 has no effect without debias.classes"),
        ({"strength": float("inf")}, PAPER, "debias.strength=inf: must be finite"),
    ],
)
def test_invalid_methods_are_refused(changes, groups, message):
    with pytest.raises(InputError) as raised:
        build_prompts(compose_method("orth_proj_scm", **changes), groups)
    assert message in str(raised.value)


# Projections.

SEEDS = st.integers(0, 2**32 - 1)


def table(role, ids):
    return Table(role, pd.DataFrame({"id": ids, "sentence": ids}), len(ids))


def make_prompts(removed, pairs=0):
    """Build prompts: `removed` sentences whose directions are projected out, and calibration pairs."""
    spurious = [f"a{i}" for i in range(removed)]
    alike = [(f"b{i}", f"c{i}") for i in range(pairs)]
    return Prompts(table("prompts", sorted([*spurious, *sum(alike, ())])), spurious, alike)


def draw_vectors(seed, *shape):
    vectors = torch.from_numpy(np.random.default_rng(seed).normal(size=shape))
    return vectors / vectors.norm(dim=-1, keepdim=True)


def compute_p0(columns):
    """Compute P0, the uncalibrated projection, from vectors of prompts [width, prompts]."""
    return compute_projection(compose_method("orth_proj"), make_prompts(columns.shape[1]), columns.T)


@given(SEEDS, st.integers(1, 8), st.integers(0, 12))
def test_p0_is_the_orthogonal_projection_off_the_prompts(seed, removed, remaining):
    columns = draw_vectors(seed, removed, removed + remaining).T
    result = compute_p0(columns)
    assert result.dtype == torch.float64
    torch.testing.assert_close(result @ result, result, rtol=0, atol=1e-12)
    torch.testing.assert_close(result, result.T, rtol=0, atol=1e-14)
    torch.testing.assert_close(result @ columns, torch.zeros_like(columns), rtol=0, atol=1e-12)
    assert float(result.trace()) == pytest.approx(remaining, abs=1e-9)  # no other direction is removed


@given(SEEDS)
def test_p0_is_the_published_formula(seed):
    columns = draw_vectors(seed, 6, 20).T.numpy()
    naive = np.eye(20) - columns @ np.linalg.pinv(columns, rcond=1e-6)
    np.testing.assert_allclose(compute_p0(torch.from_numpy(columns)), naive, rtol=0, atol=1e-10)


@given(SEEDS, st.floats(0.01, 100))
def test_lengths_and_dtype_of_the_prompts_do_not_matter(seed, scale):
    columns = draw_vectors(seed, 4, 40).T
    torch.testing.assert_close(compute_p0(columns * scale), compute_p0(columns), rtol=0, atol=1e-12)
    torch.testing.assert_close(compute_p0(columns.float()), compute_p0(columns), rtol=0, atol=1e-5)


@given(SEEDS, st.sampled_from([0.0, 1e-13, 1e-11, 1e-9, 1e-8, 1e-5, 1e-3]))
def test_nearly_equal_prompts_span_a_single_direction_and_others_two(seed, gap):
    columns = draw_vectors(seed, 3, 12).T
    copy = columns[:, :1] + gap * draw_vectors(seed + 1, 1, 12).T
    result = compute_p0(torch.cat([columns, copy], dim=1))
    assert float(torch.linalg.matrix_norm(result, 2)) <= 1 + 1e-9
    torch.testing.assert_close(result @ result, result, rtol=0, atol=1e-9)
    assert float(result.trace()) == pytest.approx(12 - 3 - (gap > 1e-6))
    if gap < 1e-6:
        torch.testing.assert_close(result, compute_p0(columns), rtol=0, atol=1e-6)


@given(SEEDS, st.integers(1, 6), st.integers(1, 9), st.floats(0, 1e5))
def test_the_calibrated_projection_has_a_zero_gradient(seed, removed, pairs, strength):
    method = compose_method("orth_proj_scm", strength=strength)
    vectors = draw_vectors(seed, removed + 2 * pairs, 10)
    p0 = compute_p0(vectors[:removed].T)
    result = compute_projection(method, make_prompts(removed, pairs), vectors).requires_grad_()
    differences = vectors[removed : removed + pairs] - vectors[removed + pairs :]
    change = ((result - p0) ** 2).sum()
    penalty = sum((result @ z).square().sum() for z in differences) * strength / pairs
    (gradient,) = torch.autograd.grad(change + penalty, result)
    assert float(gradient.abs().max()) < 1e-10 * (1 + strength)
    assert float(torch.linalg.matrix_norm(result.detach(), 2)) <= 1 + 1e-9


def test_vectors_of_the_wrong_width_are_refused():
    with pytest.raises(InputError) as raised:
        compute_projection(compose_method("orth_proj"), make_prompts(6), draw_vectors(0, 6, 5))
    assert "the directions of 6 prompts cannot be removed from vectors of width 5" in str(raised.value)
    with pytest.raises(
        InputError, match=r"faces: expected vectors of width 9, as the prompts have, got width 8"
    ):
        project(table("faces", ["f"]), draw_vectors(0, 1, 8), torch.eye(9).double())
    # Pairs do not limit the width: they are not projected out.
    vectors = draw_vectors(0, 20, 5)
    assert compute_projection(compose_method("orth_proj_scm"), make_prompts(2, pairs=9), vectors).shape == (
        5,
        5,
    )


@given(SEEDS, st.sampled_from([(7, 12), (7, 3, 12)]), st.sampled_from([torch.float32, torch.float64]))
def test_vectors_are_projected_and_renormalised(seed, shape, dtype):
    matrix = compute_projection(
        compose_method("orth_proj_scm"), make_prompts(2, pairs=3), draw_vectors(seed, 8, 12)
    )
    vectors = draw_vectors(seed + 1, *shape).to(dtype)
    before = vectors.clone()
    faces = table("faces", [f"f{i}" for i in range(7)])
    stored, result, notes = project(faces, vectors, matrix)
    assert (stored, notes) == (faces, [])
    assert result.dtype == torch.float64
    assert torch.equal(vectors, before)
    for index in np.ndindex(shape[:-1]):
        moved = matrix.numpy() @ vectors[index].double().numpy()
        np.testing.assert_allclose(result[index], moved / np.sqrt((moved**2).sum()), rtol=0, atol=1e-10)


def words(count=5):
    items = pd.DataFrame({"word": [f"w{i}" for i in range(count)], "valence": np.arange(count) / count})
    frame = items.merge(pd.DataFrame({"template": ["a {}", "b {}"]}), how="cross")
    frame["sentence"] = frame["template"].str[:2] + frame["word"]
    frame["id"] = frame["word"] + frame["template"].str[0]
    return build_table("words", frame, "here", expected=9, notes=["some are long"])


def drop_first_axis(width=4):
    """Return the projection that sets the first coordinate to 0."""
    matrix = torch.eye(width, dtype=torch.float64)
    matrix[0, 0] = 0
    return matrix


def test_a_vanished_word_is_removed_with_all_its_sentences():
    original, vectors = words(), draw_vectors(0, 10, 4).float()
    vectors[3] = torch.tensor([1.0, 9e-7, 0, 0])  # w1 in the second template
    vectors[4] = torch.tensor([1.0, 2e-6, 0, 0])  # w2 in the first: its length after the projection suffices
    stored, result, notes = project(original, vectors, drop_first_axis())
    assert list(stored.frame["id"]) == ["w0a", "w0b", "w2a", "w2b", "w3a", "w3b", "w4a", "w4b"]
    assert list(stored.frame.index) == list(range(8))
    assert (stored.role, stored.n_source_items, stored.n_items) == ("words", 9, 4)
    assert notes == ["1 of 5 words removed, first 'w1': their vectors vanish under the projection"]
    assert stored.notes == ("some are long", *notes)
    assert original.n_items == 5
    expected = vectors[[0, 1, 4, 5, 6, 7, 8, 9]].double() @ drop_first_axis()
    torch.testing.assert_close(result, torch.nn.functional.normalize(expected, dim=-1), rtol=0, atol=1e-12)
    build_table("words", stored.frame, "still a full grid")


@pytest.mark.parametrize("queries", [0, 3])
def test_an_image_is_removed_if_any_of_its_vectors_vanishes(queries):
    vectors = draw_vectors(1, 6, 3, 4) if queries else draw_vectors(1, 6, 4)
    vanishing = torch.tensor([-1.0, 0, 0, 0]).double()
    vectors[(2, 1) if queries else 2] = vanishing
    vectors[(5, 0) if queries else 5] = vanishing
    stored, result, notes = project(table("scenes", list("abcdef")), vectors, drop_first_axis())
    assert list(stored.frame["id"]) == ["a", "b", "d", "e"]
    assert result.shape == (4, *vectors.shape[1:])
    assert torch.isfinite(result).all()
    assert notes == ["2 of 6 scenes removed, first 'c': their vectors vanish under the projection"]


def test_a_vanished_prompt_or_role_is_an_error():
    with pytest.raises(InputError, match=r"prompts: the projection removes 'p' .* taxonomy or classes"):
        project(table("prompts", ["p", "q"]), torch.eye(4)[:2].double(), drop_first_axis())
    matrix = compute_projection(compose_method("orth_proj"), make_prompts(4), draw_vectors(0, 4, 4))
    with pytest.raises(InputError, match=r"words: the projection removes all"):
        project(words(), draw_vectors(1, 10, 4).float(), matrix)
