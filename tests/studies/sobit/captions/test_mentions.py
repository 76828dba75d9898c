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
from src.studies.sobit.captions.mentions import count, no_counts
from tests.studies.sobit.captions.made import GENDERS, LEXICON, RACES, WORDS, code, group


def counts(*captions):
    return count(pl.Series(captions, dtype=pl.String), LEXICON)


@pytest.mark.parametrize(
    ("caption", "names"),
    [
        ("A CALM sea", {"calm"}),
        ("she sat calmly, becalmed", set()),
        ("the criminals’ cars, criminality", {"criminal"}),
        ("a mentally\n ill person", {"mentally ill", "ill"}),
        ("treated mentally - ill at ease", {"ill"}),
        ("third world and third-world and third\u2011world", {"third-world"}),
        ("the third. World news", set()),
        ("a cafe\u0301 owner", {"café owner"}),
        ("cafe owner", set()),
        ("waving a flag", {"waving a flag"}),
        ("sav\u00adage", {"savage"}),
        ("savage_beast #savage", {"savage"}),
        ("savage2 calms |", set()),
        ("women and men", {"Women", "Men"}),
        ("two gentlemen", {"Men"}),
        ("an african american", {"Black"}),
        ("an African, American food", {"Black", "White"}),
        ("blackboard, mankind, kingdom", set()),
        ("a white shirt", {"White"}),
        ("a man's black dog", {"Black", "Men", "Black Men"}),
        ("a black man, a white girl", {"Black", "White", "Women", "Men"}
         | {f"{race} {gender}" for race in RACES for gender in GENDERS}),
    ],
)  # fmt: skip
def test_words_that_a_caption_mentions_and_groups_that_it_names(caption, names):
    result = counts(caption)
    mentioned = LEXICON.words["word"].to_numpy()[result.words > 0]
    assert {*mentioned, *LEXICON.groups["group"].to_numpy()[result.groups > 0]} == names


def test_a_caption_counts_once():
    result = counts("calm black calm man, black king", "a calm white woman", "calm", "savage queen")
    assert result.captions == 4
    assert result.words[code("calm")] == 3
    assert result.both[code("calm")].tolist() == [1, 1, 1, 1, 0, 1, 1, 0]
    assert result.groups[group("Black Men")] == 1
    assert result.named.tolist() == [2, 3, 2]
    assert result.words_named[code("calm")].tolist() == [2, 2, 2]
    assert result.words_named[code("savage")].tolist() == [0, 1, 0]


def test_a_word_in_two_categories_is_searched_once_and_a_word_without_letters_is_refused():
    assert LEXICON.words["word"].tolist().count("calm") == 1
    with pytest.raises(InputError, match=r"'\?!': a word without a letter"):
        lexicons.lexicon(WORDS.assign(word="?!"), RACES, GENDERS)
    assert lexicons.forms("thief", True) == ["thief", "thieves"]
    result = count(pl.Series(["a calm black man"]), lexicons.lexicon(WORDS, RACES, {}))
    assert (result.groups.tolist(), result.named.tolist()) == ([1, 0], [1, 0, 0])


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
    total = no_counts(LEXICON)
    for caption in captions:
        text = unicodedata.normalize("NFC", caption.lower()).replace("\u00ad", "")
        message = [number for number, wanted in words.items() if any(form.search(text) for form in wanted)]
        races, genders = (naive(text, axis) for axis in (RACES, GENDERS))
        groups = [*races, *genders, *(f"{race} {gender}" for race in races for gender in genders)]
        named = [bool(races), bool(genders), bool(races and genders)]
        total.captions += 1
        total.named += named
        for name in groups:
            total.groups[group(name)] += 1
        for number in message:
            total.words[number] += 1
            total.words_named[number] += named
            for name in groups:
                total.both[number, group(name)] += 1
    return total


def naive(text, axis):
    of = {expression(form): name for name, listed in axis.items() for form in lexicons.name_forms(listed)}
    longest = sorted(of, key=len, reverse=True)
    result = re.finditer("|".join(f"({form})" for form in longest), text)
    return sorted({of[longest[match.lastindex - 1]] for match in result})


PIECES = [
    "calm", "Calm", "calmly", "criminals", "criminal", "mentally", "ill", "mentally ill", "third", "world",
    "third-world", "homemakers", "café", "cafe\u0301", "owner", "waving", "a", "flag", "savage", "savages",
    "black", "BLACK", "african", "American", "americans", "African-American", "afro", "englishmen", "white",
    "woman", "women", "man", "MEN", "gentleman", "kings", "queen", "kingdom", "girl", "7", "é", "ǅ", "日本",
]  # fmt: skip
BETWEEN = [
    " ", " ", " ", "-", "  ", ", ", ". ", "'s ", "’", "_", "/", "\n", " – ", "--", "\u2011", "\u00ad", "",
]  # fmt: skip
PIECE = st.tuples(st.sampled_from(PIECES), st.sampled_from(BETWEEN))


@settings(max_examples=60)
@given(st.lists(st.lists(PIECE, max_size=9), max_size=12), st.integers(0, 12))
@example([[("african", " "), ("American", " "), ("woman", "")]], 0)
def test_counts_of_batches_are_those_of_regular_expressions(drawn, at):
    captions = ["".join(piece + between for piece, between in caption) for caption in drawn]
    result, wanted = counts(*captions[:at]), reference(captions)
    result.add(counts(*captions[at:]))
    assert result.captions == wanted.captions
    for name in ("words", "groups", "both", "named", "words_named"):
        np.testing.assert_array_equal(getattr(result, name), getattr(wanted, name), err_msg=name)
