"""Frequent words, against which loaded ones are held (docs/methods.md, section 4)."""

from __future__ import annotations

import unicodedata
from pathlib import Path

from src.configs import TaxonomyConfig
from src.errors import InputError, brief


def frequent(cfg: TaxonomyConfig, count: int) -> list[str]:
    """The most frequent words of a language, the first the most frequent; wordfreq's ties by the alphabet.

    Args:
        cfg: `vocabulary`, a file of one word a line; without it `language`, of whose list (wordfreq) those
            words are taken that hold letters only, in lower case.
        count: of words.

    Raises:
        InputError: there are fewer, the language is unknown, or the file is missing, unreadable or has
            a word twice or two words in a line.
    """
    source = f"wordfreq's {cfg.language!r}" if cfg.vocabulary is None else cfg.vocabulary
    found = _of_language(cfg.language) if cfg.vocabulary is None else _of_file(Path(cfg.vocabulary))
    if len(found) < count:
        raise InputError(
            f"protocol.vocabulary={count}: {source} has {len(found)} words. Set protocol.vocabulary to no "
            "more, or taxonomy.vocabulary to a longer file."
        )
    return found[:count]


def read(path: Path, setting: str) -> str:
    """A user's text file.

    Raises:
        InputError: it is missing, unreadable or not UTF-8; naming the setting that names it.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file. Set {setting} to one.")
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}. Save it as text in UTF-8 that may be read.") from None


def _of_language(language: str) -> list[str]:
    import wordfreq

    known = wordfreq.available_languages()
    if language not in known:
        raise InputError(
            f"taxonomy.language={language}: wordfreq has no such list. There are {', '.join(sorted(known))}; "
            "for another set taxonomy.vocabulary to a file of one word a line."
        )
    listed = (unicodedata.normalize("NFC", word.lower()) for word in wordfreq.iter_wordlist(language))
    return list(dict.fromkeys(word for word in listed if _alphabetic(word)))


def _alphabetic(word: str) -> bool:
    """Whether it holds letters only; the marks of Hindi or Tamil belong to theirs."""
    return word.isalpha() or all(unicodedata.category(sign)[0] in "LM" for sign in word)


def _of_file(path: Path) -> list[str]:
    stands: dict[str, int] = {}
    for number, line in enumerate(read(path, "taxonomy.vocabulary").splitlines(), start=1):
        found = unicodedata.normalize("NFC", line).split()
        if len(found) > 1:
            raise InputError(
                f"{path}, line {number}: {line.strip()!r:.80} is not one word. Write one a line."
            )
        for word in found:
            if word in stands:
                raise InputError(
                    f"{path}, line {number}: {brief(word)!r} stands in line {stands[word]} already. "
                    "Delete one."
                )
            stands[word] = number
    return list(stands)
