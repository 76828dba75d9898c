"""A tracking server: is it there, is it one, and was it its absence that made a call fail?"""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import urlsplit

from src.errors import InputError, masked

SCHEMES = ("http://", "https://")
# Seconds for an answer to the first question, which is asked once and, unless refused, once more.
FIRST = 10
# Of a sweep's own calls: a server that is started anew is waited for, half a minute (0 + 4 + 8 + 16 s).
PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "4", "MLFLOW_HTTP_REQUEST_TIMEOUT": "30"}
# Bytes go through the server: what it stores them in may be within its own machine's reach alone.
THROUGH = {"MLFLOW_ENABLE_PROXY_MULTIPART_DOWNLOAD": "false", "MLFLOW_ENABLE_PROXY_MULTIPART_UPLOAD": "false"}
SEARCH, VERSION = "/api/2.0/mlflow/experiments/search", "/version"
# How MLflow's client begins to say that nothing, or nothing sensible, came back.
SILENT = "API request to"
# What MLflow says of a call that was wrong in itself: no store would take it.
OURS = ("INVALID_PARAMETER_VALUE", "BAD_REQUEST", "MALFORMED_REQUEST", "INVALID_STATE")


class Unreachable(InputError):
    """A tracking store does not answer, or not as one."""

    def __init__(self, said: str) -> None:
        super().__init__(masked(said))


def prepare() -> None:
    """Bound how long MLflow's client waits, by default minutes; the environment may say otherwise."""
    for name, value in {**PATIENCE, **THROUGH}.items():
        os.environ.setdefault(name, value)


def require(uri: str, seconds: float = FIRST, retries: int = 1) -> None:
    """See that an MLflow server answers at an address, within seconds.

    Args:
        uri: its address.
        seconds: to wait for a connection, and for an answer.
        retries: after an attempt that broke off.

    Raises:
        Unreachable: it does not.
    """
    answer = _asked(uri, SEARCH, seconds, retries)
    if answer.status_code != 200:
        raise Unreachable(f"tracking.uri={uri}: {_refusal(answer, uri)}")
    if "experiments" in _json(answer):
        return
    # Of a server without any experiment; many a server answers {} to whatever it is asked.
    version = _asked(uri, VERSION, seconds, retries)
    if version.status_code != 200 or not re.fullmatch(r"\d+\.\d+[\w.+-]*", version.text.strip()):
        raise Unreachable(f"tracking.uri={uri}: {_NO_SERVER}")


def away(error: BaseException) -> bool:
    """Whether a call failed because the store is out of reach, or cannot write, rather than by itself."""
    from mlflow.exceptions import MlflowException

    if isinstance(error, MlflowException):
        return error.error_code not in OURS or SILENT in str(error)
    # The errors of requests are some, too; a file that is not there is no store that is not.
    return isinstance(error, OSError) and not isinstance(error, FileNotFoundError)


def absent(error: BaseException) -> bool:
    """Whether a store said that it does not hold what was asked for."""
    return getattr(error, "error_code", "") == "RESOURCE_DOES_NOT_EXIST" and SILENT not in str(error)


def short(error: BaseException) -> str:
    """The first line of what an error says, and the innermost cause of a connection that failed."""
    lines = str(error).splitlines() or [repr(error)]
    inner = re.search(r"(?:\[Errno -?\d+\]|timed out|too many \d+ error responses).*", lines[0])
    return (inner.group() if inner else lines[0]).rstrip("')\" ")[:300]


_NO_SERVER = (
    "something answers there, but no MLflow server does. Correct the address (http://HOST:PORT), or start "
    "one: make serve"
)


def _asked(uri: str, path: str, seconds: float, retries: int) -> Any:
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
        raise Unreachable(f"tracking.uri={uri}: {_silence(str(error), uri, seconds)}") from None


def _silence(said: str, uri: str, seconds: float) -> str:
    host = urlsplit(uri).hostname
    if "NameResolution" in said or "getaddrinfo" in said:
        return f"the name {host} is not known here. Correct the address."
    if "refused" in said:
        return "nothing listens there. Start the server (make serve), or correct the address."
    if "timed out" in said or "timeout" in said:
        return (
            f"no answer within {seconds:g} s. Is {host} up, and not behind a firewall? Start the server, or "
            "correct the address."
        )
    if "SSL" in said or "certificate" in said:
        return (
            "no secure connection. Say http:// where the server has no certificate; name one of your own "
            "with MLFLOW_TRACKING_SERVER_CERT_PATH."
        )
    if "Invalid URL" in said or "Invalid url" in said or "Failed to parse" in said:
        return "no address. Say http://HOST:PORT."
    return (
        f"no answer ({said.splitlines()[0][-200:]}). Start the server (make serve), or correct the address."
    )


def _refusal(answer: Any, uri: str) -> str:
    status, text = answer.status_code, answer.text
    if status == 401:
        return (
            "asks who you are. Export MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD (or "
            "MLFLOW_TRACKING_TOKEN)."
        )
    if status == 403 and "Invalid Host header" in text:
        return (
            f"the server does not answer to the name {urlsplit(uri).netloc}. Start it with that name "
            f"allowed: make serve HOST=... NAMES={urlsplit(uri).netloc}"
        )
    if status == 403:
        return (
            "refuses access (403). Ask who runs it for the right to read and write, and see that "
            "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD are yours."
        )
    if status >= 500:
        return f"the server answers with error {status}: its log says why; its database may be away."
    return _NO_SERVER


def _json(answer: Any) -> dict[str, Any]:
    try:
        found = answer.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
