"""Compose the items of a domain: templates × stimuli × attributes × pronoun forms, in the published layout.

See docs/methods.md, section 5.

A sampling unit combines a template, a positive and a negative word for the slot that is filled in, and three
options for the slot that is left blank. It yields six items with the same options: each of the two words in
each of three pronoun forms.
"""

import logging
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from src.errors import InputError
from src.studies.subtler.domains import GENDERS, Domain, Words, parse_domain
from src.studies.subtler.items import BLANK

log = logging.getLogger(__name__)

PUBLISHED_COLUMNS = [
    *("bias_type", "target_gender", "context", "anti_stereotype", "stereotype", "unrelated"),
    *("item_category", "type_category"),
]
# `type_category` (SAI, ASA) -> slot left blank, for which a word is chosen.
BLANK_SLOTS = {"type1": "attribute", "type2": "stimulus"}
MIN_ITEMS = len(BLANK_SLOTS) * 2 * len(GENDERS)  # items: directions × polarities × pronoun forms


def compose(domain: Mapping[str, Any], *, count: int, seed: int) -> pd.DataFrame:
    """Compose distinct items of a domain, balanced over direction, polarity and pronoun form.

    `count` is rounded down with a warning to a multiple of 12 (`MIN_ITEMS`). Raise `InputError` if that is 0
    or more than the domain allows. The numbers of units of any two templates differ by at most one.

    Returns:
        `PUBLISHED_COLUMNS`, `template` (domain/name) and `stimulus` (the given word). The `stereotype` of a
        positive item is the positive option, that of a negative item the negative option, in every language.
    """
    spec = parse_domain(domain, f"domain {domain.get('domain')!r}")
    units = count // MIN_ITEMS
    if units < 1:
        raise InputError(
            f"count={count}: a balanced set has at least {MIN_ITEMS} items. Set task.count higher."
        )
    limit = MIN_ITEMS * min(len(spec.templates) * _capacity(*_roles(spec, kind)) for kind in BLANK_SLOTS)
    if units * MIN_ITEMS > limit:
        raise InputError(
            f"count={count}: the templates and words of the domain {spec.name} make at most {limit} balanced "
            f"items. Set task.count to {limit} or less, or add words."
        )
    if units * MIN_ITEMS < count:
        log.warning("%s: %d items, the largest balanced number below %d", spec.name, units * MIN_ITEMS, count)
    rows = [
        row
        for index, kind in enumerate(BLANK_SLOTS)
        for row in _items(spec, kind, units, np.random.default_rng([seed, index]))
    ]
    return pd.DataFrame(rows, columns=[*PUBLISHED_COLUMNS, "template", "stimulus"])


def _roles(domain: Domain, kind: str) -> tuple[Words, Words]:
    """Return the given and the selectable words of a kind of items (`type_category`)."""
    lists = domain.stimuli, domain.attributes
    return lists if kind == "type1" else (lists[1], lists[0])


def _capacity(given: Words, chosen: Words) -> int:
    """Return the number of units per template."""
    return min(len(given.positive), len(given.negative)) * len(chosen.options())


def _items(domain: Domain, kind: str, units: int, rng: np.random.Generator) -> Iterator[tuple[str, ...]]:
    given, chosen = _roles(domain, kind)
    options = chosen.options()
    names = list(domain.templates)
    for position, index in enumerate(rng.permutation(len(names))):
        count = units // len(names) + (position < units % len(names))
        for unit in rng.choice(_capacity(given, chosen), size=count, replace=False):
            pair, triple = divmod(int(unit), len(options))
            # Within a triple each word is given at most once. Adding `triple` shifts the pairing, so that all
            # words of the longer list are used.
            number = pair + triple
            words = given.positive[number % len(given.positive)], given.negative[number % len(given.negative)]
            yield from _unit(domain, names[index], kind, words, options[triple])


def _unit(
    domain: Domain, template: str, kind: str, given: tuple[str, str], options: tuple[str, str, str]
) -> Iterator[tuple[str, ...]]:
    positive, negative, unrelated = options
    blank_slot = BLANK_SLOTS[kind]
    given_slot = "stimulus" if blank_slot == "attribute" else "attribute"
    cases = [("positive", given[0], negative, positive), ("negative", given[1], positive, negative)]
    for polarity, word, anti_stereotype, stereotype in cases:
        for gender, sentence in zip(GENDERS, domain.templates[template], strict=True):
            context = sentence.format(**{blank_slot: BLANK, given_slot: word})
            option_cells = anti_stereotype, stereotype, unrelated
            clusters = f"{domain.name}/{template}", word
            yield (domain.name, gender, context, *option_cells, polarity, kind, *clusters)
