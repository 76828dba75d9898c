"""Build the lexicon of captions: the words of a taxonomy, and the words that name groups."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import inflect
import pandas as pd
import polars as pl

from src.errors import InputError

RACE, GENDER, BOTH = "race", "gender", "both"
NOUN = "noun"
INFLECT: Any = inflect.engine()  # Any: inflect has its own text type
# inflect returns "gentlemans" and "thiefs".
INFLECT.defnoun("gentleman", "gentlemen")
INFLECT.defnoun("thief", "thieves")
CHARACTERS = r"\p{L}\p{M}\p{N}"  # characters of words, for a character class
# Invisible characters within words: soft hyphen, joiners, byte order mark.
INVISIBLE = r"[\x{ad}\x{200c}\x{200d}\x{2060}\x{feff}]"
# Hyphen-minus, hyphen, non-breaking hyphen; dashes separate words.
HYPHENS = "-\u2010\u2011"
SEPARATOR = " | "  # separator that no entry of several words spans


@dataclass(frozen=True)
class Lexicon:
    """The words and groups that captions are searched for."""

    words: pd.DataFrame  # `word`, `type`: each once, whatever its categories; the code is the row
    groups: pd.DataFrame  # `axis`, `group`: race, then gender, then both (every race with every gender)
    word_forms: pl.DataFrame  # `form` (see `normalise`) and `code` of the words
    # The same for race and for gender; the code is the row within the axis.
    group_forms: tuple[pl.DataFrame, pl.DataFrame]

    def members(self, axis: str) -> list[str]:
        """Return the names of the groups of an axis."""
        return [str(name) for name in self.groups.loc[self.groups["axis"] == axis, "group"]]


def normalise(texts: pl.Expr) -> pl.Expr:
    """Normalise texts to the form in which words are searched for.

    Lower case, Unicode NFC. A word is a run of letters, marks and digits of any script; soft hyphens and
    invisible joiners are dropped. Words joined by one hyphen or by white space of any length have two
    spaces between them, so that each has a space on both sides; anything else between words
    (an apostrophe, a comma, a dash, a hyphen next to a space) becomes ` | `, which no entry of several
    words spans.

    >>> pl.DataFrame({"t": ["A Third-World  man's"]}).select(normalise(pl.col("t"))).item()
    ' a  third  world  man | s '
    """
    lowered = texts.str.to_lowercase().str.normalize("NFC").str.replace_all(INVISIBLE, "")
    spaced = lowered.str.replace_all(r"\s+", " ").str.replace_all(rf"[^{CHARACTERS}]{{2,}}", "|")
    separated = spaced.str.replace_all(rf"[^{CHARACTERS} {HYPHENS[1:]}-]", "|")
    return " " + separated.str.replace_many([" ", *HYPHENS, "|"], [*["  "] * 4, SEPARATOR]) + " "


def forms(word: str, noun: bool) -> list[str]:
    """Return the forms of a word in captions: as written, and the plural of a noun (inflect).

    >>> forms("criminal", True), forms("calm", False), forms("third-world", False)
    (['criminal', 'criminals'], ['calm'], ['third-world'])
    """
    return list(dict.fromkeys([word, _plural(word)] if noun else [word]))


def name_forms(words: Sequence[str]) -> list[str]:
    """Return a group's words and their plurals, as in captions; a word listed as a plural has no plural.

    >>> name_forms(["korean", "koreans", "englishman"])
    ['korean', 'koreans', 'englishman', 'englishmen']
    """
    plurals = {_plural(word) for word in words}
    return list(dict.fromkeys(form for word in words for form in forms(word, word.lower() not in plurals)))


def _plural(word: str) -> str:
    # Lower case, as inflect adds a capital S to capitals.
    return str(INFLECT.plural_noun(word.lower()))


def lexicon(
    words: pd.DataFrame, races: Mapping[str, Sequence[str]], genders: Mapping[str, Sequence[str]]
) -> Lexicon:
    """Build the lexicon of captions from a taxonomy's words, and the words of each race and gender.

    A word in several categories is searched for once. Nouns and words of groups are also searched for in the
    plural; adjectives and activities as written.

    Raises:
        InputError: a word has no letter or digit.
    """
    distinct = words[["word", "type"]].drop_duplicates(ignore_index=True)
    pairs = zip(distinct["word"], distinct["type"], strict=True)
    entries = [(form, code) for code, (word, kind) in enumerate(pairs) for form in forms(word, kind == NOUN)]
    group_forms = [
        [(form, code) for code, group_words in enumerate(axis.values()) for form in name_forms(group_words)]
        for axis in (races, genders)
    ]
    groups = [(RACE, race) for race in races] + [(GENDER, gender) for gender in genders]
    groups += [(BOTH, f"{race} {gender}") for race in races for gender in genders]
    race, gender = (_normalised_forms(axis) for axis in group_forms)
    table = pd.DataFrame(groups, columns=["axis", "group"])
    return Lexicon(distinct, table, _normalised_forms(entries), (race, gender))


def _normalised_forms(pairs: Iterable[tuple[str, int]]) -> pl.DataFrame:
    """Return `form` and `code`, the longest form first: of two forms at one place the first wins."""
    frame = pl.DataFrame(list(pairs), schema={"word": pl.String, "code": pl.Int64}, orient="row")
    frame = frame.with_columns(form=" " + normalise(pl.col("word")).str.strip_chars(" |") + " ")
    bare = frame.filter(pl.col("form").str.strip_chars() == "")
    if len(bare):
        raise InputError(
            f"{bare['word'][0]!r}: a word without a letter or digit cannot be sought. Remove it."
        )
    distinct = frame.select("form", "code").unique(maintain_order=True)
    return distinct.sort(pl.col("form").str.len_bytes(), descending=True, maintain_order=True)
