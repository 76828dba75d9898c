"""Picture files: each is opened and hashed before any work is spent on it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd
from PIL import Image

from src.errors import InputError, brief
from src.stimuli.decoding import decode
from src.stimuli.safe_paths import no_link_out
from src.storage.cache import file_hash


def read(path: str | Path) -> Image.Image:
    """Decode a picture into upright RGB: see `src.stimuli.decoding.decode`.

    Raises:
        OSError: the file is no picture that can be decoded whole.
    """
    return decode(path)[0]


def hashes(paths: Sequence[Path]) -> tuple[list[str], list[str]]:
    """Decode and hash each picture.

    Returns:
        SHA-256 of each file, and what `decode` had to convert of each, joined by "; ".

    Raises:
        InputError: a picture is empty, cut off, no picture or of a kind without a single right value in RGB;
            all of them are named.
    """
    with ThreadPoolExecutor() as pool:
        results = list(pool.map(_examine, paths))
    broken = [f"{path} ({why})" for path, (_, _, why) in zip(paths, results, strict=True) if why]
    if broken:
        listed = "\n  ".join(broken[:10] + (["..."] if len(broken) > 10 else []))
        raise InputError(
            f"{len(broken)} of {len(paths)} pictures cannot be read:\n  {listed}\n"
            "Replace the files, or delete them: rows without a picture are left out and counted."
        )
    return [digest for digest, _, _ in results], [conversions for _, conversions, _ in results]


def hashed(frame: pd.DataFrame) -> pd.DataFrame:
    """Decode and hash the picture at each `path`: columns `sha256` and `conversions`.

    Raises:
        InputError: see `hashes`.
    """
    digests, conversions = hashes([Path(path) for path in frame["path"]])
    return frame.assign(sha256=digests, conversions=conversions)


def remarks(conversions: Sequence[str]) -> list[str]:
    """Count the pictures that had to be converted, by what was done.

    Args:
        conversions: of each picture, as `hashes` gives them.

    >>> remarks(["transparency dropped", "", "EXIF orientation applied; transparency dropped"])
    ['EXIF orientation applied: 1 pictures', 'transparency dropped: 2 pictures']
    """
    counts = pd.Series(conversions, dtype=str).str.split("; ").explode().value_counts()
    return [f"{what}: {count} pictures" for what, count in sorted(counts.items()) if what]


def present(
    frame: pd.DataFrame, source: Path, root: Path, setting: str, remedy: str
) -> tuple[pd.DataFrame, list[str]]:
    """Leave out the rows whose `path` does not exist, and say so.

    Args:
        frame: with a column `path`.
        source: of the rows, for messages.
        root: folder that the pictures lie in.
        setting: that names it.
        remedy: what to do where none exists.

    Raises:
        InputError: none exists, or a link leads out of the folder.
    """
    no_link_out([Path(path) for path in frame["path"]], root, setting)
    # os.path takes what no file system would: too long a name is no file.
    there = [os.path.isfile(path) for path in frame["path"]]  # noqa: PTH113
    absent = len(frame) - sum(there)
    if absent == len(frame):
        raise InputError(
            f"{source}: none of the {len(frame)} pictures that it names is there; the first would be "
            f"{brief(frame['path'].iloc[0])}. {remedy}"
        )
    notes = [f"{absent} rows of {source.name} have no picture"] if absent else []
    return frame[there].reset_index(drop=True), notes


def _examine(path: Path) -> tuple[str, str, str]:
    """SHA-256 of a file, what had to be converted, and why it cannot be decoded."""
    try:
        if path.stat().st_size == 0:
            return "", "", "empty file"
        _, conversions = decode(path)
        return file_hash(path), "; ".join(conversions), ""
    except Image.DecompressionBombError:
        return "", "", f"more than {2 * (Image.MAX_IMAGE_PIXELS or 0):,} pixels: scale it down"
    except Exception as error:  # Pillow's decoders raise whatever they stumble over
        return "", "", str(error).replace(str(path), path.name) or repr(error)
