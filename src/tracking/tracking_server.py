"""Check that a tracking server is reachable; tell outages from other errors."""

import logging
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from src.errors import InputError, redact

log = logging.getLogger(__name__)

SCHEMES = ("http://", "https://")
# Seconds of waiting before the first message.
ANNOUNCE_AFTER = 4.0
# Seconds to wait for the first answer; there is one retry unless the connection is refused.
FIRST_TIMEOUT = 10
# MLflow's settings of a sweep's calls, which wait half a minute (0 + 4 + 8 + 16 s) for a restarting server.
RETRY_SETTINGS = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "4", "MLFLOW_HTTP_REQUEST_TIMEOUT": "30"}
# Settings to transfer artifacts through the server, as its storage may be reachable only from its machine.
PROXY_SETTINGS = {
    "MLFLOW_ENABLE_PROXY_MULTIPART_DOWNLOAD": "false",
    "MLFLOW_ENABLE_PROXY_MULTIPART_UPLOAD": "false",
}
SEARCH, VERSION = "/api/2.0/mlflow/experiments/search", "/version"
# Start of the message of MLflow's client if it got no valid answer.
NO_ANSWER = "API request to"
# MLflow's codes of errors in the call itself, which any store would reject.
CALL_ERRORS = ("INVALID_PARAMETER_VALUE", "BAD_REQUEST", "MALFORMED_REQUEST", "INVALID_STATE")


class Unreachable(InputError):
    """Error of a tracking store that does not answer, or of an address that is not a tracking store."""

    def __init__(self, message: str) -> None:
        super().__init__(redact(message))


@contextmanager
def announce_waiting(what: str) -> Iterator[None]:
    """Log that the process is waiting for `what` if the block takes longer than `ANNOUNCE_AFTER`."""
    timer = threading.Timer(ANNOUNCE_AFTER, log.warning, ("waiting for %s", what))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def bound_waiting() -> None:
    """Bound the waiting time of MLflow's client (by default minutes), unless environment variables set it."""
    for name, value in {**RETRY_SETTINGS, **PROXY_SETTINGS}.items():
        os.environ.setdefault(name, value)


def check(uri: str, seconds: float = FIRST_TIMEOUT, retries: int = 1) -> None:
    """Check that an MLflow server answers, or raise `Unreachable`.

    `seconds` limits both the connection and the reply.
    """
    answer = _request(uri, SEARCH, seconds, retries)
    if answer.status_code != 200:
        raise Unreachable(f"tracking.uri={uri}: {_explain_refusal(answer, uri)}")
    with suppress(ValueError):  # no JSON
        content = answer.json()
        if isinstance(content, dict) and "experiments" in content:
            return
    # MLflow without experiments answers {}, but other servers may answer {} to any request, so check the
    # version, too.
    version = _request(uri, VERSION, seconds, retries)
    if version.status_code != 200 or not re.fullmatch(r"\d+\.\d+[\w.+-]*", version.text.strip()):
        raise Unreachable(f"tracking.uri={uri}: {_NO_SERVER}")


def is_unreachable(error: BaseException) -> bool:
    """Return whether a call failed as the store is unreachable or cannot write; False for an invalid call."""
    from mlflow.exceptions import MlflowException

    if isinstance(error, MlflowException):
        return error.error_code not in CALL_ERRORS or NO_ANSWER in str(error)
    # The errors of `requests` are OSErrors, too. A missing file does not mean that the store is unreachable.
    return isinstance(error, OSError) and not isinstance(error, FileNotFoundError)


def is_absent(error: BaseException) -> bool:
    """Return whether a store answered that the requested object does not exist."""
    return getattr(error, "error_code", "") == "RESOURCE_DOES_NOT_EXIST" and NO_ANSWER not in str(error)


def shorten_message(error: BaseException) -> str:
    """Return the innermost cause of a failed connection, or else the first line of an error's message."""
    lines = str(error).splitlines() or [repr(error)]
    inner = re.search(r"(?:\[Errno -?\d+\]|timed out|too many \d+ error responses).*", lines[0])
    return (inner.group() if inner else lines[0]).rstrip("')\" ")[:300]


_NO_SERVER = "not an MLflow server. Correct the address (http://HOST:PORT), or start one: make serve"


def _request(uri: str, path: str, seconds: float, retries: int) -> Any:
    from mlflow.exceptions import MlflowException
    from mlflow.utils.credentials import get_default_host_creds
    from mlflow.utils.rest_utils import http_request

    try:
        return http_request(  # type: ignore[no-untyped-call]
            get_default_host_creds(uri),  # type: ignore[no-untyped-call]
            path,
            "GET",
            params={"max_results": 1} if path == SEARCH else None,
            timeout=seconds,
            max_retries=retries,
            backoff_factor=0,
            raise_on_status=False,
            retry_codes=frozenset(),
        )
    except MlflowException as error:
        raise Unreachable(f"tracking.uri={uri}: {_explain_failure(str(error), uri, seconds)}") from None


# Phrases in the message of a failed connection -> explanation; the first match counts.
CONNECTION_ERRORS = {
    ("NameResolution", "getaddrinfo"): "cannot resolve the host name {host}. Correct the address.",
    ("refused",): "no server listens there. Start it (make serve), or correct the address.",
    ("timed out", "timeout"): "no answer within {seconds:g} s. Check that {host} is up and not behind a "
    "firewall; start the server, or correct the address.",
    ("SSL", "certificate"): "no secure connection. Use http:// if the server has no certificate; set "
    "MLFLOW_TRACKING_SERVER_CERT_PATH to a private one.",
    ("Invalid URL", "Invalid url", "Failed to parse"): "not an address. Use http://HOST:PORT.",
}


def _explain_failure(message: str, uri: str, seconds: float) -> str:
    for phrases, meaning in CONNECTION_ERRORS.items():
        if any(phrase in message for phrase in phrases):
            return meaning.format(host=urlsplit(uri).hostname, seconds=seconds)
    excerpt = message.splitlines()[0][-200:]
    return f"no answer ({excerpt}). Start the server (make serve), or correct the address."


# Status and a phrase in the text of an answer -> explanation; the first match counts.
REFUSALS = {
    (401, ""): "the server requires a login. Export MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD "
    "(or MLFLOW_TRACKING_TOKEN).",
    (403, "Invalid Host header"): "the server rejects the name {name}. Start it with that name allowed: "
    "make serve HOST=... NAMES={name}",
    (403, ""): "the server denies access (403). Ask its operator for permission to read and write, and check "
    "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD.",
}


def _explain_refusal(answer: Any, uri: str) -> str:
    status = answer.status_code
    for (refused_status, phrase), meaning in REFUSALS.items():
        if status == refused_status and phrase in answer.text:
            return meaning.format(name=urlsplit(uri).netloc.rpartition("@")[2])
    if status >= 500:
        return f"the server answers with error {status}. See its log; its database may be unreachable."
    return _NO_SERVER
