"""Which captions mention a word or name a group: by hand, and against regular expressions."""

import re
import unicodedata

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from src.errors import InputError
from src.studies.sobit.captions import lexicon as lexicons
from src.studies.sobit.captions.mentions import AXES, count, nothing
from tests.studies.sobit.captions.made import GENDERS, LEXICON, RACES, WORDS, code, group


def counts(*captions):
    return count(pl.Series(captions, dtype=pl.String), LEXICON)


@pytest.mark.parametrize(
    ("caption", "words"),
    [
        ("A CALM sea", {"calm"}),
        ("she sat calmly, becalmed", set()),
        ("calm, calm and calm", {"calm"}),
        ("two criminals", {"criminal"}),
        ("criminality", set()),
        ("the criminal's car", {"criminal"}),
        ("the criminals’ cars", {"criminal"}),
        ("a mentally ill person", {"mentally ill", "ill"}),
        ("a mentally-ill person", {"mentally ill", "ill"}),
        ("a mentally\n ill person", {"mentally ill", "ill"}),
        ("treated mentally, ill at ease", {"ill"}),
        ("treated mentally - ill at ease", {"ill"}),
        ("third world and third-world and third\u2011world", {"third-world"}),
        ("the third. World news", set()),
        ("a cafe\u0301 owner", {"café owner"}),
        ("CAFÉ OWNERS", {"café owner"}),
        ("cafe owner", set()),
        ("waving a flag", {"waving a flag"}),
        ("waving a big flag", set()),
        ("sav\u00adage", {"savage"}),
        ("savage_beast #savage", {"savage"}),
        ("savage2", set()),
        ("calms", set()),
        ("", set()),
        ("|", set()),
    ],
)
def test_words_that_a_caption_mentions(caption, words):
    assert {LEXICON.words["word"][number] for number in np.flatnonzero(counts(caption).words)} == words


@pytest.mark.parametrize(
    ("caption", "groups"),
    [
        ("a woman", {"Women"}),
        ("women and men", {"Women", "Men"}),
        ("two gentlemen", {"Men"}),
        ("an African-American", {"Black"}),
        ("an african american", {"Black"}),
        ("an African, American food", {"Black", "White"}),
        ("African-Americans, Americans", {"Black", "White"}),
        ("an englishman", {"White"}),
        ("blackboard, mankind, kingdom", set()),
        ("a white shirt", {"White"}),
        ("a man's black dog", {"Black", "Men", "Black Men"}),
        ("a black man, a white girl", {"Black", "White", "Women", "Men"}
         | {f"{race} {gender}" for race in RACES for gender in GENDERS}),
    ],
)  # fmt: skip
def test_groups_that_a_caption_names(caption, groups):
    assert {LEXICON.groups["group"][number] for number in np.flatnonzero(counts(caption).groups)} == groups


def test_a_caption_counts_once():
    found = counts("calm black calm man, black king", "a calm white woman", "calm", "savage queen")
    assert found.captions == 4
    assert found.words[code("calm")] == 3
    assert found.both[code("calm")].tolist() == [1, 1, 1, 1, 0, 1, 1, 0]
    assert found.groups[group("Black Men")] == 1
    assert found.named.tolist() == [2, 3, 2]
    assert found.words_named[code("calm")].tolist() == [2, 2, 2]
    assert found.words_named[code("savage")].tolist() == [0, 1, 0]


def test_forms_are_nouns_plurals_alone():
    assert lexicons.forms("savage", False) == ["savage"]
    assert lexicons.forms("thief", True) == ["thief", "thieves"]
    assert lexicons.forms("MP", True) == ["MP", "mps"]
    assert lexicons.names(["black", "blacks", "gentleman"]) == ["black", "blacks", "gentleman", "gentlemen"]


def test_a_word_in_two_categories_is_looked_for_once_and_one_without_letters_not_at_all():
    assert LEXICON.words["word"].tolist().count("calm") == 1
    with pytest.raises(InputError, match=r"'\?!': a word without a letter"):
        lexicons.lexicon(WORDS.assign(word="?!"), RACES, GENDERS)


def test_labels_may_name_one_axis_only():
    found = count(pl.Series(["a calm black man"]), lexicons.lexicon(WORDS, RACES, {}))
    assert found.groups.tolist() == [1, 0]
    assert found.named.tolist() == [1, 0, 0]


# A reference that is written otherwise: one regular expression per form, one caption at a time.
EDGE = r"(?<![^\W_])", r"(?![^\W_])"


def expression(form):
    parts = re.split(r"[\s-]", unicodedata.normalize("NFC", form.lower()))
    return EDGE[0] + r"(?:\s+|[-\u2010\u2011])".join(map(re.escape, parts)) + EDGE[1]


def reference(captions):
    words = {
        code(word): [re.compile(expression(form)) for form in lexicons.forms(word, kind == "noun")]
        for word, kind in zip(WORDS["word"], WORDS["type"], strict=True)
    }
    total = nothing(LEXICON)
    for caption in captions:
        text = unicodedata.normalize("NFC", caption.lower()).replace("\u00ad", "")
        said = [number for number, wanted in words.items() if any(form.search(text) for form in wanted)]
        races, genders = (naive(text, axis) for axis in (RACES, GENDERS))
        groups = [*races, *genders, *(f"{race} {gender}" for race in races for gender in genders)]
        named = [bool(races), bool(genders), bool(races and genders)]
        total.captions += 1
        total.named += named
        for name in groups:
            total.groups[group(name)] += 1
        for number in said:
            total.words[number] += 1
            total.words_named[number] += named
            for name in groups:
                total.both[number, group(name)] += 1
    return total


def naive(text, axis):
    of = {expression(form): name for name, listed in axis.items() for form in lexicons.names(listed)}
    longest = sorted(of, key=len, reverse=True)
    found = re.finditer("|".join(f"({form})" for form in longest), text)
    return sorted({of[longest[match.lastindex - 1]] for match in found})


PIECES = [
    *("calm", "Calm", "calmly", "criminals", "criminal", "mentally", "ill", "mentally ill", "third", "world"),
    *("third-world", "homemakers", "café", "cafe\u0301", "owner", "waving", "a", "flag", "savage", "savages"),
    *(
        "black",
        "BLACK",
        "african",
        "American",
        "americans",
        "African-American",
        "afro",
        "englishmen",
        "white",
    ),
    *(
        "woman",
        "women",
        "man",
        "MEN",
        "gentleman",
        "kings",
        "queen",
        "kingdom",
        "girl",
        "7",
        "é",
        "ǅ",
        "ß",
        "日本",
    ),
]
BETWEEN = [
    " ",
    " ",
    " ",
    "-",
    "  ",
    ", ",
    ". ",
    "'s ",
    "’",
    "_",
    "/",
    "\n",
    " – ",
    "--",
    " -",
    "\u2011",
    "\u00ad",
    "",
]


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(BETWEEN)), max_size=9), max_size=12)
)
@example([[("african", " "), ("American", " "), ("woman", "")]])
def test_counts_are_those_of_regular_expressions(drawn):
    captions = ["".join(piece + between for piece, between in caption) for caption in drawn]
    found, wanted = counts(*captions), reference(captions)
    assert found.captions == wanted.captions
    for name in ("words", "groups", "both", "named", "words_named"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name), err_msg=name)


@settings(max_examples=60)
@given(st.lists(st.text(), max_size=8))
def test_any_text_is_counted_without_a_fault(captions):
    found = counts(*captions)
    assert found.captions == len(captions)
    assert (found.both <= found.words[:, None]).all()
    assert (found.both <= found.groups[None, :]).all()


def test_batches_add_up():
    captions = ["a calm black man", "two criminals", "white queen, savage"] * 5
    total = nothing(LEXICON)
    for start in range(0, len(captions), 4):
        total.add(counts(*captions[start : start + 4]))
    whole = counts(*captions)
    assert total.captions == whole.captions
    np.testing.assert_array_equal(total.both, whole.both)
    np.testing.assert_array_equal(total.words_named, whole.words_named)
    assert total.words_named.shape == (len(LEXICON.words), len(AXES))
