"""What a server's reply is worth."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

import requests

from src.errors import InputError


class Broken(Exception):
    """The transfer broke off in a way that the next attempt may not."""


def safe(hops: Sequence[str]) -> None:
    """Refuse an address, or one that it was redirected to, that is not http or leaves https.

    Raises:
        InputError: naming both.
    """
    for address in hops:
        scheme = urlsplit(address).scheme
        if scheme not in ("http", "https") or (scheme == "http" and hops[0].startswith("https:")):
            raise InputError(
                f"{hops[0]}: leads to {address}. Only http and https are fetched, and http not from https."
            )


def acceptable(url: str, reply: requests.Response) -> None:
    """Refuse a reply that is no file.

    Raises:
        Broken: it may be one the next time.
        InputError: it will not.
    """
    safe([url, *(hop.url for hop in reply.history), str(reply.url)])
    status = f"{reply.status_code} {reply.reason}"
    if reply.status_code >= 500 or reply.status_code == 429:
        raise Broken(f"the server answers {status}")
    if reply.status_code == 416:
        return  # more is kept than there is: begun anew
    if reply.status_code >= 400:
        raise InputError(
            f"{url}: the server answers {status}. The file may have moved: see the dataset's page, "
            "and fetch it by hand."
        )
    if reply.headers.get("Content-Encoding", "identity") != "identity":
        raise InputError(f"{url}: the server sends it packed, which was not asked for. Fetch it by hand.")
    if reply.headers.get("Content-Type", "").startswith("text/html"):
        raise InputError(
            f"{url}: the server sends a page, not the file: it may ask for a login or a form. Open the "
            "address in a browser, and fetch the file by hand."
        )


def version(reply: requests.Response) -> str:
    """The server's name for these very bytes; empty where it gives none."""
    tag = reply.headers.get("ETag", "")
    # A weak tag does not promise the same bytes.
    return tag if tag and not tag.startswith("W/") else reply.headers.get("Last-Modified", "")


def length(reply: requests.Response) -> int | None:
    """Bytes of the body; None where the server does not say."""
    said = reply.headers.get("Content-Length", "")
    return int(said) if said.isdigit() else None


def cause(error: BaseException) -> str:
    """The innermost of nested errors, which is the one that says something."""
    while inner := error.__cause__ or error.__context__:
        error = inner
    return str(error) or type(error).__name__
