"""Read word lists of users from YAML, JSON or csv, and list the frequent words of a language."""

import functools
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from src.configs import TaxonomyConfig
from src.errors import InputError, brief
from src.stimuli import safe_yaml
from src.stimuli.csvs import check_filled, read_csv

LAYOUT_OF_TYPES = "Write lines of word: type in YAML, the same in JSON, or a csv with columns word and type."


def read_text_file(path: Path, setting: str) -> str:
    """Read a user's text file; raise `InputError` with its setting if it is missing or not UTF-8."""
    if not path.is_file():
        raise InputError(f"{path}: no such file. Set {setting} to an existing file.")
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not UTF-8. Save it as text in UTF-8.") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}. Make it readable, or set another {setting}.") from None


def read_mapping(path: Path, setting: str, layout: str) -> dict[Any, Any]:
    """Read a mapping from a YAML or .json file; `layout` is the remedy if it contains something else."""
    text = read_text_file(path, setting)
    try:
        content = safe_yaml.parse_json(text) if path.suffix.lower() == ".json" else safe_yaml.parse_yaml(text)
    except ValueError as error:
        raise InputError(f"{path}: {brief(str(error), 300)}. Correct it.") from None
    if not isinstance(content, dict):
        raise InputError(f"{path}: expected a mapping, got {type(content).__name__}. {layout}")
    return content


def read_types(path: Path) -> dict[str, tuple[str, str]]:
    """Read the types of words from a csv or a mapping; return case-folded word -> (word, type)."""
    pairs: Iterable[tuple[Any, Any]]
    if path.suffix.lower() == ".csv":
        remedy = "Set taxonomy.types to a csv that can be read."
        rows = read_csv(path, ["word", "type"], remedy, header_remedy="Name columns word and type in row 1.")
        check_filled(rows, "word", path)
        check_filled(rows, "type", path)
        pairs = zip(rows["word"], rows["type"], strict=True)
    else:
        pairs = read_mapping(path, "taxonomy.types", LAYOUT_OF_TYPES).items()
    types = [(normalise_text(word, str(path), "word", LAYOUT_OF_TYPES), kind) for word, kind in pairs]
    words = [word for word, _ in types]
    refuse_repeats(words, words, f"{path}: word")
    return {
        word.casefold(): (word, normalise_text(kind, f"{path}, {brief(word)}", "type", LAYOUT_OF_TYPES))
        for word, kind in types
    }


def normalise_text(value: Any, location: str, noun: str, layout: str) -> str:
    """Normalise a text to NFC with single blanks; raise `InputError` for other values.

    Messages call the text a `noun`: word, category or type.
    """
    if isinstance(value, dict | list):
        raise InputError(f"{location}: expected a {noun}, got {value!r:.80}. {layout}")
    if not isinstance(value, str):
        raise InputError(
            f"{location}: {value!r} is not a {noun}. Quote no, yes, on, null and numbers in YAML."
        )
    text = " ".join(unicodedata.normalize("NFC", value).split())
    if not text:
        raise InputError(f"{location}: an empty {noun}. Delete it.")
    if not safe_yaml.is_text(text):
        raise InputError(
            f"{location}: {text!r:.80} contains half of a surrogate pair. Write it as plain text."
        )
    return text


def refuse_repeats(names: Iterable[str], texts: Iterable[str], location: str) -> None:
    """Refuse two names with the same text, ignoring case; the message names both."""
    name_of_text: dict[str, str] = {}
    for name, text in zip(names, texts, strict=True):
        if text.casefold() in name_of_text:
            other = brief(name_of_text[text.casefold()])
            raise InputError(
                f"{location} {brief(name)!r} is listed already, as {other!r}. Delete one of them."
            )
        name_of_text[text.casefold()] = name


def list_frequent_words(cfg: TaxonomyConfig, count: int) -> list[str]:
    """List the `count` most frequent words of a language, most frequent first.

    They come from the file `vocabulary` (one word per line) or from wordfreq's list, of which only words that
    consist of letters are used, in lower case; ties are in alphabetical order.
    """
    if cfg.vocabulary is not None:
        source, words = cfg.vocabulary, _read_vocabulary(Path(cfg.vocabulary))
    else:
        import wordfreq

        source, languages = f"wordfreq's list {cfg.language!r}", wordfreq.available_languages()
        if cfg.language not in languages:
            raise InputError(
                f"taxonomy.language={cfg.language}: wordfreq has no such list. Known: "
                f"{', '.join(sorted(languages))}; for any other language, set taxonomy.vocabulary to a file "
                "with one word per line."
            )
        words = _read_letter_words(cfg.language)
    if len(words) < count:
        raise InputError(
            f"protocol.vocabulary={count}: {source} has {len(words)} words. Set "
            f"protocol.vocabulary={len(words)} or less, or taxonomy.vocabulary to a longer file."
        )
    return words[:count]


@functools.cache
def _read_letter_words(language: str) -> list[str]:
    """Read wordfreq's list of a language: its distinct words that consist of letters, in lower case."""
    import wordfreq

    words = (unicodedata.normalize("NFC", word.lower()) for word in wordfreq.iter_wordlist(language))
    # Letters include the combining marks of Hindi or Tamil.
    letter_words = (word for word in words if all(unicodedata.category(sign)[0] in "LM" for sign in word))
    return list(dict.fromkeys(letter_words))


def _read_vocabulary(path: Path) -> list[str]:
    line_by_word: dict[str, int] = {}
    for number, line in enumerate(read_text_file(path, "taxonomy.vocabulary").splitlines(), start=1):
        words = unicodedata.normalize("NFC", line).split()
        if len(words) > 1:
            problem = f"{path}, line {number}: {line.strip()!r:.80} has several words"
            raise InputError(f"{problem}. Write one word per line, without counts or other columns.")
        for word in words:
            if word in line_by_word:
                first = line_by_word[word]
                raise InputError(f"{path}, line {number}: {brief(word)!r} repeats line {first}. Delete one.")
            line_by_word[word] = number
    return list(line_by_word)
