"""The stimulus table: the seam between what is shown and everything that looks at it."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from src.errors import InputError, brief

IMAGE_ROLES = ("faces", "scenes")
TEXT_ROLES = ("words", "labels")
ROLES = IMAGE_ROLES + TEXT_ROLES
# Texts that an experiment or a projection brings itself: `id`, `sentence`; they carry nothing.
PROMPTS = "prompts"
# What a role carries decides the metric of an experiment that retrieves from it.
CARRIES = {"faces": "group", "labels": "group", "scenes": "valence", "words": "valence"}

# Of morphs: pictures of parents and children, beside the morphs.
SHEET = "contact_sheet.jpg"

TEXT_COLUMNS = ("word", "template", "sentence")
# Columns that belong to the seam. `path` is no content: it says where a picture lies today, its
# sha256 says what it is.
CONTENT = {
    *("id", "group", "valence", *TEXT_COLUMNS, "sha256", "race", "gender", "age"),
    *("parent_a", "parent_b", "race_word", "gender_word"),
}


@dataclass(frozen=True)
class Table:
    """Stimuli of one role.

    Attributes:
        role: faces, scenes, words, labels or prompts.
        frame: one row per stimulus, sorted by `id` (code points): the order of every array that
            belongs to it. Columns: docs/architecture.md, "Formats".
        expected: how many items (images, words, phrases) the source holds.
        notes: why not all of them are used.
    """

    role: str
    frame: pd.DataFrame
    expected: int
    notes: tuple[str, ...] = ()

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the content, in the order of the rows."""
        columns = sorted(set(self.frame.columns) & CONTENT)
        rows = pd.util.hash_pandas_object(self.frame[columns], index=False).to_numpy()
        digest = hashlib.sha256("\0".join(columns).encode())
        digest.update(np.ascontiguousarray(rows).tobytes())
        return digest.hexdigest()

    @property
    def items(self) -> int:
        """How many images, words or phrases there are."""
        return int(self.frame["word" if self.role in TEXT_ROLES else "id"].nunique())

    @property
    def groups(self) -> list[str]:
        """Names of the groups, sorted."""
        return sorted(self.frame["group"].unique())

    def statement(self) -> str:
        """One line: how many items the source holds, how many are used, and why they differ."""
        reasons = f" ({'; '.join(self.notes)})" if self.notes else ""
        sentences = f", {len(self.frame)} sentences" if self.role in TEXT_ROLES else ""
        return f"{self.role}: {self.items} used of {self.expected}{sentences}{reasons}"


def checked(
    role: str,
    frame: pd.DataFrame,
    source: str,
    *,
    expected: int | None = None,
    notes: Sequence[str] = (),
) -> Table:
    """Make a table of `frame`, or say what is wrong with it.

    Args:
        role: faces, scenes, words or labels.
        frame: the stimuli, in any order.
        source: where they come from, for messages: a file or a generator.
        expected: how many items the source holds; by default as many as there are.
        notes: see `Table`.

    Raises:
        InputError: a column is missing, there is no row, an id or a picture (`sha256`) occurs twice, a group
            is empty, words or groups differ in blanks or Unicode form alone, a valence is not a number in
            [0, 1], or words and templates do not form a full grid.
    """
    needed = ["id", CARRIES[role]]
    if role in TEXT_ROLES:
        needed += TEXT_COLUMNS
    missing = [column for column in needed if column not in frame.columns]
    if missing:
        raise InputError(
            f"{source}: no column {', '.join(missing)}; found {brief(', '.join(map(str, frame.columns)))}. "
            f"{role} need {', '.join(needed)}."
        )
    if frame.empty:
        raise InputError(f"{source}: no {role} in it. Add at least one.")
    frame = frame.assign(id=frame["id"].astype(str)).sort_values("id", kind="stable", ignore_index=True)
    _unique(frame, source)
    if role in IMAGE_ROLES and "sha256" in frame:
        _distinct_pictures(frame, source)
    texts = [column for column in (*TEXT_COLUMNS, "group") if column in needed]
    for column in texts:
        _filled(frame, column, source)
    if CARRIES[role] == "valence":
        _valence(frame, source)
    for column in ("group", "word"):
        if column in texts:
            _distinct_texts(frame[column], source)
    if role in TEXT_ROLES:
        _grid(frame, CARRIES[role], source)
        notes = [*notes, *_case_notes(frame["word"])]
    table = Table(role, frame, 0, tuple(notes))
    return replace(table, expected=table.items if expected is None else expected)


def _unique(frame: pd.DataFrame, source: str) -> None:
    twice = frame["id"][frame["id"].duplicated()]
    if len(twice):
        raise InputError(
            f"{source}: {len(twice)} ids occur more than once, first {brief(twice.iloc[0])!r}. "
            "Ids name rows: make them unique."
        )


def _distinct_pictures(frame: pd.DataFrame, source: str) -> None:
    copies = frame["sha256"].notna() & frame["sha256"].duplicated()
    if copies.any():
        second = frame[copies].iloc[0]
        first = frame[frame["sha256"] == second["sha256"]].iloc[0]
        raise InputError(
            f"{source}: {brief(second['id'])!r} is the same picture as {brief(first['id'])!r} (equal sha256; "
            f"{copies.sum()} such rows). Keep one row of each picture, and its vectors, and write both anew."
        )


def _distinct_texts(texts: pd.Series, source: str) -> None:
    """Refuse texts that differ in blanks or in Unicode's form alone, as é can be one sign or two."""
    spellings: dict[str, str] = {}
    for text in texts.unique():
        first = spellings.setdefault(" ".join(unicodedata.normalize("NFC", text).split()), text)
        if first != text:
            raise InputError(
                f"{source}: the {texts.name}s {brief(first)!a} and {brief(text)!a} differ in blanks "
                "or in Unicode form (NFC) alone. Write both alike, or keep one of them."
            )


def _case_notes(words: pd.Series) -> list[str]:
    distinct = pd.Series(words.unique())
    same = distinct[distinct.str.casefold().duplicated(keep=False)].sort_values()
    if same.empty:
        return []
    first = ", ".join(brief(word) for word in same if word.casefold() == same.iloc[0].casefold())
    return [f"words that differ in case alone, which most encoders drop: {len(same)}, first {first}"]


def _filled(frame: pd.DataFrame, column: str, source: str) -> None:
    empty = frame[column].isna()
    if column == "group":
        empty |= frame[column].astype(str).str.strip() == ""
    if empty.any():
        raise InputError(
            f"{source}: {empty.sum()} rows have no {column}, first {brief(frame['id'][empty].iloc[0])!r}. "
            "Fill it in, or leave the row out."
        )
    frame[column] = frame[column].astype(str)


def _valence(frame: pd.DataFrame, source: str) -> None:
    valence = pd.to_numeric(frame["valence"], errors="coerce")
    bad = frame[~valence.between(0, 1)]
    if len(bad):
        row = bad.iloc[0]
        raise InputError(
            f"{source}: {len(bad)} valences are not numbers in [0, 1], first {brief(str(row['valence']))} of "
            f"{brief(row['id'])!r}. Rescale or correct them."
        )
    frame["valence"] = valence.astype(float)


def _grid(frame: pd.DataFrame, carried: str, source: str) -> None:
    # A word's score is the mean over its templates, so each word must stand in each once.
    pairs = frame[["word", "template"]]
    twice = frame[pairs.duplicated()]
    if len(twice):
        raise InputError(
            f"{source}: the word {brief(twice['word'].iloc[0])!r} stands twice in the template "
            f"{brief(twice['template'].iloc[0])!r}. Delete one row: each word stands in each template once."
        )
    templates = frame["template"].nunique()
    counts = frame["word"].value_counts()
    short = counts[counts < templates]
    if len(short):
        raise InputError(
            f"{source}: {len(short)} words do not stand in all {templates} templates, first "
            f"{brief(short.index[0])!r} ({short.iloc[0]}). Add rows: each word stands in each template once."
        )
    several = frame.groupby("word")[carried].nunique()
    if (several > 1).any():
        word = several.index[several > 1][0]
        raise InputError(
            f"{source}: the word {brief(word)!r} has more than one {carried}. Correct it: all its "
            "sentences share one."
        )
