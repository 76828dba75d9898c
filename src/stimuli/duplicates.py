"""Refuse or drop pictures that occur twice: files of the same bytes, under whatever names."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd

from src.errors import InputError
from src.storage.cache import file_hash


def distinct(frame: pd.DataFrame, source: Path, duplicates: str, role: str) -> tuple[pd.DataFrame, list[str]]:
    """Refuse pictures that occur twice, or drop all but the first of each.

    Args:
        frame: `path`, what the role carries (`group` or `valence`), and `row`, where a csv names the
            pictures; in the order in which one of several is the first.
        source: of the rows, for messages.
        duplicates: "stop" or "drop".
        role: whose setting `duplicates` is.

    Returns:
        The frame without `row`, and how many pictures were dropped.

    Raises:
        InputError: a picture occurs twice and `duplicates` is "stop"; both rows are named.
    """
    with ThreadPoolExecutor() as pool:
        digests = pd.Series(list(pool.map(_digest, map(Path, frame["path"]))), frame.index)
    copies = digests.notna() & digests.duplicated()
    firsts = frame[~copies].drop(columns="row", errors="ignore").reset_index(drop=True)
    if not copies.any():
        return firsts, []
    carried = "group" if "group" in frame else "valence"
    labels = digests.index.to_series()[~copies]
    original = frame.loc[digests[copies].map(dict(zip(digests[~copies], labels, strict=True)))]
    differ = frame[carried][copies].to_numpy() != original[carried].to_numpy()
    if duplicates == "drop":
        others = f", {differ.sum()} of them with another {carried}" if differ.any() else ""
        return firsts, [f"{copies.sum()} pictures occur a second time{others} ({role}.duplicates=drop)"]
    second, first = frame[copies].iloc[0], original.iloc[0]
    conflict = f" with {carried} {first[carried]} (here {second[carried]})" if differ[0] else ""
    raise InputError(
        f"{_place(second, source)}: the same picture, byte for byte, as {_place(first, source)}{conflict}; "
        f"{copies.sum()} such pictures. Delete one of each two, or set {role}.duplicates=drop to keep the "
        "first."
    )


def _place(row: pd.Series, source: Path) -> str:
    return f"{source}, row {row['row']} ({row['path']})" if "row" in row else str(row["path"])


def _digest(path: Path) -> str | None:
    """Hash a file; None of one that is empty or unreadable, which `pictures.hashes` refuses."""
    try:
        return file_hash(path) if path.stat().st_size else None
    except OSError:
        return None
