"""Define the stimulus table, through which all other code uses stimuli."""

import hashlib
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from src.demo.contents import CONTENTS
from src.errors import InputError, brief

IMAGE_ROLES = ("faces", "scenes")
TEXT_ROLES = ("words", "labels")
ROLES = IMAGE_ROLES + TEXT_ROLES
# Texts of an experiment or a projection: they need `id` and `sentence` only, and neither group nor valence;
# studies add columns such as `word` and `group`.
PROMPTS = "prompts"
# Role -> attribute of its stimuli, which determines the outcome of an experiment that retrieves them.
CARRIES = {"faces": "group", "labels": "group", "scenes": "valence", "words": "valence"}

# Overview of parents and their morphs, stored with the morphs.
CONTACT_SHEET = "contact_sheet.jpg"

# Ratings that were rescaled in float32 may exceed 0 and 1 by rounding errors.
ROUNDING = 1e-6
TEXT_COLUMNS = ("word", "template", "sentence")
# Columns that identify the stimuli. `path` is only the current location of a picture and does not.
HASHED_COLUMNS = {
    *("id", "group", "valence", *TEXT_COLUMNS, "sha256", "race", "gender", "age"),
    *("parent_a", "parent_b", "race_word", "gender_word"),
}
# Left, top, right and bottom edge of the face's region in the upright picture, in pixels.
BOX = ("box_left", "box_top", "box_right", "box_bottom")
# Columns that are no attributes of people, although they may hold texts: `expression` is part of CFD's ids;
# `CONTENTS` are what the built-in world draws around its faces.
NOT_ATTRIBUTES = {
    *("id", "group", "valence", "path", "sha256", "cluster", "person", "set", "parent_a", "parent_b"),
    *(*BOX, *TEXT_COLUMNS, "row", "file", "conversions", "expression", *CONTENTS),
}
# Result of a loader: stimuli, number of items in the source, and notes on why not all of them are used.
LoadedStimuli = tuple[pd.DataFrame, int, list[str]]


@dataclass(frozen=True)
class Table:
    """Stimuli of one role."""

    role: str  # faces, scenes, words, labels or prompts
    # One row per stimulus, sorted by `id` (code points). Arrays of the same stimuli have the same order.
    # Columns: docs/architecture.md, "Formats".
    frame: pd.DataFrame
    n_source_items: int  # number of items (images, words, phrases) in the source
    notes: tuple[str, ...] = ()  # reasons why not all items are used
    n_unread: int | None = None  # texts left out, as the job's model does not read them; None: not checked

    @cached_property
    def hash(self) -> str:
        """Hash the columns that identify stimuli, in the order of the rows (SHA-256)."""
        columns = sorted(set(self.frame.columns) & HASHED_COLUMNS)
        rows = pd.util.hash_pandas_object(self.frame[columns], index=False).to_numpy()
        digest = hashlib.sha256("\0".join(columns).encode())
        digest.update(np.ascontiguousarray(rows).tobytes())
        return digest.hexdigest()

    @cached_property
    def cluster_hash(self) -> str:
        """Hash the clusters, which do not affect vectors; empty without the column `cluster`."""
        if "cluster" not in self.frame:
            return ""
        rows = pd.util.hash_pandas_object(self.frame[["id", "cluster"]].astype("string"), index=False)
        return hashlib.sha256(np.ascontiguousarray(rows.to_numpy()).tobytes()).hexdigest()

    @cached_property
    def attributes(self) -> list[str]:
        """Return the attributes of people: race, gender, age, and further columns of texts."""
        return [
            str(name)
            for name, column in self.frame.items()
            if name in ("race", "gender", "age")
            or (name not in NOT_ATTRIBUTES and not pd.api.types.is_numeric_dtype(column))
        ]

    @cached_property
    def people_hash(self) -> str:
        """Hash persons, sets, regions of faces and further attributes, which do not affect vectors.

        Empty without such columns, and for scenes and words.
        """
        names = sorted({*self.attributes, "person", "set", *BOX} & {*self.frame.columns} - HASHED_COLUMNS)
        if not names or CARRIES.get(self.role) != "group":
            return ""
        rows = pd.util.hash_pandas_object(self.frame[["id", *names]].astype("string"), index=False)
        digest = hashlib.sha256("\0".join(names).encode())
        digest.update(np.ascontiguousarray(rows.to_numpy()).tobytes())
        return digest.hexdigest()

    @property
    def n_items(self) -> int:
        """Count the distinct images, words or phrases."""
        return int(self.frame["word" if self.role in TEXT_ROLES else "id"].nunique())

    @property
    def groups(self) -> list[str]:
        """Return the sorted names of the groups."""
        return sorted(self.frame["group"].unique())

    def describe(self) -> str:
        """State in one line how many of the source's items are used, and why not all of them."""
        reasons = f" ({'; '.join(self.notes)})" if self.notes else ""
        sentences = f", {len(self.frame)} sentences" if self.role in TEXT_ROLES else ""
        return f"{self.role}: {self.n_items} used of {self.n_source_items}{sentences}{reasons}"


def build_table(
    role: str, frame: pd.DataFrame, source: str, *, expected: int | None = None, notes: Sequence[str] = ()
) -> Table:
    """Check stimuli and make a table of them.

    Args:
        role: role of the stimuli.
        frame: stimuli, in any order.
        source: origin of the stimuli, named in messages.
        expected: number of items in the source; None for the number of items in `frame`.
        notes: reasons why not all items are used.

    Raises:
        InputError: a column or all rows are missing, an id or a picture (`sha256`) is repeated, a group has
            no name, words or groups differ only in blanks or Unicode form, a valence is not a number in
            [0, 1], or a word does not occur once in each template.
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
    if role == "faces":
        for column in {"person", "set"} & {*frame.columns}:
            texts = frame[column].astype("string").str.strip()
            frame[column] = texts.astype(object).where(texts.fillna("") != "", None)
        check_boxes(frame, source)
    if role in TEXT_ROLES:
        _check_grid(frame, CARRIES[role], source)
        notes = [*notes, *_note_case_variants(frame["word"])]
    table = Table(role, frame, 0, tuple(notes))
    return replace(table, n_source_items=table.n_items if expected is None else expected)


def _check_unique(frame: pd.DataFrame, source: str) -> None:
    repeats = frame["id"][frame["id"].duplicated()]
    if len(repeats):
        first = brief(repeats.iloc[0])
        raise InputError(f"{source}: {len(repeats)} ids occur more than once, first {first!r}. Rename them.")
    hashes = frame["sha256"] if "sha256" in frame else frame["id"]
    is_copy = hashes.notna() & (hashes != "") & hashes.duplicated()
    if is_copy.any():
        second = frame[is_copy].iloc[0]
        first = frame[frame["sha256"] == second["sha256"]].iloc[0]
        raise InputError(
            f"{source}: {brief(second['id'])!r} is the same picture as {brief(first['id'])!r} (equal "
            f"sha256; {is_copy.sum()} such rows). Keep one row of each picture, and its vectors, and write "
            "both again."
        )


def check_boxes(frame: pd.DataFrame, source: str) -> None:
    """Convert the edges of regions (`BOX`) to numbers, in place; a face without a region has no edge.

    Raises:
        InputError: a face has some of the four edges, an edge is not a finite number, or a region is empty.
    """
    columns = [name for name in BOX if name in frame]
    if not columns:
        return
    if len(columns) < len(BOX):
        missing = ", ".join(name for name in BOX if name not in frame)
        raise InputError(f"{source}: no column {missing}. Add it, or leave out {', '.join(columns)}.")
    edges = frame[columns].apply(pd.to_numeric, errors="coerce").astype(float)
    left, top, right, bottom = (edges[name] for name in BOX)
    is_region = np.isfinite(edges).all(axis=1) & (left < right) & (top < bottom)
    is_invalid = ~is_region & frame[columns].notna().any(axis=1)
    if is_invalid.any():
        first = frame[is_invalid].iloc[0]
        place = f"{source}, row {first['row']}" if "row" in frame else f"{source}: {brief(first['id'])!r}"
        raise InputError(
            f"{place}: expected the left, top, right and bottom edge of a face, got "
            f"{', '.join(str(first[name]) for name in BOX)} ({is_invalid.sum()} such rows). Correct them, or "
            "leave all four empty."
        )
    frame[columns] = edges


def _note_case_variants(words: pd.Series) -> list[str]:
    distinct = pd.Series(words.unique())
    variants = distinct[distinct.str.casefold().duplicated(keep=False)].sort_values()
    if variants.empty:
        return []
    first = ", ".join(brief(word) for word in variants if word.casefold() == variants.iloc[0].casefold())
    return [f"words that differ in case alone, which most encoders drop: {len(variants)}, first {first}"]


def _convert_texts(frame: pd.DataFrame, column: str, source: str) -> None:
    """Convert a column to text, in place.

    Refuse groups or words that differ only in blanks or Unicode form: é can be one code point or two.
    """
    is_empty = frame[column].isna()
    if column == "group":
        is_empty |= frame[column].astype(str).str.strip() == ""
    if is_empty.any():
        first = brief(frame["id"][is_empty].iloc[0])
        raise InputError(f"{source}: {is_empty.sum()} rows have no {column}, first {first!r}. Add it.")
    frame[column] = frame[column].astype(str)
    first_spellings: dict[str, str] = {}
    for text in frame[column].unique() if column in ("group", "word") else ():
        first = first_spellings.setdefault(" ".join(unicodedata.normalize("NFC", text).split()), text)
        if first != text:
            raise InputError(
                f"{source}: the {column}s {brief(first)!a} and {brief(text)!a} differ in blanks "
                "or in Unicode form (NFC) alone. Write both alike."
            )


def _convert_valence(frame: pd.DataFrame, source: str) -> None:
    valence = pd.to_numeric(frame["valence"], errors="coerce")
    bad_rows = frame[~valence.between(-ROUNDING, 1 + ROUNDING)]  # NaN included
    if len(bad_rows):
        row = bad_rows.iloc[0]
        raise InputError(
            f"{source}: {len(bad_rows)} valences are not numbers in [0, 1], first "
            f"{brief(str(row['valence']))} of {brief(row['id'])!r}. Rescale or correct them."
        )
    frame["valence"] = valence.astype(float).clip(0, 1)


def _check_grid(frame: pd.DataFrame, attribute: str, source: str) -> None:
    # A word's score is the mean over its templates, so each word must occur in each template once.
    pairs = frame[["word", "template"]]
    repeats = frame[pairs.duplicated()]
    if len(repeats):
        raise InputError(
            f"{source}: the word {brief(repeats['word'].iloc[0])!r} occurs twice in the template "
            f"{brief(repeats['template'].iloc[0])!r}. Delete one row."
        )
    n_templates = frame["template"].nunique()
    counts = frame["word"].value_counts()
    low_counts = counts[counts < n_templates]
    if len(low_counts):
        raise InputError(
            f"{source}: {len(low_counts)} words do not occur in all {n_templates} templates, first "
            f"{brief(low_counts.index[0])!r} ({low_counts.iloc[0]}). Each word must occur in each template "
            "once."
        )
    for column in (attribute, *({"cluster"} & {*frame.columns})):
        values = frame.groupby("word")[column].nunique(dropna=False)
        if (values > 1).any():
            word = values.index[values > 1][0]
            raise InputError(
                f"{source}: the word {brief(word)!r} has several values of {column}. Give it one."
            )
