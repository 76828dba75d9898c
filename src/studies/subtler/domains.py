"""Read and check the YAML of a domain, from which items are composed (docs/methods.md, section 5)."""

import itertools
import re
import string
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from src.errors import InputError, brief, did_you_mean
from src.stimuli.wordlists import normalise_text, read_mapping, refuse_repeats

SECTIONS = ("domain", "language", "stimuli", "attributes", "templates")
# Chinese has no spaces: each character is a word.
WORD = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+")
GENDERS = ("male", "female", "not_specified")
# Lists of words in `stimuli` and `attributes`: unpaired and paired.
WORD_LISTS = ("positive", "negative", "neutral")
PAIRED_LISTS = ("pairs", "neutral")
SLOTS = ("stimulus", "attribute")
FORMS_PATH = Path(__file__).with_name("forms.yaml")

# Gendered forms: name of a placeholder, such as `they` -> its text for each of `GENDERS`.
Forms = dict[str, list[str]]


class Words(NamedTuple):
    """Distinct words for a slot; if paired, the n-th positive and negative words are opposites."""

    positive: list[str]
    negative: list[str]
    neutral: list[str]
    is_paired: bool

    def list_triples(self) -> list[tuple[str, str, str]]:
        """List all triples of a positive, a negative and a neutral word, in the order of the lists."""
        pairs = zip(self.positive, self.negative, strict=True)
        word_pairs = pairs if self.is_paired else itertools.product(self.positive, self.negative)
        return [(*word_pair, neutral) for word_pair in word_pairs for neutral in self.neutral]


class Domain(NamedTuple):
    """Templates and words from which items are composed."""

    name: str
    # Name of a template -> its sentence for each of `GENDERS`, with the slots {stimulus} and {attribute}.
    templates: dict[str, list[str]]
    stimuli: Words
    attributes: Words


def read_domain(path: Path) -> Mapping[str, Any]:
    """Read the YAML of a domain, check it, and return it unparsed.

    Raises:
        InputError: the file is missing or unreadable, repeats a key, or is refused by `parse_domain`.
    """
    domain = as_mapping(read_mapping(path, "the path of the domain", "Write name: value."), str(path))
    parse_domain(domain, str(path))  # raises if an entry is wrong
    return domain


def parse_domain(domain: Mapping[str, Any], location: str) -> Domain:
    """Parse a domain, and check its entries; raise `InputError` for missing, unknown or unsuitable ones.

    A domain has `domain` (its name), `language`, `stimuli` and `attributes` (see `parse_words`), `templates`
    (name: sentence), and optionally further `forms` (name: one text for each of `GENDERS`).
    """
    check_known(domain, (*SECTIONS, "forms"), location, "section")
    missing = [section for section in SECTIONS if section not in domain]
    if missing:
        raise InputError(
            f"{location}: section {missing[0]!r} is missing. Add it; required sections: "
            f"{', '.join(SECTIONS)}."
        )
    forms = _load_forms(domain["language"], domain.get("forms"), location)
    parsed = Domain(
        parse_text(domain["domain"], f"{location}, domain"),
        _fill_forms(domain["templates"], forms, location),
        parse_words(domain["stimuli"], f"{location}, stimuli"),
        parse_words(domain["attributes"], f"{location}, attributes"),
    )
    _refuse_giveaways(parsed.stimuli, parsed.attributes, parsed.templates, f"{location}, stimuli")
    _refuse_giveaways(parsed.attributes, parsed.stimuli, parsed.templates, f"{location}, attributes")
    return parsed


def _load_forms(language: Any, domain_forms: Any, location: str) -> Forms:
    """Load the forms of a language (forms.yaml), with the forms of a domain added or overriding them."""
    languages: dict[str, Forms] = yaml.safe_load(FORMS_PATH.read_text("utf-8"))
    name = parse_text(language, f"{location}, language")
    check_known([name], languages, f"{location}, language", "language")
    forms = dict(languages[name])
    added_forms = {} if domain_forms is None else as_mapping(domain_forms, f"{location}, forms")
    for form, values in added_forms.items():
        form_location = f"{location}, forms.{form}"
        if form in SLOTS:
            raise InputError(
                f"{form_location}: {{{form}}} is already the slot of the words. Rename the form."
            )
        is_valid = is_list(values) and len(values) == 3 and all(isinstance(value, str) for value in values)
        if not is_valid or {"{", "}"} & set("".join(values)):
            raise InputError(
                f"{form_location}: expected three texts without braces, got {values!r:.80}. Write "
                f"[{', '.join(GENDERS)}]."
            )
        forms[str(form)] = [unicodedata.normalize("NFC", value) for value in values]
    return forms


def _fill_forms(templates: Any, known_forms: Forms, location: str) -> dict[str, list[str]]:
    """Return each template, by name, with the forms of each of `GENDERS` filled in; the slots stay open.

    Identical sentences, for two genders or of two templates, are refused.
    """
    sentences: dict[str, list[str]] = {}
    template_of: dict[str, str] = {}  # sentence -> name of its template
    for name, template in as_mapping(templates, f"{location}, templates").items():
        template_location = f"{location}, templates.{name}"
        sentence = parse_text(template, template_location)
        _check_fields(sentence, known_forms, template_location)
        slots = {slot: f"{{{slot}}}" for slot in SLOTS}
        sentences[str(name)] = [
            sentence.format(**{form: values[index] for form, values in known_forms.items()}, **slots)
            for index in range(len(GENDERS))
        ]
        for filled in sentences[str(name)]:
            if filled in template_of:
                raise InputError(
                    f"{template_location}: {filled!r} is also a sentence of templates.{template_of[filled]}. "
                    f"Use a form that distinguishes {', '.join(GENDERS)}, or delete one sentence."
                )
            template_of[filled] = str(name)
    return sentences


def _check_fields(sentence: str, known_forms: Forms, location: str) -> None:
    try:
        parsed = list(string.Formatter().parse(sentence))
    except ValueError as error:
        raise InputError(
            f"{location}: {error}. Write {{stimulus}}, {{attribute}}, and names of forms, such as {{they}}."
        ) from None
    fields = [field for _, field, _, _ in parsed if field is not None]
    check_known(fields, (*SLOTS, *known_forms), location, "slot or form")
    if any(spec or conversion for _, _, spec, conversion in parsed) or "{{" in sentence or "}}" in sentence:
        raise InputError(f"{location}: {sentence!r}: expected only a name between braces. Correct it.")
    for slot in SLOTS:
        if fields.count(slot) != 1:
            raise InputError(
                f"{location}: {sentence!r} has {{{slot}}} {fields.count(slot)} times. Use it once."
            )


def _refuse_giveaways(
    options: Words, other_words: Words, templates: dict[str, list[str]], location: str
) -> None:
    """Refuse an option that also occurs in a sentence that it may complete."""
    sentences = [
        (sentence.format(**dict.fromkeys(SLOTS, "…")), f"templates.{name}")
        for name, versions in templates.items()
        for sentence in versions
    ]
    # A complete sentence also contains a positive or negative word of the other slot.
    sentences += [(word, "the other list") for word in [*other_words.positive, *other_words.negative]]
    sources = [(_reduce_to_words(sentence), sentence, source) for sentence, source in sentences]
    for option in [*options.positive, *options.negative, *options.neutral]:
        option_words = _reduce_to_words(option)
        for sentence_words, sentence, source in sources:
            if option_words in sentence_words:
                raise InputError(
                    f"{location}: {option!r} also occurs in {sentence!r} ({source}), which it may "
                    "complete: this gives the answer away. Reword one of them."
                )


def _reduce_to_words(content: str) -> str:
    """Reduce a text to its words, each between spaces, so that only complete words match."""
    return f" {' '.join(WORD.findall(content.casefold()))} "


def parse_words(content: Any, location: str) -> Words:
    """Parse the words of `stimuli` or `attributes`: `neutral`, and `pairs` or `positive` and `negative`."""
    lists = as_mapping(content, location)
    is_paired = "pairs" in lists
    names = PAIRED_LISTS if is_paired else WORD_LISTS
    check_known(lists, names, location, "list")
    for name in names:
        if not is_list(lists.get(name)) or not lists[name]:
            raise InputError(
                f"{location}.{name}: expected a list of words. An item has a positive, a negative and a "
                "neutral option: write pairs and neutral, or positive, negative and neutral."
            )
    if is_paired:
        if not all(is_list(pair) and len(pair) == 2 for pair in lists["pairs"]):
            raise InputError(
                f"{location}.pairs: expected pairs of words. Write - [positive, negative] on each line."
            )
        positive, negative = zip(*lists["pairs"], strict=True)
        lists = {"positive": positive, "negative": negative, "neutral": lists["neutral"]}
    texts = {name: [parse_text(word, f"{location}.{name}") for word in lists[name]] for name in WORD_LISTS}
    # A repeated word would lead to duplicate options within an item, or to duplicate items.
    all_words = [word for name in WORD_LISTS for word in texts[name]]
    refuse_repeats(all_words, all_words, f"{location}:")
    return Words(texts["positive"], texts["negative"], texts["neutral"], is_paired)


def parse_text(value: Any, location: str) -> str:
    """Normalise a text or an integer to Unicode NFC with single spaces.

    Raises:
        InputError: it is neither, or contains BLANK, the mark of the gap in an item, in upper or lower case.
    """
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    clean = normalise_text(str(value) if is_integer else value, location, "text", "Write a text.")
    if "blank" in clean.casefold():
        raise InputError(
            f"{location}: {clean!r} contains BLANK, which marks the gap of an item. Use another text."
        )
    return clean


def check_known(names: Iterable[Any], choices: Iterable[str], location: str, kind: str) -> None:
    """Raise `InputError` for a name that is not among the choices, and suggest the nearest choice."""
    known = list(choices)
    for name in names:
        if name not in known:
            raise InputError(
                f"{location}: unknown {kind} {brief(name)!r}.{did_you_mean(name, known)} Known: "
                f"{', '.join(known)}. Correct it."
            )


def as_mapping(content: Any, location: str) -> Mapping[Any, Any]:
    """Return the content if it is a non-empty mapping; raise `InputError` otherwise."""
    if not isinstance(content, Mapping) or not content:
        raise InputError(
            f"{location}: expected a mapping (name: value), got {content!r:.80}. Write name: value."
        )
    return content


def is_list(content: Any) -> bool:
    """Return whether content of YAML or OmegaConf is a list."""
    return isinstance(content, Sequence) and not isinstance(content, str)
