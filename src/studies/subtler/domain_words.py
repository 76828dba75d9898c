"""The words of a domain's YAML, and what each entry of it must be."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from src.errors import InputError, brief
from src.stimuli import safe_yaml

LISTS = ("positive", "negative", "neutral")
# Of a name for which a near one is looked for: the search grows with the square of it.
LONGEST = 100
PAIRS = ("pairs", "neutral")


class Words(NamedTuple):
    """What may stand in a slot, each word once; if paired, the n-th positive and negative are opposites."""

    positive: list[str]
    negative: list[str]
    neutral: list[str]
    paired: bool

    def options(self) -> list[tuple[str, str, str]]:
        """Every positive, negative and neutral word that can be asked together, in the order of the lists."""
        opposites = (
            zip(self.positive, self.negative, strict=True)
            if self.paired
            else ((positive, negative) for positive in self.positive for negative in self.negative)
        )
        return [(*two, neutral) for two in opposites for neutral in self.neutral]


def words(content: Any, place: str) -> Words:
    """The words of `stimuli` or `attributes`.

    Args:
        content: `neutral`, and `pairs` of a positive and a negative word, or lists `positive` and `negative`.
        place: what errors name.

    Raises:
        InputError: a list is missing, unknown or empty; a word is none, or stands there twice.
    """
    lists = mapping(content, place)
    paired = "pairs" in lists
    names = PAIRS if paired else LISTS
    known(lists, names, place, "list")
    for name in names:
        if not is_list(lists.get(name)) or not lists[name]:
            raise InputError(
                f"{place}.{name}: no list of words. An item has three different options, a positive, a "
                "negative and a neutral one: write pairs and neutral, or positive, negative and neutral."
            )
    if paired:
        if not all(is_list(pair) and len(pair) == 2 for pair in lists["pairs"]):
            raise InputError(f"{place}.pairs: not all are pairs. Write - [positive, negative] on each line.")
        positive, negative = zip(*lists["pairs"], strict=True)
        lists = {"positive": positive, "negative": negative, "neutral": lists["neutral"]}
    found = {name: [text(word, f"{place}.{name}") for word in lists[name]] for name in LISTS}
    _once([word for name in LISTS for word in found[name]], place)
    return Words(found["positive"], found["negative"], found["neutral"], paired)


def _once(listed: Iterable[str], place: str) -> None:
    first: dict[str, str] = {}
    for word in listed:
        if word.casefold() in first:
            raise InputError(
                f"{place}: {word!r} stands there already, as {first[word.casefold()]!r}: options of "
                "an item, or items, would repeat. Delete one of them."
            )
        first[word.casefold()] = word


def text(value: Any, place: str) -> str:
    """A text or a whole number, composed (NFC), its blanks single."""
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise InputError(
            f"{place}: {value!r:.80} is no text. A bare no, yes, on or null is none to YAML: quote it."
        )
    clean = " ".join(unicodedata.normalize("NFC", str(value)).split())
    if not clean:
        raise InputError(f"{place}: an empty text. Delete it.")
    if not safe_yaml.is_text(clean):
        raise InputError(
            f"{place}: {clean!r:.80} holds half of a character. Write it as text, without escapes."
        )
    if "blank" in clean.casefold():
        raise InputError(f"{place}: {clean!r}: BLANK marks what an item asks for. Write something else.")
    return clean


def known(names: Iterable[Any], choices: Iterable[str], place: str, what: str) -> None:
    """Refuse a name that is none of the choices, with the nearest one."""
    listed = list(choices)
    for name in names:
        if name not in listed:
            near = difflib.get_close_matches(str(name)[:LONGEST], listed, n=1)
            raise InputError(
                f"{place}: no {what} is called {brief(name)!r}"
                f"{f'; did you mean {near[0]}?' if near else '.'} There are {', '.join(listed)}. Correct it."
            )


def mapping(content: Any, place: str) -> Mapping[Any, Any]:
    """A mapping that is not empty."""
    if not isinstance(content, Mapping) or not content:
        raise InputError(
            f"{place}: {content!r:.80} where names with contents are looked for. Write name: content."
        )
    return content


def is_list(content: Any) -> bool:
    """Whether YAML or OmegaConf read this as a list."""
    return isinstance(content, Sequence) and not isinstance(content, str)
