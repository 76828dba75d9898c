"""The templates of a domain, told of a man, of a woman, and of a person of no stated gender."""

from __future__ import annotations

import functools
import string
import unicodedata
from pathlib import Path
from typing import Any

import yaml

from src.errors import InputError
from src.studies.subtler.domain_words import is_list, known, mapping, text

GENDERS = ("male", "female", "not_specified")
SLOTS = ("stimulus", "attribute")
FORMS = Path(__file__).with_name("forms.yaml")

Forms = dict[str, list[str]]  # name -> what it reads for each of GENDERS


def forms(language: Any, own: Any, place: str) -> Forms:
    """The forms of a language (forms.yaml), and a domain's own, which come first.

    Raises:
        InputError: the language is unknown, or a form of the domain's is no three texts.
    """
    languages = _languages()
    name = text(language, f"{place}, language")
    known([name], languages, f"{place}, language", "language")
    found = dict(languages[name])
    for form, values in {} if own is None else mapping(own, f"{place}, forms").items():
        where = f"{place}, forms.{form}"
        if form in SLOTS:
            raise InputError(
                f"{where}: {{{form}}} is a word of the lists already. Call the form something else."
            )
        three = is_list(values) and len(values) == 3 and all(isinstance(value, str) for value in values)
        if not three or {"{", "}"} & set("".join(values)):
            raise InputError(f"{where}: {values!r:.80}. Write three texts: [{', '.join(GENDERS)}].")
        found[str(form)] = [unicodedata.normalize("NFC", value) for value in values]
    return found


@functools.cache
def _languages() -> dict[str, Forms]:
    return dict(yaml.safe_load(FORMS.read_text("utf-8")))


def sentences(templates: Any, known_forms: Forms, place: str) -> dict[str, list[str]]:
    """Each template by name, with the forms of each of `GENDERS` put in and the two slots left open.

    Raises:
        InputError: a template lacks a slot or has it twice, has another field than slots and forms, or reads
            the same for two genders or as another template.
    """
    found: dict[str, list[str]] = {}
    first: dict[str, str] = {}
    for name, template in mapping(templates, f"{place}, templates").items():
        where = f"{place}, templates.{name}"
        sentence = text(template, where)
        _fields(sentence, known_forms, where)
        open_slots = {slot: f"{{{slot}}}" for slot in SLOTS}
        found[str(name)] = [
            sentence.format(**{form: values[index] for form, values in known_forms.items()}, **open_slots)
            for index in range(len(GENDERS))
        ]
        for told in found[str(name)]:
            if told in first:
                raise InputError(
                    f"{where}: {told!r} is what templates.{first[told]} reads for a gender already. Use "
                    f"a form that tells {', '.join(GENDERS)} apart, or delete one sentence."
                )
            first[told] = str(name)
    return found


def _fields(sentence: str, known_forms: Forms, where: str) -> None:
    try:
        parsed = list(string.Formatter().parse(sentence))
    except ValueError as error:
        raise InputError(f"{where}: {error}. Write {{stimulus}}, {{attribute}} and {{form}}.") from None
    fields = [field for _, field, _, _ in parsed if field is not None]
    known(fields, (*SLOTS, *known_forms), where, "slot or form")
    if any(spec or conversion for _, _, spec, conversion in parsed) or "{{" in sentence or "}}" in sentence:
        raise InputError(
            f"{where}: {sentence!r}: between braces stands a name, and nothing else. Correct it."
        )
    for slot in SLOTS:
        if fields.count(slot) != 1:
            raise InputError(
                f"{where}: {sentence!r} has {{{slot}}} {fields.count(slot)} times. Write it once."
            )
