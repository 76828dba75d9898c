"""Fetch a published dataset into its folder, holding every byte against what is known of it."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from src.errors import InputError, brief
from src.stimuli.download import Told, download
from src.stimuli.public_datasets import PRESENT, Dataset, File, command, standing
from src.stimuli.unpack import unpack
from src.storage.cache import file_hash


@dataclass(frozen=True)
class _Record:
    """What came when a file was first fetched."""

    url: str
    bytes: int
    sha256: str


def obtain(dataset: Dataset, root: Path, say: Callable[[str], None], told: Told) -> None:
    """Fetch what may be fetched of a dataset, unless it is all there.

    Args:
        dataset: of public_datasets.yaml.
        root: folder above the dataset's.
        say: takes lines for the user.
        told: takes the bytes that are here of the file being fetched, and of how many.

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
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror}). Choose another --root.") from None
    with _alone(folder):
        for file in dataset.files:
            say(_file(file, folder, told))
            kept = unpack(folder / file.name, file.unpack.take, file.unpack.at_most) if file.unpack else []
            for name in kept:
                say(
                    f"{folder / name} was there already and is kept as it is. Move it away, and fetch "
                    f"again, to have that of {file.name}."
                )


def _file(file: File, folder: Path, told: Told) -> str:
    """Fetch one file, unless it is there; returns what is to be said of it."""
    target, record = folder / file.name, folder / f"{file.name}.json"
    recorded = _recorded(record, file.url)
    sha256 = file.sha256 or (recorded.sha256 if recorded else None)
    size = file.bytes or (recorded.bytes if recorded else None)
    known = "published" if file.sha256 else "recorded at first"
    there = target.exists()
    if not there:
        download(file.url, target, size=size, sha256=sha256, told=told)
    digest = file_hash(target)
    if sha256 is not None and digest != sha256:
        raise InputError(
            f"{target}: sha256: {sha256} {known}, {digest} found. Move it away, and fetch it anew."
        )
    size = target.stat().st_size
    if not recorded:
        draft = record.with_name(f".{record.name}.draft")
        draft.write_text(json.dumps(asdict(_Record(file.url, size, digest)), indent=2) + "\n")
        draft.rename(record)
    came = f"{target} {'was there' if there else 'is fetched'}: {size} bytes, sha256 {digest}"
    if sha256 is None:
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


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold a folder against another process that fetches into it; a dead process holds nothing."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise InputError(f"{folder}: another process is fetching into it. Wait until it is done.") from None
    finally:
        os.close(descriptor)
