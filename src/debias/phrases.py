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

    # Distinct sentences: role "prompts", columns `id` and `sentence`, both the sentence, sorted.
    table: Table
    spurious: list[str]  # sentences whose directions are removed, sorted
    # Pairs of sentences whose vectors should become equal; empty if the projection is not calibrated.
    pairs: list[tuple[str, str]]


@dataclass(frozen=True)
class _Group:
    adjective: str
    nouns: tuple[str, ...]

    @property
    def parts(self) -> tuple[str, str]:
        """Return adjective and first noun; "" for either that is missing from the name."""
        return self.adjective, self.nouns[0] if self.nouns else ""

    @property
    def phrase(self) -> str:
        return f"{self.adjective} {self.parts[1] or 'person'}".strip()


def build_prompts(config: DebiasConfig, groups: Sequence[str]) -> Prompts | None:
    """Build the sentences of a method from the names of groups; return None if it projects nothing.

    The last word of a group's name is looked up in `config.nouns` (ignoring case), the rest is its adjective;
    without a known noun the whole name is the adjective. Spurious sentences contain each noun, and each
    adjective followed by "person": for Black and White Men and Women, the six prompts of Capitani et al.
    2024. For each template in `config.classes`, two groups form a pair if their names differ in exactly one
    part, adjective or noun; groups whose names have a single part all form pairs.

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
            "one part of their name, so there is nothing to calibrate on. Use debias=orth_proj, which needs "
            "no pairs."
        )
    sentences = sorted({*spurious, *(sentence for pair in pairs for sentence in pair)})
    frame = pd.DataFrame({"id": sentences, "sentence": sentences})
    return Prompts(Table("prompts", frame, len(frame)), spurious, pairs)


def _check(config: DebiasConfig) -> None:
    for template in (config.spurious, *config.classes):
        if template.count(BLANK) != 1:
            raise InputError(
                f"debias={config.name}: the template {template!r} has {template.count(BLANK)} places for a "
                f"group. Write {BLANK} where the group is named, once."
            )
    for noun, words in config.nouns.items():
        if not words or not all(map(str.strip, words)):
            raise InputError(
                f"debias.nouns.{noun}={words}: a word is missing. Add a word for people of the group, or "
                f"leave {noun} out."
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
            raise InputError(f"debias: the name of the group {name!r} holds no word. Rename it.")
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
    have_single_parts = all(min(group.parts) == "" for group in (a, b))
    return have_single_parts or sum(x != y for x, y in zip(a.parts, b.parts, strict=True)) == 1
