"""Fetch a published dataset into its folder, holding every byte against what is known of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from src.errors import InputError, brief
from src.stimuli.download import Progress, download
from src.stimuli.public_datasets import PRESENT, Dataset, File, command, standing
from src.stimuli.unpack import unpack
from src.stimuli.work_folders import hold
from src.storage.cache import file_hash


@dataclass(frozen=True)
class _Record:
    """What came when a file was first fetched."""

    url: str
    bytes: int
    sha256: str


def obtain(dataset: Dataset, root: Path, say: Callable[[str], None], progress: Progress) -> None:
    """Fetch what may be fetched of a dataset, unless it is all there.

    Args:
        dataset: of public_datasets.yaml.
        root: folder above the dataset's.
        say: takes lines for the user.
        progress: see `download`.

    Raises:
        InputError: it must be fetched by hand (the message says how), or see `download`, `unpack`.
    """
    folder = dataset.folder(root)
    if standing(dataset, root).state == PRESENT:
        say(f"{dataset.name}: all of it is in {folder}.")
        return
    if not dataset.files:
        asked = "Its publisher gives it out after a form" if dataset.form else "It is to be fetched by hand"
        raise InputError(
            f"{dataset.name}: {asked}: open {dataset.address}, and lay it out below {folder}: "
            f"{dataset.layout} Then {command('status', dataset, root)} counts it. Terms: {dataset.terms}"
        )
    say(f"{dataset.title} ({dataset.citation}). Terms: {dataset.terms} You accept them by using it.")
    with hold(folder, "Choose another --root."):
        for file in dataset.files:
            say(_file(file, folder, progress))
            kept = unpack(folder / file.name, file.take, file.at_most) if file.take else []
            for name in kept:
                say(
                    f"{folder / name} was there already and is kept as it is. Move it away, and fetch "
                    f"again, to have that of {file.name}."
                )


def _file(file: File, folder: Path, progress: Progress) -> str:
    """Fetch one file, unless it is there; returns what is to be said of it."""
    target, record = folder / file.name, folder / f"{file.name}.json"
    recorded = _recorded(record, file.url)
    expected: File | _Record
    known, expected = ("published", file) if file.sha256 else ("recorded at first", recorded or file)
    sizes = (0, file.at_most) if expected.bytes is None else (expected.bytes, expected.bytes)
    there = target.exists()
    if not there:
        download(file.url, target, sizes, expected.sha256, progress)
    digest = file_hash(target)
    if expected.sha256 not in (None, digest):
        raise InputError(
            f"{target}: sha256: {expected.sha256} {known}, {digest} found. Move it away, and fetch it anew."
        )
    size = target.stat().st_size
    if not recorded:
        draft = record.with_name(f".{record.name}.draft")
        draft.write_text(json.dumps(asdict(_Record(file.url, size, digest)), indent=2) + "\n")
        draft.rename(record)
    came = f"{target} {'was there' if there else 'is fetched'}: {size} bytes, sha256 {digest}"
    if expected.sha256 is None:
        return f"{came}: no hash is published, so this one is trusted, and recorded in {record.name}."
    return f"{came}, as {known}."


def _recorded(record: Path, url: str) -> _Record | None:
    """What was recorded when the file first came from this address."""
    try:
        if record.exists() and not record.is_file():  # a pipe would be waited for
            raise OSError("not a file")
        found = _Record(**json.loads(record.read_text()))
        if [type(value) for value in asdict(found).values()] != [str, int, str]:
            raise TypeError("url, bytes and sha256 must be text, a whole number and text")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise InputError(f"{record}: not a record of a file ({brief(str(error))}). Delete it.") from None
    return found if found.url == url else None
