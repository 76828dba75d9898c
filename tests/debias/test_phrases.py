"""Which sentences the groups of a dataset give, against lists written by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.debias import prompts, sides
from src.errors import InputError
from tests.debias.chosen import METHODS, PAPER, chosen

DEMO = [f"{people} {gender}" for people in ("Niffite", "Luupite", "Laapian") for gender in ("Women", "Men")]
RACES = [f"{race} {gender}" for race in ("Asian", "Black", "White") for gender in ("Men", "Women")]
GENDERS = ("male", "female", "man", "woman")
CLASSES = ["A {}.", "One {}."]


def photos(*phrases):
    return sorted(f"A photo of a {phrase}." for phrase in phrases)


def same(groups, classes=CLASSES, **changes):
    found = prompts(chosen("orth_proj_scm", classes=classes, **changes), groups)
    return {frozenset(pair) for pair in found.pairs}


def test_the_papers_groups_give_the_papers_six_prompts():
    found = prompts(chosen("orth_proj"), PAPER)
    assert found.spurious == photos(*GENDERS, "white person", "black person")
    assert found.pairs == []
    assert list(found.table.frame["sentence"]) == found.spurious


@pytest.mark.parametrize(
    ("groups", "adjectives"),
    [
        (DEMO, ["niffite person", "luupite person", "laapian person"]),
        (RACES, ["asian person", "black person", "white person"]),
        (["Men", "Women"], []),
        (["Male", "Female"], []),
        (["black women", "BLACK MEN"], ["black person"]),
        (["East Asian Women", "Latino_Hispanic Men"], ["east asian person", "latino hispanic person"]),
        (["Black_Women", "Black  Men "], ["black person"]),
    ],
)
def test_groups_give_prompts_of_their_own(groups, adjectives):
    assert prompts(chosen("orth_proj"), groups).spurious == photos(*GENDERS, *adjectives)


def test_a_name_without_a_known_noun_is_all_adjective():
    found = prompts(chosen("orth_proj"), ["old", "Very_Young"])
    assert found.spurious == photos("old person", "very young person")
    # "Women" is a noun at the end only.
    assert prompts(chosen("orth_proj"), ["Women elders"]).spurious == photos("women elders person")


def test_only_the_nouns_of_the_groups_that_are_there_are_removed():
    assert prompts(chosen("orth_proj"), ["Black Women"]).spurious == photos("female", "woman", "black person")


def test_pairs_differ_in_one_part_class_by_class():
    assert same(PAPER) == {
        frozenset((start + a + ".", start + b + "."))
        for start in ("A ", "One ")
        for a, b in [
            ("black male", "black female"),
            ("white male", "white female"),
            ("black male", "white male"),
            ("black female", "white female"),
        ]
    }


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (["old", "young"], [("old person", "young person")]),
        (["Men", "Women"], [("male", "female")]),
        (["a", "b", "c"], [("a person", "b person"), ("b person", "c person"), ("a person", "c person")]),
        (["Men", "old"], [("male", "old person")]),  # one part each
        (["Black Men", "Men"], [("black male", "male")]),
        (
            ["Black Men", "White Women", "Black Women"],
            [("black male", "black female"), ("white female", "black female")],
        ),
    ],
)
def test_pairs_of_groups_of_one_part_and_of_several(groups, expected):
    assert same(groups, classes=["A {}."]) == {frozenset((f"A {a}.", f"A {b}.")) for a, b in expected}


def test_the_number_of_pairs_of_crossed_groups():
    # Of p peoples and two genders: p pairs of genders, and two times the pairs of peoples; six classes.
    assert len(prompts(chosen("orth_proj_scm"), DEMO).pairs) == 6 * (3 + 2 * 3)
    found = prompts(chosen("orth_proj_calibrated"), DEMO)
    assert len(found.pairs) == 2 * (3 + 2 * 3)
    assert (
        "A photo of a niffite male with dark hair.",
        "A photo of a niffite female with dark hair.",
    ) in found.pairs


def test_the_published_class_phrases_of_the_content_model():
    found = prompts(chosen("orth_proj_scm"), PAPER)
    assert "A photo of a competent looking black male." in set(found.table.frame["sentence"])
    assert not any("man" in sentence.split() for pair in found.pairs for sentence in pair)


@pytest.mark.parametrize("method", METHODS)
@given(groups=st.sets(st.sampled_from([*DEMO, *RACES]), min_size=5), seed=st.randoms())
def test_the_table_holds_each_sentence_once_whatever_the_order(method, groups, seed):
    order = sorted(groups)
    found = prompts(chosen(method), order)
    frame = found.table.frame
    assert (found.table.role, list(frame.columns)) == ("prompts", ["id", "sentence"])
    assert found.table.expected == found.table.items == len(frame)
    assert list(frame["id"]) == list(frame["sentence"]) == sorted(set(frame["sentence"]))
    assert set(frame["id"]) == {*found.spurious, *(s for pair in found.pairs for s in pair)}
    seed.shuffle(order)
    again = prompts(chosen(method), [*order, order[0]])
    assert (again.spurious, again.pairs, again.table.hash) == (found.spurious, found.pairs, found.table.hash)


def test_a_sentence_that_is_both_removed_and_calibrated_on_stands_once():
    found = prompts(chosen("orth_proj_scm", classes=["A photo of a {}."]), ["Men", "Women"])
    assert list(found.table.frame["id"]) == photos(*GENDERS)
    assert found.pairs == [("A photo of a male.", "A photo of a female.")]


def test_without_a_template_nothing_is_projected():
    assert prompts(chosen("none"), PAPER) is None
    assert prompts(chosen("none"), []) is None
    assert sides(chosen("none")) == frozenset()


@pytest.mark.parametrize("method", METHODS)
def test_which_roles_a_side_is(method):
    assert sides(chosen(method)) == {"words", "labels", "prompts"}
    assert sides(chosen(method, side="images")) == {"faces", "scenes"}
    assert sides(chosen(method, side="both")) == {"words", "labels", "prompts", "faces", "scenes"}


@pytest.mark.parametrize(
    ("changes", "groups", "message"),
    [
        ({}, [], "debias=orth_proj_scm: no group is there"),
        (
            {},
            ["Black Men", "Black_men"],
            "the groups 'Black Men' and 'Black_men' come out alike, as 'black male'",
        ),
        ({}, ["Black Men", "Black Male"], "the groups 'Black Male' and 'Black Men' come out alike"),
        ({}, ["Black Men", "_ "], "the group '_ ' has no name"),
        ({}, ["Black Men"], "no two of the groups Black Men differ in exactly one part"),
        ({}, ["Black Men", "White Women"], "no two of the groups Black Men, White Women differ in exactly"),
        ({"spurious": "A photo."}, PAPER, "the template 'A photo.' has 0 places for a group"),
        ({"spurious": "A {} or {}."}, PAPER, "the template 'A {} or {}.' has 2 places"),
        ({"classes": ["A {}.", "A {x}."]}, PAPER, "the template 'A {x}.' has 0 places"),
        ({"nouns": {"Men": []}}, PAPER, "debias.nouns.Men=[]: a word is missing"),
        ({"nouns": {"Men": ["male", " "]}}, PAPER, "debias.nouns.Men=['male', ' ']: a word is missing"),
        ({"strength": 5.0, "classes": []}, PAPER, "debias.strength=5 decides nothing without debias.classes"),
        ({"strength": float("inf")}, PAPER, "debias.strength=inf: must be finite"),
    ],
)
def test_mistakes_are_told(changes, groups, message):
    with pytest.raises(InputError) as raised:
        prompts(chosen("orth_proj_scm", **changes), groups)
    assert message in str(raised.value)


def test_without_calibration_one_group_is_enough():
    assert prompts(chosen("orth_proj"), ["old"]).spurious == photos("old person")
