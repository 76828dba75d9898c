"""Which sentences say what is projected away: made of the names of a dataset's own groups."""

from __future__ import annotations

from collections import Counter
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
    """Sentences whose vectors decide a projection.

    Attributes:
        table: each sentence once; role "prompts", columns `id` (the sentence) and `sentence`, sorted by id.
        spurious: the sentences whose directions are removed, sorted.
        pairs: sentences that should mean the same; empty where the projection is not calibrated.
    """

    table: Table
    spurious: list[str]
    pairs: list[tuple[str, str]]


@dataclass(frozen=True)
class _Group:
    adjective: str
    nouns: tuple[str, ...]

    @property
    def parts(self) -> tuple[str, str]:
        """What tells it from another group; empty what its name does not have."""
        return self.adjective, self.nouns[0] if self.nouns else ""

    @property
    def phrase(self) -> str:
        adjective, noun = self.parts
        return f"{adjective} {noun or 'person'}".strip()


def prompts(chosen: DebiasConfig, groups: Sequence[str]) -> Prompts | None:
    """The sentences of a method for these groups; None where the method projects nothing.

    The last word of a group's name is looked up in `chosen.nouns` (whatever its case), the rest is an
    adjective; a name without a known noun is all adjective. Removed are the directions of every noun and of
    every adjective "... person": for Black and White Men and Women the six prompts of Capitani et al. 2024.
    The same should mean, class by class, the phrases of two groups that differ in one part of their name;
    groups whose names have one part only are all such pairs.

    Args:
        chosen: the method.
        groups: names of the groups, in any order.

    Raises:
        InputError: a template without exactly one `{}`, a noun without a word, a strength that is infinite,
            no group, groups that come out as the same phrase, or nothing to calibrate on.
    """
    if not chosen.spurious:
        return None
    _hold(chosen)
    found = _groups(chosen, groups)
    spurious = sorted({chosen.spurious.replace(BLANK, phrase) for phrase in _directions(found)})
    pairs = [
        (template.replace(BLANK, a.phrase), template.replace(BLANK, b.phrase))
        for template in chosen.classes
        for a, b in combinations(found, 2)
        if _alike(a, b)
    ]
    if chosen.classes and not pairs:
        raise InputError(
            f"debias={chosen.name}: no two of the groups {', '.join(sorted(set(groups)))} differ in exactly "
            "one part of their name, so there is nothing to calibrate on. Say debias=orth_proj, which needs "
            "no pairs."
        )
    sentences = sorted({*spurious, *(sentence for pair in pairs for sentence in pair)})
    frame = pd.DataFrame({"id": sentences, "sentence": sentences})
    return Prompts(Table("prompts", frame, len(frame)), spurious, pairs)


def _hold(chosen: DebiasConfig) -> None:
    for template in (chosen.spurious, *chosen.classes):
        if template.count(BLANK) != 1:
            raise InputError(
                f"debias={chosen.name}: the template {template!r} has {template.count(BLANK)} places for a "
                f"group. Write {BLANK} where the group is named, once."
            )
    for noun, words in chosen.nouns.items():
        if not words or not all(map(str.strip, words)):
            raise InputError(
                f"debias.nouns.{noun}={words}: a word is missing. Say what its members are called, or leave "
                f"{noun} out."
            )
    if chosen.strength and not chosen.classes:
        raise InputError(
            f"debias={chosen.name}: debias.strength={chosen.strength:g} decides nothing without "
            "debias.classes. Leave it out, or choose debias=orth_proj_calibrated."
        )
    if chosen.strength == float("inf"):
        raise InputError("debias.strength=inf: must be finite. The papers take 1000.")


def _groups(chosen: DebiasConfig, names: Sequence[str]) -> list[_Group]:
    if not names:
        raise InputError(
            f"debias={chosen.name}: no group is there whose direction could be removed. Say debias=none."
        )
    nouns = {noun.lower(): tuple(words) for noun, words in chosen.nouns.items()}
    found = {name: _group(name, nouns) for name in sorted(set(names))}
    phrases = Counter(group.phrase for group in found.values())
    for phrase, count in phrases.items():
        if count > 1:
            alike = [name for name, group in found.items() if group.phrase == phrase]
            raise InputError(
                f"debias={chosen.name}: the groups {' and '.join(map(repr, alike))} come out alike, as "
                f"{phrase!r}. Give them words of their own in debias.nouns, or rename them."
            )
    return list(found.values())


def _group(name: str, nouns: dict[str, tuple[str, ...]]) -> _Group:
    words = name.replace("_", " ").lower().split()
    if not words:
        raise InputError(f"debias: the group {name!r} has no name that a sentence could say. Rename it.")
    if words[-1] in nouns:
        return _Group(" ".join(words[:-1]), nouns[words[-1]])
    return _Group(" ".join(words), ())


def _directions(groups: list[_Group]) -> set[str]:
    nouns = {noun for group in groups for noun in group.nouns}
    return nouns | {f"{group.adjective} person" for group in groups if group.adjective}


def _alike(a: _Group, b: _Group) -> bool:
    single = all(min(group.parts) == "" for group in (a, b))
    return single or sum(x != y for x, y in zip(a.parts, b.parts, strict=True)) == 1
