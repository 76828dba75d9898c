"""Fetch a published dataset into its folder, verifying the size and hash of each file."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from src.errors import InputError, brief
from src.stimuli.download import Progress, download
from src.stimuli.public_datasets import PRESENT, Dataset, File, command, status_of
from src.stimuli.unpack import unpack
from src.stimuli.work_folders import lock_folder
from src.storage.cache import file_hash


@dataclass(frozen=True)
class _Record:
    """Record of a file as it was first fetched."""

    url: str
    bytes: int
    sha256: str


def obtain(dataset: Dataset, root: Path, report: Callable[[str], None], progress: Progress) -> None:
    """Fetch the files of a dataset into its folder below `root`, unless it is complete."""
    folder = dataset.folder(root)
    if status_of(dataset, root).state == PRESENT:
        report(f"{dataset.name}: already complete in {folder}.")
        return
    if not dataset.files:
        access = "Its publisher requires a form" if dataset.form else "It must be fetched by hand"
        raise InputError(
            f"{dataset.name}: {access}. Open {dataset.address}, and lay it out below {folder}: "
            f"{dataset.layout} Then {command('status', dataset, root)} counts it. Terms: {dataset.terms}"
        )
    report(f"{dataset.title} ({dataset.citation}). Terms: {dataset.terms} You accept them by using it.")
    with lock_folder(folder, "Choose another --root."):
        for file in dataset.files:
            report(_fetch(file, folder, progress))
            for name in unpack(folder / file.name, file.take, file.at_most) if file.take else []:
                report(f"{folder / name} is unchanged. To replace it, move it, and fetch again.")


def _fetch(file: File, folder: Path, progress: Progress) -> str:
    """Fetch one file, unless it is present, and return a line about it."""
    target, record = folder / file.name, folder / f"{file.name}.json"
    recorded = _read_record(record, file.url)
    expected: File | _Record
    source, expected = ("published", file) if file.sha256 else ("recorded at first", recorded or file)
    sizes = (0, file.at_most) if expected.bytes is None else (expected.bytes, expected.bytes)
    is_present = target.exists()
    if not is_present:
        download(file.url, target, sizes, expected.sha256, progress)
    digest = file_hash(target)
    if expected.sha256 not in (None, digest):
        raise InputError(f"{target}: sha256 {expected.sha256} {source}, got {digest}. Move it; fetch again.")
    size = target.stat().st_size
    if not recorded:
        draft = record.with_name(f".{record.name}.draft")
        draft.write_text(json.dumps(asdict(_Record(file.url, size, digest)), indent=2) + "\n")
        draft.rename(record)
    message = f"{target} {'was there' if is_present else 'is fetched'}: {size} bytes, sha256 {digest}"
    if expected.sha256 is None:
        return f"{message}: no hash is published, so this one is trusted, and recorded in {record.name}."
    return f"{message}, as {source}."


def _read_record(record: Path, url: str) -> _Record | None:
    """Read the record of a file that was fetched from this address; None if absent."""
    try:
        if record.exists() and not record.is_file():  # reading a pipe would block
            raise OSError("not a file")
        content = _Record(**json.loads(record.read_text()))
        if [type(value) for value in asdict(content).values()] != [str, int, str]:
            raise TypeError("url, bytes and sha256 must be text, a whole number and text")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise InputError(f"{record}: not a record of a file ({brief(str(error))}). Delete it.") from None
    return content if content.url == url else None
