"""Query models behind an OpenAI-compatible server, concurrently and with retries."""

import contextlib
import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any

from openai import APIConnectionError, APIStatusError, OpenAI, omit
from urllib3.exceptions import InvalidHeader
from urllib3.util import Retry

from src.configs import ServerConfig
from src.errors import redact
from src.generators.completions import (
    AmbiguousFailure,
    ParsedReply,
    Unanswered,
    decode,
    describe_connection_failure,
    is_transient,
    parse_reply,
)

log = logging.getLogger(__name__)

MAX_WAIT = 60  # maximum number of seconds between two attempts
# Consecutive failures after which the server is tested with a question that it answered before. The run ends
# if the test fails, or if the server has not answered any question.
FAILURES_BEFORE_TEST = 8
NO_KEY = "none"  # key for the client if the config names none; it is not sent


def query_answers(
    config: ServerConfig, texts: Sequence[str], answered: str | None = None
) -> Iterator[Mapping[int, str | Unanswered]]:
    """Yield answers to questions as they arrive, by index of the question.

    A failed question counts as unanswered only if the server still answers other questions. A question that
    the server refuses is given up once the server has answered a question after the refusal. A question that
    fails by a transient fault is sent again at the end.

    Args:
        config: config of the model and its server.
        texts: questions.
        answered: question that this server has answered in an earlier run, if any.

    Raises:
        InputError: the server refuses the key or all questions from some question on, does not know the
            model, cannot be reached, or does not reply with chat completions. Answers in flight are lost.
    """
    with _make_client(config) as client:
        refused: dict[int, AmbiguousFailure] = {}
        transient: dict[int, AmbiguousFailure] = {}
        failures = 0
        for index, reply in _request_replies(client, config, texts):
            if isinstance(reply, AmbiguousFailure):
                (transient if reply.transient else refused)[index] = reply
                failures += 1
                if failures >= FAILURES_BEFORE_TEST:
                    if not _still_answers(client, config, answered):
                        raise reply.error
                    failures = 0
            else:
                yield {index: reply}
                answered, failures = texts[index], 0
            if not failures and refused:
                yield _give_up(refused)
                refused.clear()
        if answered is None and transient:
            raise next(iter({**refused, **transient}.values())).error
        if refused:
            if not _still_answers(client, config, answered):
                raise next(iter(refused.values())).error
            yield _give_up(refused)
        for index in transient:
            reply = _request_reply(client, config, texts[index])
            if isinstance(reply, AmbiguousFailure):
                if not _still_answers(client, config, answered):
                    raise reply.error
                log.warning("no answer to %.60r: %s", texts[index], reply.reason)
                reply = Unanswered(reply.reason)
            yield {index: reply}


def _give_up(refused: Mapping[int, AmbiguousFailure]) -> dict[int, Unanswered]:
    """Return refused questions as unanswered, by index."""
    return {index: Unanswered(failure.reason) for index, failure in refused.items()}


def _still_answers(client: OpenAI, config: ServerConfig, answered: str | None) -> bool:
    """Return whether a server still answers a question that it has answered before."""
    return answered is not None and not isinstance(_request_reply(client, config, answered), AmbiguousFailure)


def _request_replies(
    client: OpenAI, config: ServerConfig, texts: Sequence[str]
) -> Iterator[tuple[int, ParsedReply]]:
    """Yield (index, reply) for each question; raise a fatal error after the replies that came before it."""
    questions: SimpleQueue[tuple[int, str]] = SimpleQueue()
    replies: SimpleQueue[tuple[int, ParsedReply | Exception]] = SimpleQueue()
    for index_and_text in enumerate(texts):
        questions.put(index_and_text)

    def ask() -> None:
        with contextlib.suppress(Empty):
            while not stopped.is_set():
                index, text = questions.get_nowait()
                try:
                    replies.put((index, _request_reply(client, config, text)))
                except Exception as error:  # raised again by the consumer
                    stopped.set()
                    replies.put((index, error))

    stopped = Event()
    # Daemon threads end with the process: a Ctrl-C does not wait for the answer of a slow server.
    for _ in range(min(config.concurrency, len(texts))):
        Thread(target=ask, daemon=True).start()
    pending, failure = len(texts), None
    try:
        # Answers that have already arrived are yielded before a failure is raised.
        while pending and not (failure and replies.empty()):
            # Without a timeout, a Ctrl-C that another thread receives would not end the wait.
            with contextlib.suppress(Empty):
                index, reply = replies.get(timeout=0.2)
                pending -= 1
                if isinstance(reply, Exception):
                    failure = failure or reply
                else:
                    yield index, reply
        if failure:
            raise failure
    finally:
        stopped.set()


def _make_client(config: ServerConfig) -> OpenAI:
    """Make a client with the key from the config's environment variable; ignore other variables OPENAI_*."""
    # This logger prints the address of each request, which may contain a password.
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    key = os.environ.get(config.key, "") if config.key else ""
    variables = {name: os.environ.pop(name) for name in [*os.environ] if name.startswith("OPENAI_")}
    try:
        return OpenAI(
            api_key=key or NO_KEY,
            base_url=config.url,
            timeout=config.timeout,
            max_retries=0,  # `_request_reply` retries, with bounded waits
        )
    finally:
        os.environ.update(variables)


def _request_reply(client: OpenAI, config: ServerConfig, text: str) -> ParsedReply:
    """Send a question and return the reply; try again after a transient fault or a malformed reply."""
    url = redact(f"{config.url.rstrip('/')}/chat/completions")
    create: Any = client.chat.completions.with_raw_response.create
    headers = {"Authorization": omit} if client.api_key == NO_KEY else {}
    request: dict[str, Any] = {"model": config.id, "messages": [{"role": "user", "content": text}]}
    if config.temperature is not None:
        request["temperature"] = config.temperature
    if config.limit != "none":
        request[config.limit] = config.most
    wait = 0.0
    for attempt in range(config.retries + 1):
        time.sleep(wait)
        wait = min(0.5 * 2**attempt, MAX_WAIT)
        try:
            response = create(**request, extra_headers=headers).http_response
        except APIStatusError as error:
            response = error.response
        except APIConnectionError as error:
            reply: ParsedReply = describe_connection_failure(error, url)
            continue
        status, _ = decode(response)
        if is_transient(status) and attempt < config.retries:
            wait = _parse_retry_after(response.headers.get("Retry-After", ""), wait)
            continue
        reply = parse_reply(response, config, url)
        if not isinstance(reply, AmbiguousFailure) or status >= 400:
            break
    return reply


def _parse_retry_after(retry_after: str, default: float) -> float:
    """Return the seconds to wait by a `Retry-After` header, at most `MAX_WAIT`; `default` without one."""
    try:
        seconds = Retry().parse_retry_after(retry_after)
    except InvalidHeader:
        return default
    if seconds > MAX_WAIT:
        log.warning("the server asks to wait (Retry-After: %.40s); waiting %d s", retry_after, MAX_WAIT)
    return min(seconds, MAX_WAIT)
