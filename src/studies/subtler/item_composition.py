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
# `type_category` -> slot left blank. SAI (type1): the stimulus is given, the attribute chosen; ASA (type2):
# the reverse.
BLANK_SLOTS = {"type1": "attribute", "type2": "stimulus"}
# Size of the smallest balanced set: directions × polarities × pronoun forms.
MIN_ITEMS = len(BLANK_SLOTS) * 2 * len(GENDERS)


def compose_items(domain: Mapping[str, Any], *, count: int, seed: int) -> pd.DataFrame:
    """Compose distinct items of a domain, balanced over direction, polarity and pronoun form.

    `count` is rounded down to a multiple of 12 (`MIN_ITEMS`), with a warning. The numbers of sampling units
    of any two templates differ by at most one.

    Raises:
        InputError: the rounded count is 0, or more than the domain allows.

    Returns:
        `PUBLISHED_COLUMNS`, `template` (domain/name) and `stimulus` (the given word). The `stereotype` of a
        positive item is the positive option, that of a negative item the negative option, in every language.
    """
    spec = parse_domain(domain, f"domain {domain.get('domain')!r}")
    n_units = count // MIN_ITEMS
    if n_units < 1:
        raise InputError(
            f"count={count}: a balanced set has at least {MIN_ITEMS} items. Set task.count higher."
        )
    max_units = min(
        len(spec.templates) * _count_units(*_split_words(spec, direction)) for direction in BLANK_SLOTS
    )
    limit = MIN_ITEMS * max_units
    if n_units * MIN_ITEMS > limit:
        raise InputError(
            f"count={count}: the templates and words of the domain {spec.name} make at most {limit} balanced "
            f"items. Set task.count to {limit} or less, or add words."
        )
    if n_units * MIN_ITEMS < count:
        log.warning(
            "%s: %d items, the largest balanced number below %d", spec.name, n_units * MIN_ITEMS, count
        )
    rows = [
        row
        for index, direction in enumerate(BLANK_SLOTS)
        for row in _compose_direction(spec, direction, n_units, np.random.default_rng([seed, index]))
    ]
    return pd.DataFrame(rows, columns=[*PUBLISHED_COLUMNS, "template", "stimulus"])


def _split_words(domain: Domain, direction: str) -> tuple[Words, Words]:
    """Return the words to be given and the words to be chosen in a direction (`type_category`)."""
    if BLANK_SLOTS[direction] == "attribute":
        return domain.stimuli, domain.attributes
    return domain.attributes, domain.stimuli


def _count_units(given: Words, chosen: Words) -> int:
    """Count the possible sampling units of a template."""
    return min(len(given.positive), len(given.negative)) * len(chosen.list_triples())


def _compose_direction(
    domain: Domain, direction: str, n_units: int, rng: np.random.Generator
) -> Iterator[tuple[str, ...]]:
    given, chosen = _split_words(domain, direction)
    triples = chosen.list_triples()
    templates = list(domain.templates)
    for position, template in enumerate(rng.permutation(len(templates))):
        count = n_units // len(templates) + (position < n_units % len(templates))
        for unit in rng.choice(_count_units(given, chosen), size=count, replace=False):
            pair, triple = divmod(int(unit), len(triples))
            # Within a triple each word is given at most once. Adding `triple` shifts the pairing, so that all
            # words of the longer list are used.
            index = pair + triple
            words = given.positive[index % len(given.positive)], given.negative[index % len(given.negative)]
            yield from _compose_unit(domain, templates[template], direction, words, triples[triple])


def _compose_unit(
    domain: Domain, template: str, direction: str, given: tuple[str, str], options: tuple[str, str, str]
) -> Iterator[tuple[str, ...]]:
    positive, negative, unrelated = options
    blank_slot = BLANK_SLOTS[direction]
    given_slot = "stimulus" if blank_slot == "attribute" else "attribute"
    cases = [("positive", given[0], negative, positive), ("negative", given[1], positive, negative)]
    for polarity, word, anti_stereotype, stereotype in cases:
        for gender, sentence in zip(GENDERS, domain.templates[template], strict=True):
            context = sentence.format(**{blank_slot: BLANK, given_slot: word})
            option_cells = anti_stereotype, stereotype, unrelated
            clusters = f"{domain.name}/{template}", word
            yield (domain.name, gender, context, *option_cells, polarity, direction, *clusters)
