"""Query language models behind a server with OpenAI's API."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from openai import OpenAI

from src.api.client import choose_headers, format_address, send
from src.api.failures import AmbiguousFailure, Unanswered
from src.api.queries import query_answers as query
from src.configs import ServerConfig
from src.generators.completions import parse_reply


def query_answers(
    config: ServerConfig, texts: Sequence[str], answered: str | None = None
) -> Iterator[Mapping[int, str | Unanswered]]:
    """Yield answers to questions as they arrive, by index of the question (see `src.api.queries`).

    Args:
        config: config of the model and its server.
        texts: questions.
        answered: question that this server has answered in an earlier run, if any.

    Raises:
        InputError: see `src.api.queries.query_answers`.
    """
    return query(config, partial(_request_answer, config), texts, answered)


def _request_answer(config: ServerConfig, client: OpenAI, text: str) -> str | Unanswered | AmbiguousFailure:
    """Send a question and return the reply, after all retries."""
    url = format_address(config, "chat/completions")
    create: Any = client.chat.completions.with_raw_response.create
    request: dict[str, Any] = {"model": config.id, "messages": [{"role": "user", "content": text}]}
    if config.temperature is not None:
        request["temperature"] = config.temperature
    if config.limit != "none":
        request[config.limit] = config.most
    return send(
        config,
        url,
        lambda: create(**request, extra_headers=choose_headers(client)).http_response,
        lambda response: parse_reply(response, config, url),
    )
