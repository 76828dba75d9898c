"""One file over HTTP: goes on where it broke off, and has its name only when it is whole and right.

Until then it lies beside as `NAME.part`, with `NAME.part.json` saying which version of the file
on the server these bytes are the beginning of.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import requests

from src.errors import InputError
from src.stimuli.replies import Broken, acceptable, cause, length, safe, version
from src.storage.cache import file_hash

ATTEMPTS = 5
PAUSE = 1.0  # seconds before the second attempt; doubled before each further one
TIMEOUT = (10, 60)  # seconds to connect, and between two pieces of the body
PIECE = 1 << 16

# What may go otherwise the next time.
TRANSIENT = (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError)
# How many bytes are here, and of how many, where the server says so.
Told = Callable[[int, int | None], None]


@dataclass(frozen=True)
class _Begun:
    """What `NAME.part` is the beginning of.

    Attributes:
        url: where it came from.
        version: the server's name for these bytes; empty where it gives none.
        bytes: of the whole; None where the server does not say.
    """

    url: str
    version: str
    bytes: int | None


def download(url: str, target: Path, *, size: int | None, sha256: str | None, told: Told) -> None:
    """Fetch `url` to `target`, in a folder that exists, going on with what is there of it.

    Args:
        url: http or https.
        target: appears, whole, or does not.
        size: bytes that the file must have; None where nobody knows.
        sha256: hash that it must have; None where nobody knows.
        told: called after every piece.

    Raises:
        InputError: the server has no such file, other bytes than asked for (the partial file is
            removed), or breaks off again and again; the disk is full (the partial file is kept).
    """
    part, note = target.with_name(f"{target.name}.part"), target.with_name(f"{target.name}.part.json")
    safe([url])
    _persist(url, part, note, size, told)
    found, digest = part.stat().st_size, file_hash(part)
    wrong = [
        f"{what} {expected} expected, {got} found"
        for what, expected, got in (("bytes:", size, found), ("sha256:", sha256, digest))
        if expected is not None and expected != got
    ]
    if wrong:
        part.unlink()
        note.unlink()
        raise InputError(
            f"{url}: these are not the bytes that are known under this address: {'; '.join(wrong)}. They "
            "are removed. Try again; if it stays so, the publisher has changed the file: see its page."
        )
    with part.open("rb") as file:
        os.fsync(file.fileno())
    part.rename(target)
    note.unlink()


def _persist(url: str, part: Path, note: Path, size: int | None, told: Told) -> None:
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(PAUSE * 2 ** (attempt - 1))
        try:
            return _attempt(url, part, note, size, told)
        except Broken as error:
            reason = str(error)
        except TRANSIENT as error:
            reason = cause(error)
        except requests.RequestException as error:
            raise InputError(f"{url}: cannot be fetched ({cause(error)}).") from None
        except OSError as error:
            raise InputError(
                f"{part}: cannot be written ({error.strerror}). What is there is kept: once there is "
                "room, the same command goes on."
            ) from None
    kept = part.stat().st_size if part.exists() else 0
    raise InputError(
        f"{url}: given up after {ATTEMPTS} attempts ({reason}). {kept} bytes are kept: the same command "
        "goes on."
    )


def _attempt(url: str, part: Path, note: Path, size: int | None, told: Told) -> None:
    begun = _begun(note, url)
    kept = part.stat().st_size if begun and part.exists() else 0
    if begun and kept and kept == begun.bytes:
        return  # whole, but the process died before it was checked
    headers = {"Accept-Encoding": "identity"}
    if begun and kept:
        # Another version of the file would come from its start, with status 200.
        headers |= {"Range": f"bytes={kept}-", "If-Range": begun.version}
    with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as reply:
        acceptable(url, reply)
        if reply.status_code == 206 and begun and _continues(reply, kept, begun):
            total = begun.bytes
        elif reply.status_code == 200:
            kept, total = 0, length(reply)
            _same_size(url, size, total)
            part.unlink(missing_ok=True)  # before the note, which would take old bytes for new
            note.write_text(json.dumps(asdict(_Begun(url, version(reply), total))))
        else:
            note.unlink(missing_ok=True)
            raise Broken(f"{reply.status_code} {reply.reason} does not go on with what is here")
        with part.open("ab" if kept else "wb") as file:
            for piece in reply.iter_content(PIECE):
                file.write(piece)
                kept += len(piece)
                told(kept, total)
                if size is not None and kept > size:
                    break
    if total is not None and kept < total:
        raise Broken(f"{kept} of {total} bytes came")


def _same_size(url: str, size: int | None, total: int | None) -> None:
    if size is not None and total is not None and size != total:
        raise InputError(
            f"{url}: bytes: {size} expected, {total} announced. Nothing was fetched. If it stays so, the "
            "publisher has changed the file: see its page."
        )


def _begun(note: Path, url: str) -> _Begun | None:
    """What the kept bytes are the beginning of; None where that is not known for sure."""
    try:
        begun = _Begun(**json.loads(note.read_text()))
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    return begun if begun.url == url and begun.version else None


def _continues(reply: requests.Response, kept: int, begun: _Begun) -> bool:
    """Whether a partial reply starts where the kept bytes end, in the same version of the file."""
    start, _, end = reply.headers.get("Content-Range", "").partition("-")
    total = "*" if begun.bytes is None else begun.bytes
    same = version(reply) in ("", begun.version)
    return same and start == f"bytes {kept}" and end.endswith(f"/{total}")
