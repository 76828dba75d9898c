"""Define the stimulus table: the interface between stimuli and all code that uses them."""

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
# Texts that an experiment or a projection supplies: `id`, `sentence`; they carry no group or valence.
PROMPTS = "prompts"
# Role -> attribute of its stimuli, which decides the metric of an experiment that retrieves from them.
CARRIES = {"faces": "group", "labels": "group", "scenes": "valence", "words": "valence"}

# Pictures of parents and their morphs, stored along with the morphs.
CONTACT_SHEET = "contact_sheet.jpg"

TEXT_COLUMNS = ("word", "template", "sentence")
# Columns that identify the stimuli. `path` is not content: it is the current location of a picture, whose
# sha256 identifies it.
CONTENT = {
    *("id", "group", "valence", *TEXT_COLUMNS, "sha256", "race", "gender", "age"),
    *("parent_a", "parent_b", "race_word", "gender_word"),
}
# Result of a loader: stimuli, number of items in their source, and notes on why not all of them are used.
Loaded = tuple[pd.DataFrame, int, list[str]]


@dataclass(frozen=True)
class Table:
    """Stimuli of one role."""

    role: str  # faces, scenes, words, labels or prompts
    # One row per stimulus, sorted by `id` (code points): the order of every array of the same stimuli.
    # Columns: docs/architecture.md, "Formats".
    frame: pd.DataFrame
    expected: int  # number of items (images, words, phrases) of the source
    notes: tuple[str, ...] = ()  # reasons why not all of them are used

    @cached_property
    def hash(self) -> str:
        """Hash the content (SHA-256), in the order of the rows."""
        columns = sorted(set(self.frame.columns) & CONTENT)
        rows = pd.util.hash_pandas_object(self.frame[columns], index=False).to_numpy()
        digest = hashlib.sha256("\0".join(columns).encode())
        digest.update(np.ascontiguousarray(rows).tobytes())
        return digest.hexdigest()

    @cached_property
    def cluster_hash(self) -> str:
        """Hash the clusters of a table that brings them; empty without. They move no vector."""
        if "cluster" not in self.frame:
            return ""
        rows = pd.util.hash_pandas_object(self.frame[["id", "cluster"]].astype("string"), index=False)
        return hashlib.sha256(np.ascontiguousarray(rows.to_numpy()).tobytes()).hexdigest()

    @property
    def items(self) -> int:
        """Count the images, words or phrases."""
        return int(self.frame["word" if self.role in TEXT_ROLES else "id"].nunique())

    @property
    def groups(self) -> list[str]:
        """Return the sorted names of the groups."""
        return sorted(self.frame["group"].unique())

    def statement(self) -> str:
        """State in one line how many items the source has, how many are used, and why they differ."""
        reasons = f" ({'; '.join(self.notes)})" if self.notes else ""
        sentences = f", {len(self.frame)} sentences" if self.role in TEXT_ROLES else ""
        return f"{self.role}: {self.items} used of {self.expected}{sentences}{reasons}"


def build_table(
    role: str, frame: pd.DataFrame, source: str, *, expected: int | None = None, notes: Sequence[str] = ()
) -> Table:
    """Make a table of stimuli in any order, after checking it; `source` is their origin, for messages.

    Raises:
        InputError: a column is missing, there is no row, an id or a picture (`sha256`) is repeated, a group
            is empty, words or groups differ only in blanks or Unicode form, a valence is not a number in [0,
            1], or words and templates do not form a full grid.
    """
    required = ["id", CARRIES[role]]
    if role in TEXT_ROLES:
        required += TEXT_COLUMNS
    missing = [column for column in required if column not in frame.columns]
    if missing:
        raise InputError(
            f"{source}: no column {', '.join(missing)}; found {brief(', '.join(map(str, frame.columns)))}. "
            f"{role} need {', '.join(required)}."
        )
    if frame.empty:
        raise InputError(f"{source}: no {role} in it. Add at least one.")
    frame = frame.assign(id=frame["id"].astype(str)).sort_values("id", kind="stable", ignore_index=True)
    _check_unique(frame, source)
    for column in (*TEXT_COLUMNS, "group"):
        if column in required:
            _convert_texts(frame, column, source)
    if CARRIES[role] == "valence":
        _convert_valence(frame, source)
    if role in TEXT_ROLES:
        _check_grid(frame, CARRIES[role], source)
        notes = [*notes, *_case_notes(frame["word"])]
    table = Table(role, frame, 0, tuple(notes))
    return replace(table, expected=table.items if expected is None else expected)


def _check_unique(frame: pd.DataFrame, source: str) -> None:
    repeated = frame["id"][frame["id"].duplicated()]
    if len(repeated):
        first = brief(repeated.iloc[0])
        raise InputError(f"{source}: {len(repeated)} ids occur more than once, first {first!r}. Rename them.")
    hashes = frame["sha256"] if "sha256" in frame else frame["id"]
    copies = hashes.notna() & hashes.duplicated()
    if copies.any():
        second = frame[copies].iloc[0]
        first = frame[frame["sha256"] == second["sha256"]].iloc[0]
        raise InputError(
            f"{source}: {brief(second['id'])!r} is the same picture as {brief(first['id'])!r} (equal sha256; "
            f"{copies.sum()} such rows). Keep one row of each picture, and its vectors, and write both again."
        )


def _case_notes(words: pd.Series) -> list[str]:
    distinct = pd.Series(words.unique())
    variants = distinct[distinct.str.casefold().duplicated(keep=False)].sort_values()
    if variants.empty:
        return []
    first = ", ".join(brief(word) for word in variants if word.casefold() == variants.iloc[0].casefold())
    return [f"words that differ in case alone, which most encoders drop: {len(variants)}, first {first}"]


def _convert_texts(frame: pd.DataFrame, column: str, source: str) -> None:
    """Convert a column to texts.

    Refuse groups and words that differ only in blanks or in Unicode form, as é can be one code point or two.
    """
    empty = frame[column].isna()
    if column == "group":
        empty |= frame[column].astype(str).str.strip() == ""
    if empty.any():
        first = brief(frame["id"][empty].iloc[0])
        raise InputError(f"{source}: {empty.sum()} rows have no {column}, first {first!r}. Add it.")
    frame[column] = frame[column].astype(str)
    spellings: dict[str, str] = {}
    for text in frame[column].unique() if column in ("group", "word") else ():
        first = spellings.setdefault(" ".join(unicodedata.normalize("NFC", text).split()), text)
        if first != text:
            raise InputError(
                f"{source}: the {column}s {brief(first)!a} and {brief(text)!a} differ in blanks "
                "or in Unicode form (NFC) alone. Write both alike."
            )


def _convert_valence(frame: pd.DataFrame, source: str) -> None:
    valence = pd.to_numeric(frame["valence"], errors="coerce")
    bad = frame[~valence.between(0, 1)]  # NaN included
    if len(bad):
        row = bad.iloc[0]
        raise InputError(
            f"{source}: {len(bad)} valences are not numbers in [0, 1], first {brief(str(row['valence']))} of "
            f"{brief(row['id'])!r}. Rescale or correct them."
        )
    frame["valence"] = valence.astype(float)


def _check_grid(frame: pd.DataFrame, carried: str, source: str) -> None:
    # A word's score is the mean over its templates, so each word must occur in each template once.
    pairs = frame[["word", "template"]]
    copies = frame[pairs.duplicated()]
    if len(copies):
        raise InputError(
            f"{source}: the word {brief(copies['word'].iloc[0])!r} occurs twice in the template "
            f"{brief(copies['template'].iloc[0])!r}. Delete one row."
        )
    templates = frame["template"].nunique()
    counts = frame["word"].value_counts()
    partial = counts[counts < templates]
    if len(partial):
        raise InputError(
            f"{source}: {len(partial)} words do not occur in all {templates} templates, first "
            f"{brief(partial.index[0])!r} ({partial.iloc[0]}). Each word must occur in each template once."
        )
    for column in (carried, *({"cluster"} & {*frame.columns})):
        values = frame.groupby("word")[column].nunique(dropna=False)
        if (values > 1).any():
            word = values.index[values > 1][0]
            raise InputError(
                f"{source}: the word {brief(word)!r} has several values of {column}. Give it one."
            )
