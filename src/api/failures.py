"""Classify failed requests by cause: the question, the server, or either of them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from src.configs import ApiConfig
from src.errors import InputError, brief, redact

if TYPE_CHECKING:  # the package takes a second to import
    from httpx2 import Response
    from openai import APIConnectionError

# Status codes below 500 to retry: timeouts, conflicts, too many requests. All codes from 500 on are retried.
TRANSIENT = (408, 409, 425, 429)
# Status codes that stop the run, as they concern the key, account, address or model; 429 (too many requests)
# only once its retries are exhausted. So do redirects.
FATAL = (401, 402, 404, 405, 410, 429)
# Phrases in replies of content filters: OpenAI, Azure, OpenRouter, DashScope, and OpenAI's reasoning models.
FILTERED = re.compile(
    r"content.?filter|content.?policy|content management policy|responsible.?ai|moderation|data.?inspection"
    r"|flagged|invalid_prompt"
)
# Status code in the body of a reply.
ERROR_CODE = re.compile(r"[45]\d\d")
SAVED = "answers so far are saved."


@dataclass(frozen=True)
class Unanswered:
    """A question that got no answer; `reason` says why."""

    reason: str


@dataclass(frozen=True)
class AmbiguousFailure:
    """A failure that either the question or the server may have caused."""

    reason: str  # why the question has no answer, if the question is the cause
    error: InputError  # error to raise, if the server is the cause
    transient: bool  # whether an outage may be the cause, rather than a refusal


def read_key(config: ApiConfig) -> str:
    """Return the key in the config's environment variable, without blanks around it; empty without one.

    Raises:
        InputError: the key has a character that a header cannot hold; the message does not repeat the key.
    """
    key = os.environ.get(config.key, "").strip() if config.key else ""
    if not (key.isascii() and key.isprintable()):
        raise InputError(
            f"{config.key}, the environment variable that {config.group}.key names: expected printable ASCII "
            "characters, got others, such as a line break, a typographic dash or a byte order mark. Copy the "
            "key again."
        )
    return key


def quote_reply(response: Response, config: ApiConfig, max_length: int) -> str:
    """Return the start of a reply's text for a message, without the key, which a server may repeat."""
    text, key = response.text.strip(), read_key(config)
    return brief(text.replace(key, "…") if key else text, max_length)


def is_transient(status: int) -> bool:
    """Return whether a failed request may succeed later; gateways use further codes from 520 on.

    >>> is_transient(429), is_transient(529), is_transient(400)
    (True, True, False)
    """
    return status in TRANSIENT or status >= 500


def decode(response: Response) -> tuple[int, Any]:
    """Return the status code of a reply and its content, None if it is not JSON.

    Some gateways reply with status 200 and write the code of an error into the body.
    """
    try:
        content: Any = response.json()
    except (ValueError, RecursionError):
        content = None
    status, error = response.status_code, _find_error(content)
    if status < 300 and error:
        code = str(error.get("code")) if isinstance(error, Mapping) else ""
        status = int(code) if ERROR_CODE.fullmatch(code) else 400
    return status, content


def _find_error(content: Any) -> Any:
    """Return the error in a reply or (OpenRouter) in its first choice; None without an error."""
    choices = content.get("choices") if isinstance(content, Mapping) else None
    replies = [content, *choices[:1]] if isinstance(choices, list) else [content]
    errors = [reply.get("error") for reply in replies if isinstance(reply, Mapping)]
    return next(filter(None, errors), None)


def explain_failure(
    response: Response, config: ApiConfig, url: str, remedies: Mapping[str, str]
) -> Unanswered | AmbiguousFailure:
    """Explain a reply with a status of at least 300, after all retries.

    Args:
        response: reply of the server.
        config: config of the model and its server.
        url: address for messages, without a password.
        remedies: optional field of a request -> setting to change if the server refuses the field.

    Raises:
        InputError: the server refuses the key, the model or the rate of requests, or redirects to another
            address, whatever the question.
    """
    status, _ = decode(response)
    group = config.group
    if status < 400:
        location = redact(brief(response.headers.get("Location", "")))
        target = f"redirects to {location}" if location else "redirects"
        raise InputError(
            f"{url}: the server {target} ({status}), which is not followed: neither questions nor the key "
            f"are sent there. Set {group}.url to the address that you trust; {SAVED}"
        )
    text = quote_reply(response, config, 300)
    phrase = response.reason_phrase if status == response.status_code else ""
    if status not in FATAL and FILTERED.search(response.text.lower()):
        return Unanswered("content_filter")
    if status in (401, 403):
        remedy = (
            f"Put a valid key into {config.key}, the environment variable that {group}.key names"
            if config.key
            else f"Name the environment variable that has the key: {group}.key=NAME"
        )
        refused = InputError(f"{url}: the server refuses the key ({status}). {remedy}; {SAVED}")
        if status == 401:
            raise refused
        return AmbiguousFailure(f"{status}: {text}", refused, transient=False)
    status_text = f"{status} {phrase}".strip()
    remedy = _find_remedy(status, response, config, remedies)
    failure = InputError(f"{url}: {status_text} ({text[:120]!r}). {remedy}; {SAVED}")
    if status in FATAL:
        raise failure
    return AmbiguousFailure(f"{status}: {text}", failure, transient=is_transient(status))


def describe_connection_failure(error: APIConnectionError, config: ApiConfig, url: str) -> AmbiguousFailure:
    """Describe a failed connection, which may be due to a question that takes too long."""
    cause = type(error.__cause__ or error).__name__
    failure = InputError(
        f"{url}: cannot be reached ({cause}). Start the server, or correct {config.group}.url; {SAVED}"
    )
    return AmbiguousFailure(f"no reply ({cause})", failure, transient=True)


def _find_remedy(status: int, response: Response, config: ApiConfig, remedies: Mapping[str, str]) -> str:
    if status == 429:
        after = brief(response.headers.get("Retry-After", ""), 40)
        wait = f" It asks to wait {after}{' s' * after.isdigit()}." if after else ""
        return f"Too many requests, or no quota is left.{wait} Run the same command later"
    if status >= 500:
        return "The server fails, or is overloaded. Run the same command later"
    for parameter, setting in remedies.items():
        if status in (400, 422) and parameter in response.text:
            return f"The server refuses {parameter}: set {setting}"
    return f"Correct {config.group}.url or {config.group}.id={config.id}"
