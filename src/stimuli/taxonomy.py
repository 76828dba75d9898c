"""Loaded words by category (So-B-IT, docs/methods.md, section 4), and the captions that they stand in."""

from __future__ import annotations

import difflib
import functools
import itertools
import logging
import string
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from src.configs import TaxonomyConfig
from src.errors import InputError, brief
from src.stimuli.articles import article_of
from src.stimuli.vocabulary import frequent
from src.stimuli.wordlists import checked_text, read_mapping, read_types, refuse_repeats

__all__ = ["captioned", "frequent", "words"]

log = logging.getLogger(__name__)

COLUMNS = ["category", "word", "type"]
# Of a name for which a near one is looked for: the search grows with the square of it.
LONGEST = 100
LAYOUTS = "Write category: {type: [word, ...]}, or category: [word, ...] and set taxonomy.types."
# Words and captions that a message shows.
SHOWN = 5


def words(cfg: TaxonomyConfig) -> pd.DataFrame:
    """The words of a taxonomy, in the order of the list.

    Returns:
        `category`, `word`, `type`; a word may stand in several categories, in each once.

    Raises:
        InputError: the file cannot be read or has another layout; a word is empty, not text, without
            a type or of an unknown one, or stands in one category twice, be it by its caption; a category
            is empty or stands there twice; a template has no `{word}` or an unknown field.
    """
    _templates(cfg.captions)
    if cfg.untyped is not None:
        _known(cfg.untyped, cfg, "taxonomy.untyped")
    place = "taxonomy.categories" if cfg.path is None else cfg.path
    listed = cfg.categories if cfg.path is None else read_mapping(Path(cfg.path), "taxonomy.path", LAYOUTS)
    names = [checked_text(category, place, "category", LAYOUTS) for category in listed]
    refuse_repeats(names, names, f"{place}: category")
    rows = [row for category, content in listed.items() for row in _rows(category, content, cfg, place)]
    if not rows:
        raise InputError(f"{place}: no category. {LAYOUTS}")
    found = pd.DataFrame(rows, columns=COLUMNS)
    if cfg.types is not None:
        found["type"] = _typed(found, cfg, place)
    found["type"] = _assumed(found, cfg, place)
    for category, members in found.groupby("category", sort=False):
        refuse_repeats(members["word"], members["word"], f"{place}, {category}:")
        captions = captioned(members, cfg, "literal")
        refuse_repeats(members["word"], captions, f"{place}, {category}: by its caption,")
    return found


def captioned(chosen: pd.DataFrame, cfg: TaxonomyConfig, article: str) -> pd.Series:
    """The caption of each word, by its type.

    Args:
        chosen: `word` and `type`.
        cfg: with the templates.
        article: `right` for the one that agrees with what follows it, `literal` for "a/an".

    Returns:
        `caption`, with the index of `chosen`.

    Raises:
        InputError: there is no template of a type.
    """
    for kind in chosen["type"].unique():
        _known(kind, cfg, "taxonomy.captions")
    captions = [
        _caption(cfg.captions[kind], word, article)
        for word, kind in zip(chosen["word"], chosen["type"], strict=True)
    ]
    return pd.Series(captions, index=chosen.index, name="caption", dtype=str)


def _typed(found: pd.DataFrame, cfg: TaxonomyConfig, place: str) -> list[str | None]:
    """Types from the list, and from the second file where the list gives none."""
    assert cfg.types is not None
    types = read_types(Path(cfg.types))
    for word, kind in types.values():
        _known(kind, cfg, f"{cfg.types}, {brief(word)}")
    strange = [types[key][0] for key in types.keys() - {word.casefold() for word in found["word"]}]
    if strange:
        raise InputError(
            f"{cfg.types}: {len(strange)} words of it stand in no category of {place} "
            f"({_listed(sorted(strange))}). Correct or delete them."
        )
    kinds: list[str | None] = []
    for word, kind in zip(found["word"], found["type"], strict=True):
        _, other = types.get(word.casefold(), (word, kind))
        if kind is not None and kind != other:
            raise InputError(
                f"{brief(word)!r} is {kind} in {place} and {other} in {cfg.types}. Delete one of them."
            )
        kinds.append(other)
    return kinds


def _assumed(found: pd.DataFrame, cfg: TaxonomyConfig, place: str) -> pd.Series:
    """The types, with that of the untyped for all that have none, which is said."""
    untyped = found["type"].isna()
    if not untyped.any():
        return found["type"]
    if cfg.untyped is None:
        raise InputError(
            f"{place}: {untyped.sum()} words have no type ({_listed(found['word'][untyped])}). Set "
            "taxonomy.types to a file that gives each its type (word: type), or taxonomy.untyped to the type "
            f"of all of them ({', '.join(cfg.captions)}), or write category: {{type: [word, ...]}}."
        )
    types = found["type"].mask(untyped, cfg.untyped)
    captions = captioned(found[untyped].assign(type=cfg.untyped), cfg, "right")
    _warn_once(
        f"{place}: {untyped.sum()} words without a type are captioned as {cfg.untyped} (taxonomy.untyped): "
        f"{_listed(map(repr, captions))}. If some are of another type, set taxonomy.types=FILE (word: type)."
    )
    return types


@functools.cache
def _warn_once(message: str) -> None:
    # The words of a job are read several times over.
    log.warning(message)


def _listed(names: Iterable[str]) -> str:
    first = [brief(name) for name in itertools.islice(names, SHOWN + 1)]
    return ", ".join(first[:SHOWN] + ["…"] * (len(first) > SHOWN))


def _templates(captions: dict[str, str]) -> None:
    for kind, template in captions.items():
        place = f"taxonomy.captions.{kind}={template!r}"
        try:
            parsed = list(string.Formatter().parse(template))
        except ValueError as error:
            raise InputError(f"{place}: {error}. Write {{word}} and {{article}}.") from None
        fields = [field for _, field, _, _ in parsed if field is not None]
        plain = not any(spec or conversion for _, _, spec, conversion in parsed)
        if "word" not in fields or not {"word", "article"} >= set(fields) or not plain:
            raise InputError(
                f"{place}: a caption has {{word}}, may have {{article}}, and no other {{field}}."
            )


def _known(kind: Any, cfg: TaxonomyConfig, place: str) -> str:
    if kind in cfg.captions:
        return str(kind)
    near = difflib.get_close_matches(str(kind)[:LONGEST], cfg.captions, n=1)
    raise InputError(
        f"{place}: no type is called {brief(str(kind))!r}{f'; did you mean {near[0]}?' if near else '.'} "
        f"There are {', '.join(cfg.captions)}. Correct it, or give it a caption: "
        f"'+taxonomy.captions.{brief(str(kind))}=\"a photo of {{article}} {{word}}\"'."
    )


def _rows(category: Any, content: Any, cfg: TaxonomyConfig, place: str) -> list[tuple[str, str, str | None]]:
    name = checked_text(category, place, "category", LAYOUTS)
    place = f"{place}, {brief(name)}"
    typed = content if isinstance(content, dict) else {None: content}
    rows: list[tuple[str, str, str | None]] = []
    for kind, members in typed.items():
        if isinstance(content, dict):
            _known(kind, cfg, place)
        if not isinstance(members, list | None):
            raise InputError(f"{place}: {members!r:.80} is no list. {LAYOUTS}")
        rows += [(name, checked_text(word, place, "word", LAYOUTS), kind) for word in members or []]
    if not rows:
        raise InputError(f"{place}: no words. Add some, or delete the category.")
    return rows


def _caption(template: str, word: str, article: str) -> str:
    caption = ""
    for literal, field, _, _ in reversed(list(string.Formatter().parse(template))):
        filled = {None: "", "word": word, "article": "a/an"}[field]
        if field == "article" and article == "right":
            filled = article_of(caption)
        caption = literal + filled + caption
    return caption
