"""Loaded words by category (So-B-IT, docs/methods.md, section 4), and the captions that they stand in."""

from __future__ import annotations

import difflib
import string
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from src.configs import TaxonomyConfig
from src.errors import InputError, brief
from src.stimuli import plain
from src.stimuli.articles import article_of
from src.stimuli.vocabulary import frequent, read

__all__ = ["captioned", "frequent", "words"]

COLUMNS = ["category", "word", "type"]
# Of a name for which a near one is looked for: the search grows with the square of it.
LONGEST = 100
LAYOUTS = "Write category: {type: [word, ...]}, or category: [word, ...] and set taxonomy.untyped."


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
    listed = cfg.categories if cfg.path is None else _listed(Path(cfg.path))
    names = [_text(category, place, "category") for category in listed]
    _once(names, names, f"{place}: category")
    rows = [row for category, content in listed.items() for row in _rows(category, content, cfg, place)]
    if not rows:
        raise InputError(f"{place}: no category. {LAYOUTS}")
    found = pd.DataFrame(rows, columns=COLUMNS)
    untyped = found[found["type"].isna()]
    if len(untyped):
        first = ", ".join(untyped["word"].iloc[:5]) + (", …" if len(untyped) > 5 else "")
        raise InputError(
            f"{place}: {len(untyped)} words have no type ({first}). Set taxonomy.untyped to the type of all "
            f"of them ({', '.join(cfg.captions)}), or write category: {{type: [word, ...]}}."
        )
    for category, members in found.groupby("category", sort=False):
        _once(members["word"], members["word"], f"{place}, {category}:")
        _once(members["word"], captioned(members, cfg, "literal"), f"{place}, {category}: by its caption,")
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
        f"There are {', '.join(cfg.captions)}. Correct it, or give it a caption: taxonomy.captions.TYPE."
    )


def _rows(category: Any, content: Any, cfg: TaxonomyConfig, place: str) -> list[tuple[str, str, str | None]]:
    name = _text(category, place, "category")
    place = f"{place}, {brief(name)}"
    typed = content if isinstance(content, dict) else {cfg.untyped: content}
    rows: list[tuple[str, str, str | None]] = []
    for kind, members in typed.items():
        if isinstance(content, dict):
            _known(kind, cfg, place)
        if not isinstance(members, list | None):
            raise InputError(f"{place}: {members!r:.80} is no list. {LAYOUTS}")
        rows += [(name, _text(word, place, "word"), kind) for word in members or []]
    if not rows:
        raise InputError(f"{place}: no words. Add some, or delete the category.")
    return rows


def _text(value: Any, place: str, what: str) -> str:
    if isinstance(value, dict | list):
        raise InputError(f"{place}: a {what} is looked for, found {value!r:.80}. {LAYOUTS}")
    if not isinstance(value, str):
        raise InputError(
            f"{place}: {value!r} is no {what}. A bare no, yes, on, null or number is none to YAML: quote it."
        )
    clean = " ".join(unicodedata.normalize("NFC", value).split())
    if not clean:
        raise InputError(f"{place}: an empty {what}. Delete it.")
    if not plain.is_text(clean):
        raise InputError(
            f"{place}: {clean!r:.80} holds half of a character. Write it as text, without escapes."
        )
    return clean


def _once(names: Iterable[str], told_by: Iterable[str], place: str) -> None:
    """Refuse two names that are told by the same text, letter case aside."""
    first: dict[str, str] = {}
    for name, text in zip(names, told_by, strict=True):
        if text.casefold() in first:
            raise InputError(
                f"{place} {brief(name)!r} stands there already, as "
                f"{brief(first[text.casefold()])!r}. Delete one of them."
            )
        first[text.casefold()] = name


def _listed(path: Path) -> dict[Any, Any]:
    text = read(path, "taxonomy.path")
    try:
        content = plain.of_json(text) if path.suffix.lower() == ".json" else plain.of_yaml(text)
    except ValueError as error:
        raise InputError(f"{path}: {brief(str(error), 300)}. Correct it.") from None
    if not isinstance(content, dict):
        raise InputError(f"{path}: no categories, but {type(content).__name__}. {LAYOUTS}")
    return content


def _caption(template: str, word: str, article: str) -> str:
    caption = ""
    for literal, field, _, _ in reversed(list(string.Formatter().parse(template))):
        filled = {None: "", "word": word, "article": "a/an"}[field]
        if field == "article" and article == "right":
            filled = article_of(caption)
        caption = literal + filled + caption
    return caption
