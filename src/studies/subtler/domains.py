"""The YAML of a domain: whether items can be composed of it (docs/methods.md, section 5)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from src.errors import InputError, brief
from src.stimuli import safe_yaml
from src.studies.subtler.domain_sentences import SLOTS, forms, sentences
from src.studies.subtler.domain_words import Words, known, mapping, text, words

SECTIONS = ("domain", "language", "stimuli", "attributes", "templates")
WORD = re.compile(
    r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+"
)  # Chinese has no blanks: a character stands for itself


class Domain(NamedTuple):
    """What items are composed of."""

    name: str
    templates: dict[
        str, list[str]
    ]  # name -> the sentence for each of GENDERS, {stimulus} and {attribute} open
    stimuli: Words
    attributes: Words


def read(path: Path) -> Mapping[str, Any]:
    """The YAML of a domain, fit for `checked`.

    Raises:
        InputError: it is missing or unreadable, has a key twice, or what `checked` refuses.
    """
    if not path.is_file():  # a pipe would be waited for
        raise InputError(f"{path}: there is no such file. Correct the path of the domain.")
    try:
        content = safe_yaml.of_yaml(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {brief(error, 300)}. Correct it.") from None
    domain = mapping(content, str(path))
    checked(domain, str(path))
    return domain


def checked(domain: Mapping[str, Any], place: str) -> Domain:
    """A domain whose entries are what they must be.

    Args:
        domain: `domain` (its name), `language`, `stimuli` and `attributes` (see `words`), `templates`
            (name: sentence), and `forms` where it needs its own (name: one for each of GENDERS).
        place: what errors name: the file.

    Raises:
        InputError: a section is missing or unknown; an entry is refused by `words`, `forms` or `sentences`;
            an option stands in a sentence beside which it would be asked for.
    """
    known(domain, (*SECTIONS, "forms"), place, "section")
    missing = [section for section in SECTIONS if section not in domain]
    if missing:
        raise InputError(f"{place}: no section {missing[0]!r}. Write it: {', '.join(SECTIONS)} are needed.")
    found = Domain(
        text(domain["domain"], f"{place}, domain"),
        sentences(domain["templates"], forms(domain["language"], domain.get("forms"), place), place),
        words(domain["stimuli"], f"{place}, stimuli"),
        words(domain["attributes"], f"{place}, attributes"),
    )
    _not_told(found.stimuli, found.attributes, found.templates, f"{place}, stimuli")
    _not_told(found.attributes, found.stimuli, found.templates, f"{place}, attributes")
    return found


def _not_told(options: Words, given: Words, templates: dict[str, list[str]], place: str) -> None:
    """Refuse an option that stands in the sentence beside which it is asked for."""
    told = [
        (sentence.format(**dict.fromkeys(SLOTS, "…")), f"templates.{name}")
        for name, told_of in templates.items()
        for sentence in told_of
    ]
    told += [(word, "the other list") for word in [*given.positive, *given.negative]]
    bare = [(_bare(sentence), sentence, where) for sentence, where in told]
    for option in [*options.positive, *options.negative, *options.neutral]:
        looked_for = _bare(option)
        for said, sentence, where in bare:
            if looked_for in said:
                raise InputError(
                    f"{place}: {option!r} also stands in {sentence!r} ({where}), beside which it is an "
                    "option: that gives the answer away. Reword one of them."
                )


def _bare(content: str) -> str:
    """Words alone, between blanks, so that only whole ones are found in each other."""
    return f" {' '.join(WORD.findall(content.casefold()))} "
