"""Load the words of a taxonomy by category (So-B-IT, docs/methods.md, section 4); compose their captions."""

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
from src.stimuli.wordlists import normalise_text, read_mapping, read_types, refuse_repeats

if TYPE_CHECKING:
    import inflect

log = logging.getLogger(__name__)

COLUMNS = ["category", "word", "type"]
LAYOUTS = (
    "Write category: {type: [word, ...]}, or category: [word, ...] and set taxonomy.types or "
    "taxonomy.untyped."
)
# Patterns of words with the article `an`, for which inflect would return `a`.
AN_PATTERNS = [
    "8.*",  # an 8-year-old
    r"1[18](\d\d\d?)?(\D.*)?",  # an 11-year-old, an 1800s villain; but a 110-year-old
    r"hiv\b.*",
    r"(?-i:LAPD|MI5|MI6|MIT|RAF|SAS|SUV)\b.*",  # spelt out, not read as words
    "uber.*",
]


def load_words(cfg: TaxonomyConfig) -> pd.DataFrame:
    """Load the words of a taxonomy, in its order.

    Returns:
        Columns `category`, `word`, `type`; a word may occur in several categories, once in each.

    Raises:
        InputError: the file, or that of `taxonomy.types`, is unreadable or has another layout; a word is
            empty, not text, or without a known type; a word, or its caption, occurs twice in a category; a
            category is empty or repeated; the taxonomy and the file give a word different types, or the file
            has words that are not in the taxonomy; a template lacks `{word}`, or has an unknown field.
    """
    _check_templates(cfg.captions)
    if cfg.untyped is not None:
        _check_type(cfg.untyped, cfg, "taxonomy.untyped")
    location = "taxonomy.categories" if cfg.path is None else cfg.path
    categories = (
        cfg.categories if cfg.path is None else read_mapping(Path(cfg.path), "taxonomy.path", LAYOUTS)
    )
    names = [normalise_text(category, location, "category", LAYOUTS) for category in categories]
    refuse_repeats(names, names, f"{location}: category")
    rows: list[tuple[str, str, str | None]] = []
    for name, content in zip(names, categories.values(), strict=True):
        category_location, count = f"{location}, {brief(name)}", len(rows)
        for kind, values in content.items() if isinstance(content, dict) else [(None, content)]:
            if isinstance(content, dict):
                _check_type(kind, cfg, category_location)
            if not isinstance(values, list | None):
                raise InputError(f"{category_location}: {values!r:.80} is not a list. {LAYOUTS}")
            texts = [normalise_text(value, category_location, "word", LAYOUTS) for value in values or []]
            rows += [(name, word, kind) for word in texts]
        if len(rows) == count:
            raise InputError(f"{category_location}: no words. Add some, or delete the category.")
    if not rows:
        raise InputError(f"{location}: no category. {LAYOUTS}")
    table = pd.DataFrame(rows, columns=COLUMNS)
    if cfg.types is not None:
        table["type"] = _merge_types(table, cfg, location)
    table["type"] = _fill_missing_types(table, cfg, location)
    for category, category_rows in table.groupby("category", sort=False):
        category_words = category_rows["word"]
        refuse_repeats(category_words, category_words, f"{location}, {category}:")
        captions = compose_captions(category_rows, cfg, "literal")
        refuse_repeats(category_words, captions, f"{location}, {category}: by its caption,")
    return table


def compose_captions(rows: pd.DataFrame, cfg: TaxonomyConfig, article: str) -> pd.Series:
    """Compose the caption of each word by its type.

    `article`: `"right"` for `a` or `an`, as the following text needs it, or `"literal"` for the text `a/an`.
    Raises `InputError` for a type without a caption.
    """
    for kind in rows["type"].unique():
        _check_type(kind, cfg, "taxonomy.captions")
    captions = []
    for word, kind in zip(rows["word"], rows["type"], strict=True):
        caption = ""
        # From right to left, as an article depends on the text that follows it.
        for literal, field, _, _ in reversed(list(string.Formatter().parse(cfg.captions[kind]))):
            article_text = choose_article(caption) if field == "article" and article == "right" else "a/an"
            caption = literal + {None: "", "word": word, "article": article_text}[field] + caption
        captions.append(caption)
    return pd.Series(captions, index=rows.index, name="caption", dtype=str)


def _merge_types(table: pd.DataFrame, cfg: TaxonomyConfig, location: str) -> list[str | None]:
    """Merge the types in the taxonomy and in the file `taxonomy.types`; None for a word without type.

    Raises `InputError` for an unknown type, a word of the file that is not in the taxonomy, or a word whose
    types in the taxonomy and in the file differ.
    """
    assert cfg.types is not None
    types = read_types(Path(cfg.types))
    for word, kind in types.values():
        _check_type(kind, cfg, f"{cfg.types}, {brief(word)}")
    unknown_words = [types[key][0] for key in types.keys() - {word.casefold() for word in table["word"]}]
    if unknown_words:
        raise InputError(
            f"{cfg.types}: {len(unknown_words)} words are in no category of {location} "
            f"({first_few(sorted(unknown_words))}). Correct or delete them."
        )
    kinds: list[str | None] = []
    for word, kind in zip(table["word"], table["type"], strict=True):
        _, kind_in_file = types.get(word.casefold(), (word, kind))
        if kind is not None and kind != kind_in_file:
            raise InputError(
                f"{brief(word)!r} is {kind} in {location} and {kind_in_file} in {cfg.types}. Delete one."
            )
        kinds.append(kind_in_file)
    return kinds


def _fill_missing_types(table: pd.DataFrame, cfg: TaxonomyConfig, location: str) -> pd.Series:
    """Return the type of each word; words without a type get `taxonomy.untyped`, with a warning.

    Raises `InputError` if there are such words and `taxonomy.untyped` is not set.
    """
    is_untyped = table["type"].isna()
    if not is_untyped.any():
        return table["type"]
    if cfg.untyped is None:
        raise InputError(
            f"{location}: {is_untyped.sum()} words have no type ({first_few(table['word'][is_untyped])}). "
            "Set taxonomy.types to a file that gives each its type (word: type), or taxonomy.untyped to the "
            f"type of all of them ({', '.join(cfg.captions)}), or write category: {{type: [word, ...]}}."
        )
    types = table["type"].mask(is_untyped, cfg.untyped)
    captions = compose_captions(table[is_untyped].assign(type=cfg.untyped), cfg, "right")
    _warn_once(
        f"{location}: {is_untyped.sum()} words without a type are captioned as {cfg.untyped} "
        f"(taxonomy.untyped): {first_few(map(repr, captions))}. If some are of another type, "
        "set taxonomy.types=FILE."
    )
    return types


@functools.cache
def _warn_once(message: str) -> None:
    # A job loads its words several times.
    log.warning(message)


def _check_templates(captions: dict[str, str]) -> None:
    for kind, template in captions.items():
        location = f"taxonomy.captions.{kind}={template!r}"
        try:
            parsed = list(string.Formatter().parse(template))
        except ValueError as error:
            raise InputError(f"{location}: {error}. Write {{word}} and {{article}}.") from None
        fields = [field for _, field, _, _ in parsed if field is not None]
        is_plain = not any(spec or conversion for _, _, spec, conversion in parsed)
        if "word" not in fields or not {"word", "article"} >= set(fields) or not is_plain:
            raise InputError(f"{location}: expected {{word}}, optionally {{article}}, and no other field.")


def _check_type(kind: Any, cfg: TaxonomyConfig, location: str) -> None:
    if kind not in cfg.captions:
        raise InputError(
            f"{location}: unknown type {brief(str(kind))!r}.{did_you_mean(kind, cfg.captions)} "
            f"Known: {', '.join(cfg.captions)}. Correct it, or give it a caption: "
            f"'+taxonomy.captions.{brief(str(kind))}=\"a photo of {{article}} {{word}}\"'."
        )


@functools.cache
def choose_article(following: str) -> str:
    """Return the indefinite article that agrees with the following text, in British use (a herb, a historic).

    >>> [choose_article(text) for text in ["hour", "European", "one-eyed person", "HIV-positive person"]]
    ['an', 'a', 'a', 'an']
    """
    decomposed = unicodedata.normalize("NFD", following)
    unaccented = "".join(char for char in decomposed if not unicodedata.combining(char))
    # Only the first word: inflect would take the `a` of `a cappella` for an article.
    first_word = re.search(r"\w\S*", unaccented)
    return _make_engine().a(first_word[0]).split()[0] if first_word else "a"


@functools.cache
def _make_engine() -> inflect.engine:
    import inflect  # takes two seconds

    engine = inflect.engine()
    for pattern in AN_PATTERNS:
        engine.defan(pattern)
    return engine
