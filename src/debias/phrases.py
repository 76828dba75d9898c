"""Build the sentences that define a projection, from the names of a dataset's groups."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import pandas as pd

from src.configs import DebiasConfig
from src.errors import InputError
from src.stimuli import Table

BLANK = "{}"


@dataclass(frozen=True)
class Prompts:
    """Sentences whose vectors determine a projection."""

    # All distinct sentences, sorted, as a table of the role "prompts"; `id` and `sentence` are both the text.
    table: Table
    spurious: list[str]  # sentences whose directions are removed, sorted
    # Pairs of sentences whose vectors should become equal; empty if the projection is not calibrated.
    pairs: list[tuple[str, str]]


@dataclass(frozen=True)
class _Group:
    """A group by the words of its name, such as `black` with `woman`, `female` for Black Women."""

    adjective: str  # empty if the name is only a noun
    nouns: tuple[str, ...]  # nouns for the members; empty if the name is only an adjective

    @property
    def name_words(self) -> tuple[str, str]:
        """Return the adjective and the first noun; an empty text for a missing word."""
        return self.adjective, self.nouns[0] if self.nouns else ""

    @property
    def phrase(self) -> str:
        """Return a phrase for a member, such as `black woman`."""
        return f"{self.adjective} {self.name_words[1] or 'person'}".strip()


def build_prompts(config: DebiasConfig, groups: Sequence[str]) -> Prompts | None:
    """Build the sentences of a debiasing method from the names of groups; return None for debias=none.

    The last word of a group's name is looked up in `config.nouns` (ignoring case), and the words before it
    are the adjective; if it is not listed, the whole name is the adjective. Spurious sentences contain each
    noun, and each adjective followed by "person": for Black and White Men and Women, these are the six
    prompts of Capitani et al. 2024. For each template in `config.classes`, two groups form a pair if either
    their adjectives or their nouns differ, but not both; groups named by an adjective or a noun alone all
    form pairs.

    Raises:
        InputError: a template does not have exactly one `{}`, a noun has no words, the strength is infinite,
            there is no group or no pair to calibrate on, or two groups have the same phrase.
    """
    if not config.spurious:
        return None
    _check(config)
    named_groups = _parse_groups(config, groups)
    phrases = {noun for group in named_groups for noun in group.nouns}
    phrases |= {f"{group.adjective} person" for group in named_groups if group.adjective}
    spurious = sorted({config.spurious.replace(BLANK, phrase) for phrase in phrases})
    pairs = [
        (template.replace(BLANK, a.phrase), template.replace(BLANK, b.phrase))
        for template in config.classes
        for a, b in combinations(named_groups, 2)
        if _is_pair(a, b)
    ]
    if config.classes and not pairs:
        raise InputError(
            f"debias={config.name}: no two of the groups {', '.join(sorted(set(groups)))} differ in exactly "
            "one word of their name, so there is nothing to calibrate on. Use debias=orth_proj, which needs "
            "no pairs."
        )
    sentences = sorted({*spurious, *(sentence for pair in pairs for sentence in pair)})
    frame = pd.DataFrame({"id": sentences, "sentence": sentences})
    return Prompts(Table("prompts", frame, len(frame)), spurious, pairs)


def _check(config: DebiasConfig) -> None:
    for template in (config.spurious, *config.classes):
        if template.count(BLANK) != 1:
            raise InputError(
                f"debias={config.name}: expected {BLANK} once in the template {template!r}, got it "
                f"{template.count(BLANK)} times. Write {BLANK} where the group is named."
            )
    for noun, words in config.nouns.items():
        if not words or not all(map(str.strip, words)):
            raise InputError(
                f"debias.nouns.{noun}={words}: expected words for people of the group, got an empty list or "
                f"word. Add a word, or leave {noun} out."
            )
    if config.strength and not config.classes:
        raise InputError(
            f"debias={config.name}: debias.strength={config.strength:g} has no effect without "
            "debias.classes. Leave it out, or choose debias=orth_proj_calibrated."
        )
    if config.strength == float("inf"):
        raise InputError("debias.strength=inf: must be finite. The papers use 1000.")


def _parse_groups(config: DebiasConfig, names: Sequence[str]) -> list[_Group]:
    if not names:
        raise InputError(f"debias={config.name}: no groups, so no direction to remove. Use debias=none.")
    words_of_noun = {noun.lower(): tuple(words) for noun, words in config.nouns.items()}
    groups, names_of_phrase = [], defaultdict(list)
    for name in sorted(set(names)):
        words = name.replace("_", " ").lower().split()
        if not words:
            raise InputError(f"debias: the name of the group {name!r} contains no word. Rename it.")
        nouns = words_of_noun.get(words[-1], ())
        groups.append(_Group(" ".join(words[:-1] if nouns else words), nouns))
        names_of_phrase[groups[-1].phrase].append(name)
    for phrase, same_names in names_of_phrase.items():
        if len(same_names) > 1:
            raise InputError(
                f"debias={config.name}: the groups {' and '.join(map(repr, same_names))} have the same "
                f"phrase, {phrase!r}. Give them different words in debias.nouns, or rename them."
            )
    return groups


def _is_pair(a: _Group, b: _Group) -> bool:
    """Return whether the names of two groups differ in exactly one word, or both have only one word."""
    have_single_words = all(min(group.name_words) == "" for group in (a, b))
    return have_single_words or sum(x != y for x, y in zip(a.name_words, b.name_words, strict=True)) == 1
