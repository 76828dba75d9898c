"""Parse replies of a chat-completions server into answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from src.api.failures import SAVED, AmbiguousFailure, Unanswered, decode, explain_failure, quote_reply
from src.configs import ServerConfig
from src.errors import InputError, brief

if TYPE_CHECKING:  # the package takes a second to import
    from httpx2 import Response

# Parameter that some servers refuse -> options to use instead.
REMEDIES = {
    "max_completion_tokens": "llm.limit=max_tokens, or llm.limit=none",
    "max_tokens": "llm.limit=max_completion_tokens, or llm.limit=none",
    "temperature": "llm.temperature=null",
}


def parse_reply(response: Response, config: ServerConfig, url: str) -> str | Unanswered | AmbiguousFailure:
    """Parse the reply to a question after all retries; messages contain `url`, which has no password.

    Raises:
        InputError: see `explain_failure`.
    """
    status, content = decode(response)
    if status < 300:
        return _parse_completion(content, response, config, url)
    sent = (config.limit, "temperature")
    return explain_failure(response, config, url, {name: REMEDIES[name] for name in sent if name in REMEDIES})


def _parse_completion(
    content: Any, response: Response, config: ServerConfig, url: str
) -> str | Unanswered | AmbiguousFailure:
    try:
        choice = content["choices"][0]
        finish = choice.get("finish_reason")
        if finish == "content_filter":
            return Unanswered(finish)
        message = choice["message"]
        text = _extract_text(message["content"]) if "content" in message else ""
        refusal = message.get("refusal")
    except (KeyError, IndexError, TypeError, AttributeError):
        failure = f"{url}: expected a chat completion, got ({quote_reply(response, config, 80)!r})"
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
