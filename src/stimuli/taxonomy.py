"""Read loaded words by category (So-B-IT, docs/methods.md, section 4), and compose their captions."""

from __future__ import annotations

import functools
import logging
import re
import string
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from src.configs import TaxonomyConfig
from src.errors import InputError, brief, did_you_mean, first_few
from src.stimuli.wordlists import frequent_words, normalise_text, read_mapping, read_types, refuse_repeats

if TYPE_CHECKING:
    import inflect

__all__ = ["compose_captions", "frequent_words", "words"]

log = logging.getLogger(__name__)

COLUMNS = ["category", "word", "type"]
LAYOUTS = "Write category: {type: [word, ...]}, or category: [word, ...] and set taxonomy.types."
# Words after `an` that inflect would put after `a`.
AN_PATTERNS = [
    "8.*",  # an 8-year-old
    r"1[18](\d\d\d?)?(\D.*)?",  # an 11-year-old, an 1800s villain; but a 110-year-old
    r"hiv\b.*",
    r"(?-i:LAPD|MI5|MI6|MIT|RAF|SAS|SUV)\b.*",  # spelt out, not read as words
    "uber.*",
]


def words(cfg: TaxonomyConfig) -> pd.DataFrame:
    """Load the words of a taxonomy, in the order of the list.

    Returns:
        `category`, `word`, `type`; a word may occur in several categories, once in each.

    Raises:
        InputError: the file cannot be read or has another layout; a word is empty, not text, without
            a type or of an unknown one, or it or its caption is repeated within a category; a category
            is empty or repeated; a template has no `{word}` or an unknown field.
    """
    _check_templates(cfg.captions)
    if cfg.untyped is not None:
        _check_type(cfg.untyped, cfg, "taxonomy.untyped")
    place = "taxonomy.categories" if cfg.path is None else cfg.path
    listed = cfg.categories if cfg.path is None else read_mapping(Path(cfg.path), "taxonomy.path", LAYOUTS)
    names = [normalise_text(category, place, "category", LAYOUTS) for category in listed]
    refuse_repeats(names, names, f"{place}: category")
    rows: list[tuple[str, str, str | None]] = []
    for name, content in zip(names, listed.values(), strict=True):
        within, count = f"{place}, {brief(name)}", len(rows)
        for kind, members in content.items() if isinstance(content, dict) else [(None, content)]:
            if isinstance(content, dict):
                _check_type(kind, cfg, within)
            if not isinstance(members, list | None):
                raise InputError(f"{within}: {members!r:.80} is not a list. {LAYOUTS}")
            rows += [(name, normalise_text(word, within, "word", LAYOUTS), kind) for word in members or []]
        if len(rows) == count:
            raise InputError(f"{within}: no words. Add some, or delete the category.")
    if not rows:
        raise InputError(f"{place}: no category. {LAYOUTS}")
    table = pd.DataFrame(rows, columns=COLUMNS)
    if cfg.types is not None:
        table["type"] = _types_with_file(table, cfg, place)
    table["type"] = _types_with_default(table, cfg, place)
    for category, members in table.groupby("category", sort=False):
        refuse_repeats(members["word"], members["word"], f"{place}, {category}:")
        captions = compose_captions(members, cfg, "literal")
        refuse_repeats(members["word"], captions, f"{place}, {category}: by its caption,")
    return table


def compose_captions(rows: pd.DataFrame, cfg: TaxonomyConfig, article: str) -> pd.Series:
    """Compose the caption of each word by its type, with the right article or literally "a/an"."""
    for kind in rows["type"].unique():
        _check_type(kind, cfg, "taxonomy.captions")
    captions = []
    for word, kind in zip(rows["word"], rows["type"], strict=True):
        caption = ""
        for literal, field, _, _ in reversed(list(string.Formatter().parse(cfg.captions[kind]))):
            fitting = article_of(caption) if field == "article" and article == "right" else "a/an"
            caption = literal + {None: "", "word": word, "article": fitting}[field] + caption
        captions.append(caption)
    return pd.Series(captions, index=rows.index, name="caption", dtype=str)


def _types_with_file(table: pd.DataFrame, cfg: TaxonomyConfig, place: str) -> list[str | None]:
    """Return the types of the words, from `taxonomy.types` if the list gives none; None if neither does."""
    assert cfg.types is not None
    types = read_types(Path(cfg.types))
    for word, kind in types.values():
        _check_type(kind, cfg, f"{cfg.types}, {brief(word)}")
    unknown = [types[key][0] for key in types.keys() - {word.casefold() for word in table["word"]}]
    if unknown:
        raise InputError(
            f"{cfg.types}: {len(unknown)} words are in no category of {place} "
            f"({first_few(sorted(unknown))}). Correct or delete them."
        )
    kinds: list[str | None] = []
    for word, kind in zip(table["word"], table["type"], strict=True):
        _, listed = types.get(word.casefold(), (word, kind))
        if kind is not None and kind != listed:
            raise InputError(f"{brief(word)!r} is {kind} in {place} and {listed} in {cfg.types}. Delete one.")
        kinds.append(listed)
    return kinds


def _types_with_default(table: pd.DataFrame, cfg: TaxonomyConfig, place: str) -> pd.Series:
    """Return the types, with `taxonomy.untyped` (and a warning) for words that have none."""
    untyped = table["type"].isna()
    if not untyped.any():
        return table["type"]
    if cfg.untyped is None:
        raise InputError(
            f"{place}: {untyped.sum()} words have no type ({first_few(table['word'][untyped])}). Set "
            "taxonomy.types to a file that gives each its type (word: type), or taxonomy.untyped to the type "
            f"of all of them ({', '.join(cfg.captions)}), or write category: {{type: [word, ...]}}."
        )
    types = table["type"].mask(untyped, cfg.untyped)
    captions = compose_captions(table[untyped].assign(type=cfg.untyped), cfg, "right")
    _warn_once(
        f"{place}: {untyped.sum()} words without a type are captioned as {cfg.untyped} (taxonomy.untyped): "
        f"{first_few(map(repr, captions))}. If some are of another type, set taxonomy.types=FILE."
    )
    return types


@functools.cache
def _warn_once(message: str) -> None:
    # A job reads its words several times.
    log.warning(message)


def _check_templates(captions: dict[str, str]) -> None:
    for kind, template in captions.items():
        place = f"taxonomy.captions.{kind}={template!r}"
        try:
            parsed = list(string.Formatter().parse(template))
        except ValueError as error:
            raise InputError(f"{place}: {error}. Write {{word}} and {{article}}.") from None
        fields = [field for _, field, _, _ in parsed if field is not None]
        is_plain = not any(spec or conversion for _, _, spec, conversion in parsed)
        if "word" not in fields or not {"word", "article"} >= set(fields) or not is_plain:
            raise InputError(f"{place}: a caption has {{word}}, may have {{article}}, and no other field.")


def _check_type(kind: Any, cfg: TaxonomyConfig, place: str) -> None:
    if kind not in cfg.captions:
        raise InputError(
            f"{place}: unknown type {brief(str(kind))!r}.{did_you_mean(kind, cfg.captions)} "
            f"Known: {', '.join(cfg.captions)}. Correct it, or give it a caption: "
            f"'+taxonomy.captions.{brief(str(kind))}=\"a photo of {{article}} {{word}}\"'."
        )


def article_of(following: str) -> str:
    """Return the indefinite article that agrees with the following text, in British use (a herb, a historic).

    >>> [article_of(text) for text in ["hour", "European", "one-eyed person", "HIV-positive person"]]
    ['an', 'a', 'a', 'an']
    """
    decomposed = unicodedata.normalize("NFD", following)
    unaccented = "".join(char for char in decomposed if not unicodedata.combining(char))
    # Only the first word: inflect takes the `a` of `a cappella` for an article.
    first_word = re.search(r"\w\S*", unaccented)
    return _engine().a(first_word[0]).split()[0] if first_word else "a"


@functools.cache
def _engine() -> inflect.engine:
    import inflect  # takes two seconds

    engine = inflect.engine()
    for pattern in AN_PATTERNS:
        engine.defan(pattern)
    return engine
