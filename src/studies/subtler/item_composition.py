"""Items of a domain: templates × stimuli × attributes × pronoun forms, published layout.

See docs/methods.md, section 5.

Drawn are units: a template, a positive and a negative word that are given, three options. The options are
asked for beside the one word and beside the other, in three pronoun forms: nothing else differs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from src.errors import InputError
from src.studies.subtler.domain_sentences import GENDERS
from src.studies.subtler.domain_words import Words
from src.studies.subtler.domains import Domain, checked

log = logging.getLogger(__name__)

PUBLISHED = [
    *("bias_type", "target_gender", "context", "anti_stereotype", "stereotype", "unrelated"),
    *("item_category", "type_category"),
]
ASKED = {"type1": "attribute", "type2": "stimulus"}  # SAI, ASA
BLANK = "BLANK"
BALANCED = len(ASKED) * 2 * len(GENDERS)  # directions, polarities, pronoun forms


def compose(domain: Mapping[str, Any], *, count: int, seed: int) -> pd.DataFrame:
    """Items of a domain, no two alike, as many of each direction, polarity and pronoun form.

    Args:
        domain: as `read` gives it.
        count: of items, rounded down to a multiple of 12 (2 directions × 2 polarities × 3 pronoun forms),
            which is said.
        seed: of the draw of units; templates are used equally often, give or take one unit.

    Returns:
        The published columns `bias_type`, `target_gender`, `context` with one BLANK, `anti_stereotype`,
        `stereotype`, `unrelated`, `item_category`, `type_category`, and `template` (domain/name). A positive
        item's `stereotype` is the positive option, a negative item's the negative one, in every language.

    Raises:
        InputError: `checked` refuses the domain, `count` is below 12, or the domain makes fewer items.
    """
    found = checked(domain, f"domain {domain.get('domain')!r}")
    units = count // BALANCED
    if units < 1:
        raise InputError(f"count={count}: a balanced set has {BALANCED} items at least. Set it to as many.")
    most = BALANCED * min(len(found.templates) * _per_template(*_roles(found, kind)) for kind in ASKED)
    if units * BALANCED > most:
        raise InputError(
            f"count={count}: of its templates and words the domain {found.name} makes {most} balanced items. "
            "Set it to no more, or add words."
        )
    if units * BALANCED < count:
        log.warning("%s: %d items, the most below %d that are balanced.", found.name, units * BALANCED, count)
    rows = [
        row
        for index, kind in enumerate(ASKED)
        for row in _items(found, kind, units, np.random.default_rng([seed, index]))
    ]
    return pd.DataFrame(rows, columns=[*PUBLISHED, "template"])


def _roles(domain: Domain, kind: str) -> tuple[Words, Words]:
    """The words that are given, and those that are asked for."""
    two = domain.stimuli, domain.attributes
    return two if kind == "type1" else (two[1], two[0])


def _per_template(given: Words, asked: Words) -> int:
    return min(len(given.positive), len(given.negative)) * len(asked.options())


def _items(domain: Domain, kind: str, units: int, rng: np.random.Generator) -> Iterator[tuple[str, ...]]:
    given, asked = _roles(domain, kind)
    options = asked.options()
    names = list(domain.templates)
    for turn, index in enumerate(rng.permutation(len(names))):
        share = units // len(names) + (turn < units % len(names))
        for unit in rng.choice(_per_template(given, asked), size=share, replace=False):
            pair, triple = divmod(int(unit), len(options))
            # Beside one triple a word is given once at most; over triples a longer list's words come round.
            at = pair + triple
            words = given.positive[at % len(given.positive)], given.negative[at % len(given.negative)]
            yield from _unit(domain, names[index], kind, words, options[triple])


def _unit(
    domain: Domain, template: str, kind: str, given: tuple[str, str], options: tuple[str, str, str]
) -> Iterator[tuple[str, ...]]:
    positive, negative, unrelated = options
    asked = ASKED[kind]
    told = "stimulus" if asked == "attribute" else "attribute"
    cases = [("positive", given[0], negative, positive), ("negative", given[1], positive, negative)]
    for polarity, word, anti_stereotype, stereotype in cases:
        for gender, sentence in zip(GENDERS, domain.templates[template], strict=True):
            context = sentence.format(**{asked: BLANK, told: word})
            option_cells = anti_stereotype, stereotype, unrelated
            yield (domain.name, gender, context, *option_cells, polarity, kind, f"{domain.name}/{template}")
