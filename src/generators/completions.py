"""Read replies of a chat-completions server: an answer, a question without one, or a fault of the server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import requests

from src.configs import ServerConfig
from src.errors import InputError, brief

# What may pass: too many requests, and a server that is starting, overloaded or restarted.
PASSING = (408, 409, 425, 429, 500, 502, 503, 504)
# What no other question would change: key, account, address, model, pace.
FATAL = (401, 402, 404, 405, 410, 429)
# What content filters answer: OpenAI, Azure, OpenRouter, DashScope, and OpenAI's reasoning models.
FILTERED = re.compile(
    r"content.?filter|content.?policy|content management policy|responsible.?ai|moderation|data.?inspection"
    r"|flagged|invalid_prompt"
)
# Parameters that some servers refuse, and what is said instead.
REMEDIES = {
    "max_completion_tokens": "llm.limit=max_tokens, or llm.limit=none",
    "max_tokens": "llm.limit=max_completion_tokens, or llm.limit=none",
    "temperature": "llm.temperature=null",
}
SAVED = "answers so far are kept."


@dataclass(frozen=True)
class Unanswered:
    """A question that a server answers with no text: `reason` says why."""

    reason: str


@dataclass(frozen=True)
class Doubtful:
    """A failure that may be the question's or the server's.

    Attributes:
        reason: why there is no answer, where it is the question's.
        error: raised where it is the server's.
        passing: whether the server may have answered just before: an outage, not a refusal.
    """

    reason: str
    error: InputError
    passing: bool


Reply = str | Unanswered | Doubtful


def read(reply: requests.Response, config: ServerConfig, url: str) -> Reply:
    """Return what a reply says of its question.

    Args:
        reply: of the server, after all retries.
        config: which server and model.
        url: what errors name, without passwords.

    Raises:
        InputError: the server refuses key, model or pace, whatever it is asked.
    """
    content = _json(reply)
    error = content.get("error") if isinstance(content, Mapping) else None
    status = _status(reply.status_code, error)
    if status < 400:
        return _completion(content, reply, url)
    text = brief(reply.text.strip(), 300)
    described = f"{status} {reply.reason}" if status == reply.status_code else str(status)
    if status not in FATAL and FILTERED.search(reply.text.lower()):
        return Unanswered("content_filter")
    if status in (401, 403):
        key = f"Put the right one into {config.key}" if config.key else "Name its variable: llm.key=NAME"
        refused = InputError(f"{url}: the server refuses the key ({status}). {key}; {SAVED}")
        if status == 401:
            raise refused
        return Doubtful(f"{status}: {text}", refused, passing=False)
    failure = InputError(f"{url}: {described} ({text[:120]!r}). {_remedy(status, reply, config)}; {SAVED}")
    if status in FATAL:
        raise failure
    return Doubtful(f"{status}: {text}", failure, passing=status in PASSING)


def unreachable(error: requests.RequestException, url: str) -> Doubtful:
    """Return what a failed connection says of its question: one may take longer than a server allows."""
    said = f"{url}: cannot be reached ({type(error).__name__})"
    failure = InputError(f"{said}. Start the server, or correct llm.url; {SAVED}")
    return Doubtful(f"no reply ({type(error).__name__})", failure, passing=True)


def _json(reply: requests.Response) -> Any:
    try:
        return reply.json()
    except (ValueError, RecursionError):
        return None


def _status(status: int, error: Any) -> int:
    # Some gateways answer 200 with the status within.
    code = error.get("code") if isinstance(error, Mapping) else None
    if status < 400 and error:
        return code if isinstance(code, int) and code >= 400 else 400
    return status


def _completion(content: Any, reply: requests.Response, url: str) -> Reply:
    try:
        choice = content["choices"][0]
        finish = choice.get("finish_reason")
        if finish == "content_filter":
            return Unanswered(finish)
        message = choice["message"]
        text = _text(message["content"]) if "content" in message else ""
        refusal = message.get("refusal")
    except (KeyError, IndexError, TypeError, AttributeError):
        failure = f"{url}: answers with something else than a chat completion ({reply.text[:80]!r})"
        return Doubtful(
            "no chat completion", InputError(f"{failure}. Correct llm.url; {SAVED}"), passing=True
        )
    if text.strip():
        # A character that was cut in two is none of any encoding.
        return text.encode("utf-8", "replace").decode("utf-8")
    if isinstance(refusal, str) and refusal.strip():
        return Unanswered(f"refusal: {brief(refusal.strip(), 300)}")
    return Unanswered(f"no text (finish_reason {brief(finish, 40)})")


def _text(content: Any) -> str:
    """Return the text of a message: of its parts those of type `text`, without reasoning."""
    if content is None:
        return ""
    if isinstance(content, list):
        return "".join(part["text"] for part in content if part.get("type") == "text")
    if not isinstance(content, str):
        raise TypeError(content)
    return content


def _remedy(status: int, reply: requests.Response, config: ServerConfig) -> str:
    if status == 429:
        after = brief(reply.headers.get("Retry-After", ""), 40)
        wait = f" It asks to wait {after}{' s' * after.isdigit()}." if after else ""
        return f"Too many requests, or no quota is left.{wait} Run the same command later"
    for parameter in (config.limit, "temperature"):
        if status in (400, 422) and parameter in reply.text:
            return f"The server refuses {parameter}: say {REMEDIES[parameter]}"
    return f"Correct llm.url or llm.id={config.id}"
