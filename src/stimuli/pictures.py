"""Decode, check and hash picture files, and refuse duplicates, before any work is spent on them."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd
from PIL import Image

from src.errors import InputError, brief
from src.stimuli.decoding import decode
from src.stimuli.safe_paths import refuse_links_out
from src.storage.cache import file_hash


def read(path: str | Path) -> Image.Image:
    """Decode a picture into upright RGB; raises OSError, see `decode`."""
    return decode(path)[0]


def hashes(paths: Sequence[Path]) -> tuple[list[str], list[str]]:
    """Decode and hash each picture; return the SHA-256 of each file, and its conversions, joined by "; ".

    Raises:
        InputError: a file is empty, truncated, too large, not a picture, or one that `decode` refuses. The
            message counts these files and names the first ten.
    """
    with ThreadPoolExecutor() as pool:
        results = list(pool.map(_examine, paths))
    broken = [f"{path} ({problem})" for path, (_, _, problem) in zip(paths, results, strict=True) if problem]
    if broken:
        listed = "\n  ".join(broken[:10] + (["..."] if len(broken) > 10 else []))
        raise InputError(
            f"{len(broken)} of {len(paths)} pictures cannot be read:\n  {listed}\n"
            "Replace the files, or delete them: rows without a picture are left out and counted."
        )
    return [digest for digest, _, _ in results], [conversions for _, conversions, _ in results]


def add_hashes(frame: pd.DataFrame) -> pd.DataFrame:
    """Decode and hash the picture at each `path` into columns `sha256` and `conversions` (see `hashes`)."""
    digests, conversions = hashes([Path(path) for path in frame["path"]])
    return frame.assign(sha256=digests, conversions=conversions)


def count_conversions(conversions: Sequence[str]) -> list[str]:
    """Count the converted pictures by kind of conversion.

    >>> count_conversions(["transparency dropped", "", "EXIF orientation applied; transparency dropped"])
    ['EXIF orientation applied: 1 pictures', 'transparency dropped: 2 pictures']
    """
    counts = pd.Series(conversions, dtype=str).str.split("; ").explode().value_counts()
    return [f"{kind}: {count} pictures" for kind, count in sorted(counts.items()) if kind]


def drop_absent(
    frame: pd.DataFrame, source: Path, root: Path, setting: str, remedy: str
) -> tuple[pd.DataFrame, list[str]]:
    """Drop the rows whose `path` does not exist, and note their number.

    Raises:
        InputError: no picture exists, or a link leads out of the folder, which `setting` names.
    """
    refuse_links_out([Path(path) for path in frame["path"]], root, setting)
    # os.path accepts names that Path methods refuse: a name too long for the file system is not a file.
    exists = [os.path.isfile(path) for path in frame["path"]]  # noqa: PTH113
    absent = len(frame) - sum(exists)
    if absent == len(frame):
        raise InputError(
            f"{source}: none of the {len(frame)} pictures that it names is there; the first would be "
            f"{brief(frame['path'].iloc[0])}. {remedy}"
        )
    notes = [f"{absent} rows of {source.name} have no picture"] if absent else []
    return frame[exists].reset_index(drop=True), notes


def _examine(path: Path) -> tuple[str, str, str]:
    """Return the SHA-256 of a file, its conversions, and why it cannot be decoded (empty if it can)."""
    try:
        if path.stat().st_size == 0:
            return "", "", "empty file"
        _, conversions = decode(path)
        return file_hash(path), "; ".join(conversions), ""
    except Image.DecompressionBombError:
        return "", "", f"more than {2 * (Image.MAX_IMAGE_PIXELS or 0):,} pixels: scale it down"
    except Exception as error:  # Pillow's decoders raise exceptions of any type
        return "", "", str(error).replace(str(path), path.name) or repr(error)


def drop_copies(frame: pd.DataFrame, source: Path, policy: str, role: str) -> tuple[pd.DataFrame, list[str]]:
    """Refuse pictures that occur twice; if `policy` is "drop", drop all but the first of each.

    The frame has `path`, `group` or `valence`, and `row` if a csv names the pictures; its order decides which
    copy is the first. Returns the frame without `row`, and notes on the pictures dropped.

    Raises:
        InputError: a picture occurs twice and `policy` is "stop"; both rows are named.
    """
    with ThreadPoolExecutor() as pool:
        digests = pd.Series(list(pool.map(_hash, map(Path, frame["path"]))), frame.index)
    copies = digests.notna() & digests.duplicated()
    originals = frame[~copies].drop(columns="row", errors="ignore").reset_index(drop=True)
    if not copies.any():
        return originals, []
    carried = "group" if "group" in frame else "valence"
    index_of_first = dict(zip(digests[~copies], digests.index[~copies], strict=True))
    original_of_copy = frame.loc[digests[copies].map(index_of_first)]
    is_conflict = frame[carried][copies].to_numpy() != original_of_copy[carried].to_numpy()
    if policy == "drop":
        conflicts = f", {is_conflict.sum()} of them with another {carried}" if is_conflict.any() else ""
        return originals, [f"{copies.sum()} pictures occur a second time{conflicts} ({role}.duplicates=drop)"]
    second, first = frame[copies].iloc[0], original_of_copy.iloc[0]
    locations = [row["path"] for row in (second, first)]
    if "row" in frame:
        locations = [f"{source}, row {row['row']} ({row['path']})" for row in (second, first)]
    conflict = f" with {carried} {first[carried]} (here {second[carried]})" if is_conflict[0] else ""
    raise InputError(
        f"{locations[0]}: the same picture, byte for byte, as {locations[1]}{conflict}; {copies.sum()} such "
        f"pictures. Delete one of each two, or set {role}.duplicates=drop to keep the first."
    )


def _hash(path: Path) -> str | None:
    """Hash a file; return None if it is empty or unreadable, which `hashes` refuses."""
    try:
        return file_hash(path) if path.stat().st_size else None
    except OSError:
        return None
