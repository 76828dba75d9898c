"""Check which captions mention a word or name a group: by hand, and against regular expressions."""

import re
import unicodedata

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from src.errors import InputError
from src.studies.sobit.captions import lexicon as lexicons
from src.studies.sobit.captions.counting import count_captions, create_counts
from tests.studies.sobit.captions.examples import GENDERS, LEXICON, RACES, WORDS, group_index, word_index


def count_mentions(*captions):
    return count_captions(pl.Series(captions, dtype=pl.String), LEXICON)


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
    result = count_mentions(caption)
    mentioned = LEXICON.words["word"].to_numpy()[result.words > 0]
    assert {*mentioned, *LEXICON.groups["group"].to_numpy()[result.groups > 0]} == names


def test_a_caption_counts_once():
    result = count_mentions("calm black calm man, black king", "a calm white woman", "calm", "savage queen")
    assert result.captions == 4
    assert result.words[word_index("calm")] == 3
    # Black, White, Women, Men, Black Women, Black Men, White Women, White Men.
    assert result.both[word_index("calm")].tolist() == [1, 1, 1, 1, 0, 1, 1, 0]
    assert result.groups[group_index("Black Men")] == 1
    assert result.named.tolist() == [2, 3, 2]
    assert result.words_named[word_index("calm")].tolist() == [2, 2, 2]
    assert result.words_named[word_index("savage")].tolist() == [0, 1, 0]


def test_words_are_searched_once_with_irregular_plurals_and_a_word_of_signs_is_refused():
    assert LEXICON.words["word"].tolist().count("calm") == 1
    with pytest.raises(InputError, match=r"'\?!': a word without a letter or digit"):
        lexicons.build_lexicon(WORDS.assign(word="?!"), {"race": RACES, "gender": GENDERS})
    assert lexicons.list_forms("thief", is_noun=True) == ["thief", "thieves"]
    result = count_captions(
        pl.Series(["a calm black man"]), lexicons.build_lexicon(WORDS, {"race": RACES, "gender": {}})
    )
    assert (result.groups.tolist(), result.named.tolist()) == ([1, 0], [1, 0, 0])


# No letter or digit comes before a word, or after it.
EDGES = r"(?<![^\W_])", r"(?![^\W_])"


def pattern(form):
    words = re.split(r"[\s-]", unicodedata.normalize("NFC", form.lower()))
    return EDGES[0] + r"(?:\s+|[-\u2010\u2011])".join(map(re.escape, words)) + EDGES[1]


def reference(captions):
    """Count a caption at a time, by one regular expression per form of a word and one per axis of groups."""
    words = {
        word_index(word): [
            re.compile(pattern(form)) for form in lexicons.list_forms(word, is_noun=kind == "noun")
        ]
        for word, kind in zip(WORDS["word"], WORDS["type"], strict=True)
    }
    total = create_counts(LEXICON)
    for caption in captions:
        text = unicodedata.normalize("NFC", caption.lower()).replace("\u00ad", "")
        mentioned = [number for number, wanted in words.items() if any(form.search(text) for form in wanted)]
        races, genders = (named_groups(text, axis) for axis in (RACES, GENDERS))
        groups = [*races, *genders, *(f"{race} {gender}" for race in races for gender in genders)]
        named = [bool(races), bool(genders), bool(races and genders)]
        total.captions += 1
        total.named += named
        for name in groups:
            total.groups[group_index(name)] += 1
        for number in mentioned:
            total.words[number] += 1
            total.words_named[number] += named
            for name in groups:
                total.both[number, group_index(name)] += 1
    return total


def named_groups(text, axis):
    group_of = {
        pattern(form): name for name, listed in axis.items() for form in lexicons.list_group_forms(listed)
    }
    longest = sorted(group_of, key=len, reverse=True)
    matches = re.finditer("|".join(f"({form})" for form in longest), text)
    return sorted({group_of[longest[match.lastindex - 1]] for match in matches})


FRAGMENTS = [
    "calm", "Calm", "calmly", "criminals", "criminal", "mentally", "ill", "mentally ill", "third", "world",
    "third-world", "homemakers", "café", "cafe\u0301", "owner", "waving", "a", "flag", "savage", "savages",
    "black", "BLACK", "african", "American", "americans", "African-American", "afro", "englishmen", "white",
    "woman", "women", "man", "MEN", "gentleman", "kings", "queen", "kingdom", "girl", "7", "é", "ǅ", "日本",
]  # fmt: skip
SEPARATORS = [
    " ", " ", " ", "-", "  ", ", ", ". ", "'s ", "’", "_", "/", "\n", " – ", "--", "\u2011", "\u00ad", "",
]  # fmt: skip
FRAGMENT = st.tuples(st.sampled_from(FRAGMENTS), st.sampled_from(SEPARATORS))


@settings(max_examples=60)
@given(st.lists(st.lists(FRAGMENT, max_size=9), max_size=12), st.integers(0, 12))
@example([[("african", " "), ("American", " "), ("woman", "")]], 0)
def test_counts_of_batches_are_those_of_regular_expressions(drawn, split):
    captions = ["".join(fragment + separator for fragment, separator in caption) for caption in drawn]
    result, wanted = count_mentions(*captions[:split]), reference(captions)
    result.add(count_mentions(*captions[split:]))
    assert result.captions == wanted.captions
    for name in ("words", "groups", "both", "named", "words_named"):
        np.testing.assert_array_equal(getattr(result, name), getattr(wanted, name), err_msg=name)
