"""What an audit of implicit bias looks at: its prompts, and as many faces of each group."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd

from src.configs import ProtocolConfig
from src.errors import InputError, NotApplicable
from src.stimuli import Table
from src.studies.implicit.config import AuditConfig


def prompts(exp: AuditConfig) -> Table:
    """The prompts of an audit, each word once: `id` (the sentence), `sentence`, `word`.

    Raises:
        InputError: the template has not one place for the word, an attribute list has an empty side or
            a word twice, a pair is not two words, or an IAT has no pairs.
    """
    if exp.template.count("{}") != 1:
        raise InputError(f"exp.template={exp.template!r}: the word's place, {{}}, must stand in it once.")
    if not exp.sets:
        raise InputError("exp.sets: no set of words. Give at least one: name: [word, ...].")
    if len(exp.sets) > 1 and exp.attribute in exp.sets:
        raise InputError(f"exp.attribute={exp.attribute}: names the mean of all sets, and one of them too.")
    if exp.measure == "iat" and not exp.pairs:
        raise InputError("exp.measure=iat: no pairs of words. Give exp.pairs: [[positive, negative], ...].")
    for name, words in exp.sets.items():
        _words(f"exp.sets.{name}", words)
    for pair in exp.pairs:
        _words(f"exp.pairs: {pair}", pair)
        if len(pair) != 2:
            raise InputError(f"exp.pairs: {pair} is not a pair. Give a positive and a negative word.")
    chosen = dict.fromkeys(word for words in (*exp.sets.values(), *exp.pairs) for word in words)
    frame = pd.DataFrame({"word": list(chosen)})
    frame["sentence"] = [exp.template.replace("{}", word) for word in chosen]
    frame = frame.assign(id=frame["sentence"])[["id", "sentence", "word"]]
    return Table("prompts", frame.sort_values("id", kind="stable", ignore_index=True), len(frame))


def _words(where: str, words: Sequence[str]) -> None:
    if not words or not all(word.strip() for word in words):
        found = "an empty word" if words else "no word"
        raise InputError(f"{where}: {found}: an attribute list with an empty side. Fill it in.")
    word, count = Counter(words).most_common(1)[0]
    if count > 1:
        raise InputError(f"{where}: {word!r} stands in it {count} times. Name each word once.")


def check(exp: AuditConfig, faces: Table, protocol: ProtocolConfig, seed: int) -> dict[str, np.ndarray]:
    """The faces of an audit: as many of each group, drawn by seed.

    A group's draw hangs on the seed and on its place among all groups of the table: which others are
    chosen does not change it.

    Args:
        exp: names the groups; null: all of the table.
        faces: the stimuli.
        protocol: how many of each group at most.
        seed: of the draw.

    Returns:
        Group (sorted) -> positions in the table (ascending).

    Raises:
        InputError: a group is unknown or named twice, or has fewer than two faces.
        NotApplicable: there are fewer than two groups.
    """
    every = faces.groups
    chosen = every if exp.groups is None else sorted(exp.groups)
    for group in chosen:
        if group not in every:
            near = difflib.get_close_matches(group, every, n=1)
            said = f" Did you mean {near[0]!r}?" if near else ""
            raise InputError(f"exp.groups: no faces of {group!r}.{said} There are: {', '.join(every)}.")
        if chosen.count(group) > 1:
            raise InputError(f"exp.groups: {group!r} stands in it twice. Name each group once.")
    if len(chosen) < 2:
        found = ", ".join(chosen) or "none"
        raise NotApplicable(f"{faces.role}: an audit compares two groups or more, there is {found}.")
    ids, owners = faces.frame["id"].to_numpy(), faces.frame["group"].to_numpy()
    members = {group: np.flatnonzero(owners == group) for group in chosen}
    for group, rows in members.items():
        if len(rows) < 2:
            raise InputError(
                f"{faces.role}: {len(rows)} face of {group!r}; an audit needs two of each group. "
                "Add faces, or choose others with exp.groups."
            )
    size = min(protocol.faces_per_group, *(len(rows) for rows in members.values()))
    for group, rows in members.items():
        drawn = np.random.default_rng([seed, every.index(group)]).permutation(len(rows))[:size]
        members[group] = np.sort(rows[np.argsort(ids[rows], kind="stable")][drawn])
    return members
