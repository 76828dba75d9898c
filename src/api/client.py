"""Send requests to a server, and try again after transient faults."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from typing import Any, TypeVar

from httpx2 import URL, InvalidURL, Response
from openai import APIConnectionError, APIStatusError, DefaultHttpxClient, OpenAI, omit
from urllib3.exceptions import InvalidHeader
from urllib3.util import Retry

from src.api.failures import AmbiguousFailure, decode, describe_connection_failure, is_transient, read_key
from src.configs import ApiConfig
from src.errors import InputError, brief, redact

log = logging.getLogger(__name__)

MAX_WAIT = 60  # maximum number of seconds between two attempts
NO_KEY = "none"  # key for the client if the config names none; it is not sent

Reply = TypeVar("Reply")


def make_client(config: ApiConfig) -> OpenAI:
    """Make a client with the key from the config's environment variable; ignore other variables OPENAI_*.

    Raises:
        InputError: the address is not that of a server, or the key cannot be sent.
    """
    _check_address(config)
    # This logger prints the address of each request, which may contain a password.
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    key = read_key(config)
    variables = {name: os.environ.pop(name) for name in [*os.environ] if name.startswith("OPENAI_")}
    try:
        return OpenAI(
            api_key=key or NO_KEY,
            base_url=config.url,
            timeout=config.timeout,
            max_retries=0,  # `send` retries, with bounded waits
            http_client=DefaultHttpxClient(follow_redirects=False),
        )
    finally:
        os.environ.update(variables)


def _check_address(config: ApiConfig) -> None:
    try:
        scheme = URL(config.url).scheme
    except InvalidURL:
        scheme = ""
    if scheme not in ("http", "https"):
        raise InputError(
            f"{config.group}.url={brief(redact(config.url))}: expected the address of a server. "
            f"Set it as in {config.group}.url=http://127.0.0.1:8000/v1."
        )


def choose_headers(client: OpenAI) -> dict[str, Any]:
    """Return headers that override the client's in a request: `Authorization` is left out without a key."""
    return {"Authorization": omit} if client.api_key == NO_KEY else {}


def send(
    config: ApiConfig,
    url: str,
    request: Callable[[], Response],
    parse: Callable[[Response], Reply | AmbiguousFailure],
) -> Reply | AmbiguousFailure:
    """Send a request and return its parsed reply; try again after a transient fault or a malformed reply.

    Args:
        config: config of the model and its server.
        url: address for messages, without a password.
        request: () -> reply of the server; raises openai's errors.
        parse: (reply) -> parsed reply, or `AmbiguousFailure` for a malformed one.

    Raises:
        InputError: `parse` raised it.
    """
    wait = 0.0
    for attempt in range(config.retries + 1):
        time.sleep(wait)
        wait = min(0.5 * 2**attempt, MAX_WAIT)
        try:
            response: Any = request()
        except APIStatusError as error:
            response = error.response
        except APIConnectionError as error:
            reply: Reply | AmbiguousFailure = describe_connection_failure(error, config, url)
            continue
        status, _ = decode(response)
        if is_transient(status) and attempt < config.retries:
            wait = _parse_retry_after(response.headers.get("Retry-After", ""), wait)
            continue
        reply = parse(response)
        if not isinstance(reply, AmbiguousFailure) or status >= 400:
            break
    return reply


def format_address(config: ApiConfig, path: str) -> str:
    """Return the address of a server's resource for messages, without a password.

    >>> from src.configs import ServerConfig
    >>> format_address(ServerConfig(url="http://me:hush@host/v1/"), "embeddings")
    'http://me:…@host/v1/embeddings'
    """
    return redact(f"{config.url.rstrip('/')}/{path}")


def _parse_retry_after(retry_after: str, default: float) -> float:
    """Return the seconds to wait by a `Retry-After` header, at most `MAX_WAIT`; `default` without one."""
    try:
        seconds = Retry().parse_retry_after(retry_after)
    except InvalidHeader:
        return default
    if seconds > MAX_WAIT:
        log.warning("the server asks to wait (Retry-After: %.40s); waiting %d s", retry_after, MAX_WAIT)
    return min(seconds, MAX_WAIT)
