"""Picture files: each is opened and hashed before any work is spent on it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd
from PIL import Image

from src.artifacts import file_hash
from src.errors import InputError, brief
from src.stimuli.within import no_link_out

# Others that Pillow knows are never tried: a PostScript called .jpg would be run by Ghostscript.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000", "AVIF")


def read(path: str | Path) -> Image.Image:
    """Decode a picture into RGB; transparency is dropped, as CLIP's own preprocessing does.

    Raises:
        OSError: the file is no picture that can be decoded whole.
    """
    with Image.open(path, formats=FORMATS) as picture:
        return picture.convert("RGB")


def hashes(paths: Sequence[Path]) -> list[str]:
    """SHA-256 of each file, having decoded each.

    Raises:
        InputError: a picture is empty, cut off or no picture; all of them are named.
    """
    with ThreadPoolExecutor() as pool:
        examined = list(pool.map(_examine, paths))
    broken = [f"{path} ({why})" for path, (_, why) in zip(paths, examined, strict=True) if why]
    if broken:
        shown = "\n  ".join(broken[:10] + (["..."] if len(broken) > 10 else []))
        raise InputError(
            f"{len(broken)} of {len(paths)} pictures cannot be read:\n  {shown}\n"
            "Replace the files, or delete them: rows without a picture are left out and counted."
        )
    return [digest for digest, _ in examined]


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


def _examine(path: Path) -> tuple[str, str]:
    try:
        if path.stat().st_size == 0:
            return "", "empty file"
        read(path)
        return file_hash(path), ""
    except Exception as error:  # Pillow's decoders raise whatever they stumble over
        return "", str(error).replace(str(path), path.name) or repr(error)
