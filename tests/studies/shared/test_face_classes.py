"""Check classes of groups and kinds, their sentences, and how faces are classified."""

from dataclasses import replace

import pandas as pd
import pytest
import torch

from src.configs import ClassesConfig
from src.errors import InputError
from src.stimuli import PROMPTS, Table
from src.studies.shared.face_classes import GROUP, classify, compose_prompts, list_classes

CONFIG = ClassesConfig(
    name="mine",
    templates=["a photo of {article} {word}", "{article} {word}"],
    nouns={"Men": "man", "Women": "woman"},
    kinds={"animals": ["owl", "ape"], "crime": ["thief"]},
    harmful=["crime"],
)
GROUPS = ["Black Men", "Black Women", "Nonbinary"]


def test_classes_are_those_of_groups_then_of_kinds():
    classes = list_classes(CONFIG, GROUPS)
    assert classes["class"].tolist() == [
        "black man",
        "black woman",
        "nonbinary person",
        "owl",
        "ape",
        "thief",
    ]
    assert classes["kind"].tolist() == [GROUP] * 3 + ["animals"] * 2 + ["crime"]
    assert classes["group"].tolist() == [*GROUPS, "", "", ""]
    assert classes["is_harmful"].tolist() == [False] * 5 + [True]
    given = {"Nonbinary": ["enby"], "Black Women": ["black lady", "black woman"], "Black Men": ["black man"]}
    classes = list_classes(replace(CONFIG, groups=given), GROUPS)
    assert classes["class"].tolist()[:4] == ["black man", "black lady", "black woman", "enby"]


def test_each_class_has_a_sentence_per_template():
    prompts = compose_prompts(CONFIG, GROUPS, "literal").frame
    assert len(prompts) == 12
    assert prompts["id"].is_monotonic_increasing
    assert {*prompts.loc[prompts["word"] == "owl", "sentence"]} == {"a photo of a/an owl", "a/an owl"}
    assert prompts.groupby("word")["position"].nunique().eq(1).all()


@pytest.mark.thorough
def test_articles_agree_with_classes():
    sentences = compose_prompts(CONFIG, GROUPS, "right").frame["sentence"]
    assert {"a photo of an owl", "a photo of a thief", "an ape"} <= {*sentences}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"harmful": ["crimes"]}, "classes.harmful names the unknown kind 'crimes'. Did you mean 'crime'"),
        ({"harmful": []}, "no harmful kind"),
        ({"kinds": {"crime": []}}, "classes.kinds.crime: expected classes, got none"),
        ({"kinds": {"crime": ["thief", " "]}}, "classes.kinds.crime: expected classes, got an empty one"),
        ({"kinds": {"crime": ["thief"], "x": ["Thief"]}}, "the class 'thief' occurs 2 times, of crime, x"),
        ({"kinds": {"crime": ["Black man"]}}, "'black man' occurs 2 times, of Black Men, crime"),
        ({"kinds": {"crime": ["thief"], "harm": ["owl"]}}, "a kind cannot be named 'harm'"),
        ({"groups": {"Black Men": ["man"]}}, "classes.groups has no classes for Black Women, Nonbinary"),
        (
            {"groups": {"Black Man": ["man"]}},
            "names 'Black Man', which is no group .* Did you mean 'Black Men'",
        ),
        ({"groups": {name: [] for name in GROUPS}}, "classes.groups.Black Men: expected classes, got none"),
        ({"groups": {name: ["man"] for name in GROUPS}}, "'man' occurs 3 times, of Black Men, Black Women"),
        ({"nouns": {"men": "person", "women": "person"}}, "'black person' occurs 2 times"),
        ({"templates": []}, "no template"),
        ({"templates": ["a photo"]}, "expected {word} once"),
        ({"templates": ["{word} {word}"]}, "expected {word} once"),
        ({"templates": ["{word} {x}"]}, "and no other field"),
        ({"templates": ["{word} {"]}, "Write {word}"),
        ({"templates": ["a {word}", "a {word}"]}, "two templates make the sentence"),
    ],
)
def test_invalid_classes_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        compose_prompts(replace(CONFIG, **changes), GROUPS, "literal")


def prompts_of(words, kinds, copies=1):
    frame = pd.DataFrame({"word": words, "kind": kinds, "group": "", "position": range(len(words))})
    frame["is_harmful"] = frame["kind"] == "crime"
    frame = pd.concat([frame.assign(id=frame["word"] + str(copy)) for copy in range(copies)])
    frame = frame.assign(sentence=frame["id"]).sort_values("id", ignore_index=True)
    return Table(PROMPTS, frame, len(frame))


def test_the_nearest_class_has_the_largest_mean_cosine_over_templates():
    prompts = prompts_of(["z", "a"], [GROUP, "crime"], copies=2)
    # Sorted by sentence: a0, a1, z0, z1. One sentence of `a` is nearest, but not on average.
    vectors = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.8, 0.6], [0.8, 0.6]])
    classified = classify(torch.tensor([[1.0, 0.0]]), prompts, vectors)
    assert classified.classes["class"].tolist() == ["z", "a"]
    assert classified.scores.tolist() == [[pytest.approx(0.8), 0.0]]
    assert classified.nearest.tolist() == [0]
    assert classified.is_harmful.tolist() == [False]


def test_ties_take_the_class_that_comes_first():
    """Give three classes the same sentences in another order: the first in the list wins, not by name."""
    prompts = prompts_of(["z", "b", "a"], [GROUP, "crime", "crime"], copies=2)
    pair = torch.nn.functional.normalize(torch.rand(2, 9, generator=torch.Generator().manual_seed(0)), dim=1)
    vectors = torch.cat([pair, pair.flip(0), pair])
    faces = torch.nn.functional.normalize(torch.rand(99, 9), dim=1)
    assert not classify(faces, prompts, vectors).nearest.any()


def test_blocks_change_nothing(monkeypatch):
    prompts = prompts_of(["z", "a"], [GROUP, "crime"], copies=3)
    generator = torch.Generator().manual_seed(1)
    faces, vectors = (
        torch.nn.functional.normalize(torch.randn(shape, generator=generator), dim=-1)
        for shape in ((50, 3, 8), (6, 8))
    )
    expected = classify(faces, prompts, vectors).scores
    monkeypatch.setattr("src.studies.shared.face_classes.BLOCK_SIZE", 7)
    assert classify(faces, prompts, vectors).scores.tolist() == expected.tolist()
