"""Parse replies of a chat-completions server into answers, unanswered questions and server faults."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from src.configs import ServerConfig
from src.errors import InputError, brief

if TYPE_CHECKING:  # the package takes a second to import
    from httpx2 import Response
    from openai import APIConnectionError

# Status codes below 500 to retry: timeouts, conflicts, too many requests. All codes from 500 on are retried.
TRANSIENT = (408, 409, 425, 429)
# Status codes that stop the run, as they concern the key, account, address or model; 429 (too many requests)
# only once its retries are exhausted.
FATAL = (401, 402, 404, 405, 410, 429)
# Phrases in replies of content filters: OpenAI, Azure, OpenRouter, DashScope, and OpenAI's reasoning models.
FILTERED = re.compile(
    r"content.?filter|content.?policy|content management policy|responsible.?ai|moderation|data.?inspection"
    r"|flagged|invalid_prompt"
)
# Status code in the body of a reply.
ERROR_CODE = re.compile(r"[45]\d\d")
# Parameter that some servers refuse -> options to use instead.
REMEDIES = {
    "max_completion_tokens": "llm.limit=max_tokens, or llm.limit=none",
    "max_tokens": "llm.limit=max_completion_tokens, or llm.limit=none",
    "temperature": "llm.temperature=null",
}
SAVED = "answers so far are saved."


@dataclass(frozen=True)
class Unanswered:
    """A question that got no answer text; `reason` says why."""

    reason: str


@dataclass(frozen=True)
class AmbiguousFailure:
    """A failure that either the question or the server may have caused."""

    reason: str  # why the question has no answer, if the question is the cause
    error: InputError  # error to raise, if the server is the cause
    transient: bool  # whether an outage may be the cause, rather than a refusal


ParsedReply = str | Unanswered | AmbiguousFailure


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
    if status < 400 and error:
        code = str(error.get("code")) if isinstance(error, Mapping) else ""
        status = int(code) if ERROR_CODE.fullmatch(code) else 400
    return status, content


def _find_error(content: Any) -> Any:
    """Return the error in a reply or (OpenRouter) in its first choice; None without an error."""
    choices = content.get("choices") if isinstance(content, Mapping) else None
    replies = [content, *choices[:1]] if isinstance(choices, list) else [content]
    errors = [reply.get("error") for reply in replies if isinstance(reply, Mapping)]
    return next(filter(None, errors), None)


def parse_reply(response: Response, config: ServerConfig, url: str) -> ParsedReply:
    """Parse the reply to a question after all retries; messages contain `url`, which has no password.

    Raises:
        InputError: the server refuses the key, the model or the rate of requests, whatever the question.
    """
    status, content = decode(response)
    if status < 400:
        return _parse_completion(content, response, url)
    text = brief(response.text.strip(), 300)
    phrase = response.reason_phrase if status == response.status_code else ""
    if status not in FATAL and FILTERED.search(response.text.lower()):
        return Unanswered("content_filter")
    if status in (401, 403):
        remedy = f"Put a valid key into {config.key}" if config.key else "Name its variable: llm.key=NAME"
        refused = InputError(f"{url}: the server refuses the key ({status}). {remedy}; {SAVED}")
        if status == 401:
            raise refused
        return AmbiguousFailure(f"{status}: {text}", refused, transient=False)
    status_text = f"{status} {phrase}".strip()
    failure = InputError(
        f"{url}: {status_text} ({text[:120]!r}). {_find_remedy(status, response, config)}; {SAVED}"
    )
    if status in FATAL:
        raise failure
    return AmbiguousFailure(f"{status}: {text}", failure, transient=is_transient(status))


def describe_connection_failure(error: APIConnectionError, url: str) -> AmbiguousFailure:
    """Describe a failed connection, which may be due to a question that takes too long."""
    cause = type(error.__cause__ or error).__name__
    failure = InputError(f"{url}: cannot be reached ({cause}). Start the server, or correct llm.url; {SAVED}")
    return AmbiguousFailure(f"no reply ({cause})", failure, transient=True)


def _parse_completion(content: Any, response: Response, url: str) -> ParsedReply:
    try:
        choice = content["choices"][0]
        finish = choice.get("finish_reason")
        if finish == "content_filter":
            return Unanswered(finish)
        message = choice["message"]
        text = _extract_text(message["content"]) if "content" in message else ""
        refusal = message.get("refusal")
    except (KeyError, IndexError, TypeError, AttributeError):
        failure = f"{url}: expected a chat completion, got ({response.text[:80]!r})"
        return AmbiguousFailure(
            "no chat completion", InputError(f"{failure}. Correct llm.url; {SAVED}"), transient=True
        )
    if text.strip():
        # A lone surrogate cannot be encoded.
        return text.encode("utf-8", "replace").decode("utf-8")
    if isinstance(refusal, str) and refusal.strip():
        return Unanswered(f"refusal: {brief(refusal.strip(), 300)}")
    return Unanswered(f"no text (finish_reason {brief(finish, 40)})")


def _extract_text(content: Any) -> str:
    """Return the text of a message's content: of a list, only the items of type `text`, not reasoning."""
    if content is None:
        return ""
    if isinstance(content, list):
        return "".join(item["text"] for item in content if item.get("type") == "text")
    if not isinstance(content, str):
        raise TypeError(content)
    return content


def _find_remedy(status: int, response: Response, config: ServerConfig) -> str:
    if status == 429:
        after = brief(response.headers.get("Retry-After", ""), 40)
        wait = f" It asks to wait {after}{' s' * after.isdigit()}." if after else ""
        return f"Too many requests, or no quota is left.{wait} Run the same command later"
    if status >= 500:
        return "The server fails, or is overloaded. Run the same command later"
    for parameter in (config.limit, "temperature"):
        if status in (400, 422) and parameter in response.text:
            return f"The server refuses {parameter}: set {REMEDIES[parameter]}"
    return f"Correct llm.url or llm.id={config.id}"
