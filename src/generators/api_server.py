"""Models behind a server that speaks as OpenAI's does: asked at once by a few threads, with patience."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import InvalidHeader
from urllib3.response import BaseHTTPResponse
from urllib3.util import Retry

from src.configs import ServerConfig
from src.errors import masked
from src.generators.completions import PASSING, Doubtful, Reply, Unanswered, read, unreachable

log = logging.getLogger(__name__)

LONGEST_WAIT = 60
# Failures without an answer between them, after which a server is taken to be the cause.
IN_A_ROW = 8

Landed = tuple[int, Reply | Exception]


def answers(
    config: ServerConfig, texts: Sequence[str], *, proof: str | None = None
) -> Iterator[Mapping[int, str | Unanswered]]:
    """Answers to questions, each as it comes, by its place.

    A failure that may be the question's is taken for it only where the server answers another one: a refusal
    once any question was answered, a fault that may pass after a second try at the end.

    Args:
        config: which server and model, and how patient to be.
        texts: questions.
        proof: a question that this server has answered before; None where there is none.

    Raises:
        InputError: the server refuses the key or every question, knows no such model, cannot be reached, or
            answers with something else. What came before was yielded; what was in flight is lost.
    """
    with _session(config) as session:
        refused: dict[int, Doubtful] = {}
        again: dict[int, Doubtful] = {}
        row = 0
        for place, reply in _landing(session, config, texts):
            if isinstance(reply, Doubtful):
                (again if reply.passing else refused)[place] = reply
                row += reply.passing or proof is None
                if row >= IN_A_ROW:
                    if not _works(session, config, proof):
                        raise reply.error
                    row = 0
            else:
                yield {place: reply}
                proof, row = texts[place], 0
            if proof is not None and refused:
                yield {place: Unanswered(doubtful.reason) for place, doubtful in refused.items()}
                refused.clear()
        if proof is None and (refused or again):
            raise next(iter({**refused, **again}.values())).error
        for place in again:
            yield {place: _again(session, config, texts[place], proof)}


def _again(session: requests.Session, config: ServerConfig, text: str, proof: str | None) -> str | Unanswered:
    reply = _reply(session, config, text)
    if isinstance(reply, Doubtful):
        if not _works(session, config, proof):
            raise reply.error
        log.warning("no answer to %.60r: %s", text, reply.reason)
        return Unanswered(reply.reason)
    return reply


def _works(session: requests.Session, config: ServerConfig, proof: str | None) -> bool:
    """Return whether a server answers a question that it has answered before."""
    return proof is not None and not isinstance(_reply(session, config, proof), Doubtful)


def _landing(
    session: requests.Session, config: ServerConfig, texts: Sequence[str]
) -> Iterator[tuple[int, Reply]]:
    """Yield what comes of each question; raise what ends all of them after what came before it."""
    waiting: SimpleQueue[tuple[int, str]] = SimpleQueue()
    landed: SimpleQueue[Landed] = SimpleQueue()
    for asked in enumerate(texts):
        waiting.put(asked)

    def work() -> None:
        with contextlib.suppress(Empty):
            while not stopped.is_set():
                place, text = waiting.get_nowait()
                outcome = _outcome(session, config, text)
                if isinstance(outcome, Exception):
                    stopped.set()
                landed.put((place, outcome))

    stopped = Event()
    # Daemons: a Ctrl-C need not wait for an answer that a slow server still owes.
    for _ in range(min(config.concurrency, len(texts))):
        Thread(target=work, daemon=True).start()
    try:
        for _ in texts:
            place, outcome = _next(landed)
            if isinstance(outcome, Exception):
                yield from _answered(landed)
                raise outcome
            yield place, outcome
    finally:
        stopped.set()


def _next(landed: SimpleQueue[Landed]) -> Landed:
    while True:
        # Who waits without end is not woken by a Ctrl-C that another thread was given.
        with contextlib.suppress(Empty):
            return landed.get(timeout=0.2)


def _outcome(session: requests.Session, config: ServerConfig, text: str) -> Reply | Exception:
    try:
        return _reply(session, config, text)
    except Exception as error:  # raised again by who waits for it
        return error


def _answered(landed: SimpleQueue[Landed]) -> Iterator[tuple[int, Reply]]:
    # No answer that is here already is lost for another's failure.
    with contextlib.suppress(Empty):
        while True:
            place, outcome = landed.get_nowait()
            if not isinstance(outcome, Exception):
                yield place, outcome


class BoundedRetry(Retry):
    """Wait as long as a server asks for, up to a minute."""

    def get_retry_after(self, response: BaseHTTPResponse) -> float | None:
        """Return the seconds to wait; None where the server does not say so in any known form."""
        try:
            wanted = super().get_retry_after(response)
        except InvalidHeader:
            return None
        if wanted is not None and wanted > LONGEST_WAIT:
            header = response.headers.get("Retry-After")
            log.warning("the server asks to wait (Retry-After: %.40s); waiting %d s", header, LONGEST_WAIT)
            return LONGEST_WAIT
        return wanted


def _session(config: ServerConfig) -> requests.Session:
    session = requests.Session()
    again = BoundedRetry(
        total=config.retries,
        allowed_methods=None,
        status_forcelist=PASSING,
        backoff_factor=0.5,
        backoff_max=LONGEST_WAIT,
        raise_on_status=False,
    )
    adapter = HTTPAdapter(max_retries=again, pool_maxsize=config.concurrency)
    session.mount("http://", adapter)
    session.mount("https://", adapter)
    key = os.environ.get(config.key, "") if config.key else ""
    if key:
        session.headers["Authorization"] = f"Bearer {key}"
    return session


def _reply(session: requests.Session, config: ServerConfig, text: str) -> Reply:
    """Return what a server makes of a question; a reply that is cut off is asked for again."""
    address = f"{config.url.rstrip('/')}/chat/completions"
    url = masked(address)
    for left in range(config.retries, -1, -1):
        try:
            response = session.post(address, json=_question(config, text), timeout=config.timeout)
        except requests.RequestException as error:
            return unreachable(error, url)
        reply = read(response, config, url)
        if not isinstance(reply, Doubtful) or response.status_code >= 400 or not left:
            break
    return reply


def _question(config: ServerConfig, text: str) -> dict[str, Any]:
    question: dict[str, Any] = {"model": config.id, "messages": [{"role": "user", "content": text}]}
    if config.temperature is not None:
        question["temperature"] = config.temperature
    if config.limit != "none":
        question[config.limit] = config.most
    return question
