"""Parse the words of a domain's YAML, and check its entries."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from src.errors import InputError, brief, did_you_mean
from src.stimuli.wordlists import normalise_text, refuse_repeats

WORD_LISTS = ("positive", "negative", "neutral")
PAIRED_LISTS = ("pairs", "neutral")


class Words(NamedTuple):
    """Unique words for a slot; if paired, the n-th positive and negative words are opposites."""

    positive: list[str]
    negative: list[str]
    neutral: list[str]
    paired: bool

    def options(self) -> list[tuple[str, str, str]]:
        """Return every option triple of a positive, negative and neutral word, in the order of the lists."""
        pairs = zip(self.positive, self.negative, strict=True)
        word_pairs = pairs if self.paired else itertools.product(self.positive, self.negative)
        return [(*word_pair, neutral) for word_pair in word_pairs for neutral in self.neutral]


def parse_words(content: Any, entry: str) -> Words:
    """Parse the words of `stimuli` or `attributes`: `neutral`, and `pairs` or `positive` and `negative`."""
    lists = as_mapping(content, entry)
    is_paired = "pairs" in lists
    names = PAIRED_LISTS if is_paired else WORD_LISTS
    check_known(lists, names, entry, "list")
    for name in names:
        if not is_list(lists.get(name)) or not lists[name]:
            raise InputError(
                f"{entry}.{name}: expected a list of words. An item has three different options, positive, "
                "negative and neutral: write pairs and neutral, or positive, negative and neutral."
            )
    if is_paired:
        if not all(is_list(pair) and len(pair) == 2 for pair in lists["pairs"]):
            raise InputError(f"{entry}.pairs: not all are pairs. Write - [positive, negative] on each line.")
        positive, negative = zip(*lists["pairs"], strict=True)
        lists = {"positive": positive, "negative": negative, "neutral": lists["neutral"]}
    texts = {name: [parse_text(word, f"{entry}.{name}") for word in lists[name]] for name in WORD_LISTS}
    # With a repeated word, options of an item, or items, would repeat.
    all_words = [word for name in WORD_LISTS for word in texts[name]]
    refuse_repeats(all_words, all_words, f"{entry}:")
    return Words(texts["positive"], texts["negative"], texts["neutral"], is_paired)


def parse_text(value: Any, entry: str) -> str:
    """Normalise a text or an integer to Unicode NFC with single spaces."""
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    clean = normalise_text(str(value) if is_integer else value, entry, "text", "Write a text.")
    if "blank" in clean.casefold():
        raise InputError(f"{entry}: {clean!r}: BLANK marks the gap of an item. Write something else.")
    return clean


def check_known(names: Iterable[Any], choices: Iterable[str], entry: str, kind: str) -> None:
    """Raise `InputError` for a name that is not among the choices, with the nearest one."""
    known = list(choices)
    for name in names:
        if name not in known:
            raise InputError(
                f"{entry}: unknown {kind} {brief(name)!r}.{did_you_mean(name, known)} Known: "
                f"{', '.join(known)}. Correct it."
            )


def as_mapping(content: Any, entry: str) -> Mapping[Any, Any]:
    """Return the content if it is a non-empty mapping; raise `InputError` otherwise."""
    if not isinstance(content, Mapping) or not content:
        raise InputError(f"{entry}: expected names with contents, got {content!r:.80}. Write name: content.")
    return content


def is_list(content: Any) -> bool:
    """Return whether YAML or OmegaConf read the content as a list."""
    return isinstance(content, Sequence) and not isinstance(content, str)
