"""Download one file with pooch: it gets its name only when it is whole and right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import pooch
import requests

from src.errors import InputError, masked
from src.stimuli.work_folders import draft_folder

RETRIES = 4
TIMEOUT = (10, 60)  # seconds to connect, and between two pieces of the body
PIECE = 1 << 16
# Smallest and largest number of bytes.
Sizes = tuple[int, int]
# Takes how many bytes came (`completed`), and of how many where the server says so (`total`).
Progress = Callable[..., None]


def download(url: str, target: Path, sizes: Sizes, sha256: str | None, progress: Progress) -> None:
    """Download a file into a folder that exists.

    Args:
        url: http or https.
        target: appears, whole, or does not.
        sizes: that the file may have.
        sha256: hash that it must have; None where nobody knows.
        progress: called after every piece.

    Raises:
        InputError: the server has no such file, other bytes than asked for, or breaks off again and again;
            or the disk is full.
    """
    check_address(url, url)
    address, transfer = masked(url), _Transfer(url, sizes, progress)
    pooch.get_logger().setLevel("WARNING")  # its notes would show passwords of addresses
    try:
        with draft_folder(target) as draft:
            known, urls = {target.name: sha256}, {target.name: url}
            fetcher = pooch.create(draft, base_url="", registry=known, urls=urls, retry_if_failed=RETRIES)
            Path(fetcher.fetch(target.name, downloader=transfer)).rename(target)
    except requests.RequestException as error:
        raise InputError(
            f"{address}: cannot be fetched ({masked(_cause(error))}; {transfer.attempts} attempts). Try "
            "again later, or fetch it by hand: see the dataset's page."
        ) from None
    except OSError as error:
        raise InputError(
            f"{target}: cannot be written ({error.strerror}). Make room, and run the same command again."
        ) from None
    except ValueError as error:  # of pooch, which names both hashes
        raise InputError(
            f"{address}: {error} Try again; if it stays so, the publisher has changed the file: see its page."
        ) from None


class _Transfer:
    """Downloader of pooch, and the file that it writes: refuse replies that are no file of these sizes."""

    def __init__(self, url: str, sizes: Sizes, progress: Progress) -> None:
        self.url, self.sizes, self.progress, self.attempts = url, sizes, progress, 0

    def __call__(self, url: str, output_file: str, _: Any) -> None:
        """Make one attempt."""
        self.attempts, self.done = self.attempts + 1, 0
        output = Path(output_file)
        output.unlink()  # pooch's can be read by its owner alone
        headers, hooks = {"Accept-Encoding": "identity"}, {"response": self.check}
        fetch = pooch.HTTPDownloader(chunk_size=PIECE, timeout=TIMEOUT, headers=headers, hooks=hooks)
        with output.open("wb") as self.file:
            fetch(url, self, None)
        self.check_size(self.done, "received")

    def check(self, reply: requests.Response, **_: Any) -> None:
        """Refuse a reply, or a redirection on the way to it, that will be no better the next time."""
        if reply.is_redirect:
            check_address(self.url, urljoin(reply.url, reply.headers["Location"]))
            return
        if reply.status_code >= 500 or reply.status_code == 429:
            return  # tried again
        if problem := _problem(reply):
            raise InputError(f"{masked(self.url)}: the server {problem}")
        length = reply.headers.get("Content-Length", "")
        self.total = int(length) if length.isdigit() else None
        if self.total is not None:
            self.check_size(self.total, "announced")

    def write(self, piece: bytes) -> None:
        """Write a piece of the body, unless that makes too many bytes."""
        self.done += len(piece)
        self.check_size(max(self.done, self.sizes[0]), "received")
        self.file.write(piece)
        self.progress(completed=self.done, total=self.total)

    def flush(self) -> None:
        """Do nothing: closing the file writes what is left."""

    def check_size(self, size: int, what: str) -> None:
        low, high = self.sizes
        if size < low or size > high:
            expected = low if low == high else f"at most {high}"
            raise InputError(
                f"{masked(self.url)}: bytes: {expected} expected, {size} {what}. Nothing of it is kept. If "
                "it stays so, the publisher has changed the file: see its page."
            )


def check_address(url: str, hop: str) -> None:
    """Refuse an address, or one that it is redirected to, that is not http or leaves https.

    Raises:
        InputError: naming both.
    """
    scheme = urlsplit(hop).scheme
    if scheme not in ("http", "https") or (scheme == "http" and url.startswith("https:")):
        raise InputError(
            f"{masked(url)}: leads to {masked(hop)}. Only http and https are fetched, http not from https."
        )


def _problem(reply: requests.Response) -> str:
    """Say why a reply is no file, and the remedy; empty where it is one."""
    if reply.status_code != 200:
        return (
            f"answers {reply.status_code} {reply.reason}. The file may have moved: see the dataset's page, "
            "and fetch it by hand."
        )
    if reply.headers.get("Content-Encoding", "identity") != "identity":
        return "sends it packed, which was not asked for. Fetch it by hand."
    if reply.headers.get("Content-Type", "").startswith("text/html"):
        return (
            "sends a page, not the file: it may ask for a login or a form. Open the address in a browser, "
            "and fetch the file by hand."
        )
    return ""


def _cause(error: BaseException) -> str:
    """The innermost of nested errors, which is the one that says something."""
    while inner := error.__cause__ or error.__context__:
        error = inner
    return str(error) or type(error).__name__
