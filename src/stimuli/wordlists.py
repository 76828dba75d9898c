"""Lists of words that somebody wrote: YAML, JSON or csv, their texts normalised."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from src.errors import InputError, brief
from src.stimuli import safe_yaml
from src.stimuli.csvs import filled, read_csv
from src.stimuli.vocabulary import read

LAYOUT_OF_TYPES = "Write word: type in a YAML or JSON, or a csv with the columns word and type."


def read_mapping(path: Path, setting: str, layout: str) -> dict[Any, Any]:
    """Read a YAML, or a JSON by its suffix.

    Args:
        path: the file.
        setting: that names it, for messages.
        layout: what belongs in it, for messages.

    Raises:
        InputError: it cannot be read, has a key twice, or is no mapping.
    """
    text = read(path, setting)
    try:
        content = safe_yaml.of_json(text) if path.suffix.lower() == ".json" else safe_yaml.of_yaml(text)
    except ValueError as error:
        raise InputError(f"{path}: {brief(str(error), 300)}. Correct it.") from None
    if not isinstance(content, dict):
        raise InputError(f"{path}: a mapping is expected, got {type(content).__name__}. {layout}")
    return content


def read_types(path: Path) -> dict[str, tuple[str, str]]:
    """Read the types of words, from a csv or a mapping.

    Returns:
        The word in one letter case -> the word and its type, as they are written.

    Raises:
        InputError: the file cannot be read, a word or a type is empty or no text, or a word stands twice.
    """
    pairs: Iterable[tuple[Any, Any]]
    if path.suffix.lower() == ".csv":
        missing = "Set taxonomy.types to one."
        rows = read_csv(path, ["word", "type"], missing, lacking="Name the columns word and type in row 1.")
        filled(rows, "word", path)
        filled(rows, "type", path)
        pairs = zip(rows["word"], rows["type"], strict=True)
    else:
        pairs = read_mapping(path, "taxonomy.types", LAYOUT_OF_TYPES).items()
    listed = [(checked_text(word, str(path), "word", LAYOUT_OF_TYPES), kind) for word, kind in pairs]
    names = [word for word, _ in listed]
    refuse_repeats(names, names, f"{path}: word")
    return {
        word.casefold(): (word, checked_text(kind, f"{path}, {brief(word)}", "type", LAYOUT_OF_TYPES))
        for word, kind in listed
    }


def checked_text(value: Any, place: str, what: str, layout: str) -> str:
    """Return a text in Unicode's NFC with single blanks.

    Args:
        value: of a YAML or JSON.
        place: where it stands, for messages.
        what: it is: word, category or type.
        layout: of the file, for messages.

    Raises:
        InputError: it is empty or no text.
    """
    if isinstance(value, dict | list):
        raise InputError(f"{place}: a {what} is looked for, found {value!r:.80}. {layout}")
    if not isinstance(value, str):
        raise InputError(
            f"{place}: {value!r} is no {what}. A bare no, yes, on, null or number is none to YAML: quote it."
        )
    clean = " ".join(unicodedata.normalize("NFC", value).split())
    if not clean:
        raise InputError(f"{place}: an empty {what}. Delete it.")
    if not safe_yaml.is_text(clean):
        raise InputError(
            f"{place}: {clean!r:.80} holds half of a character. Write it as text, without escapes."
        )
    return clean


def refuse_repeats(names: Iterable[str], told_by: Iterable[str], place: str) -> None:
    """Refuse two names that are told by the same text, letter case aside.

    Raises:
        InputError: naming both.
    """
    first: dict[str, str] = {}
    for name, text in zip(names, told_by, strict=True):
        if text.casefold() in first:
            raise InputError(
                f"{place} {brief(name)!r} stands there already, as "
                f"{brief(first[text.casefold()])!r}. Delete one of them."
            )
        first[text.casefold()] = name
