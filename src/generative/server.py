"""Models behind a server that speaks as OpenAI's does: asked at once by a few threads, with patience."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from src.configs import ServerConfig
from src.errors import InputError, masked

# What may pass: too many requests, and a server that is starting, overloaded or restarted.
PASSING = (408, 409, 425, 429, 500, 502, 503, 504)
REFUSED = (401, 403)
LONGEST_WAIT = 60


def answers(config: ServerConfig, texts: Sequence[str]) -> Iterator[Mapping[int, str]]:
    """Answers to questions, each as it comes, by its place.

    Args:
        config: which server and model, and how patient to be.
        texts: questions.

    Raises:
        InputError: the server refuses the key, knows no such model, cannot be reached, or answers with
            something else. What came before was yielded; what was in flight is lost.
    """
    session = _session(config)
    waiting: SimpleQueue[tuple[int, str]] = SimpleQueue()
    landed: SimpleQueue[tuple[int, str | Exception]] = SimpleQueue()
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
            place, answer = _next(landed)
            if isinstance(answer, Exception):
                yield from _answered(landed)
                raise answer
            yield {place: answer}
    finally:
        stopped.set()
        session.close()


def _next(landed: SimpleQueue[tuple[int, str | Exception]]) -> tuple[int, str | Exception]:
    while True:
        # Who waits without end is not woken by a Ctrl-C that another thread was given.
        with contextlib.suppress(Empty):
            return landed.get(timeout=0.2)


def _outcome(session: requests.Session, config: ServerConfig, text: str) -> str | Exception:
    try:
        return _answer(session, config, text)
    except Exception as error:  # raised again by who waits for it
        return error


def _answered(landed: SimpleQueue[tuple[int, str | Exception]]) -> Iterator[Mapping[int, str]]:
    # No answer that is here already is lost for another's failure.
    with contextlib.suppress(Empty):
        while True:
            place, answer = landed.get_nowait()
            if isinstance(answer, str):
                yield {place: answer}


def _session(config: ServerConfig) -> requests.Session:
    session = requests.Session()
    again = Retry(
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


def _answer(session: requests.Session, config: ServerConfig, text: str) -> str:
    address = f"{config.url.rstrip('/')}/chat/completions"
    url = masked(address)
    question: Any = {
        "model": config.id,
        "messages": [{"role": "user", "content": text}],
        "temperature": 0,
        "max_tokens": config.most,
    }
    for left in range(config.retries, -1, -1):
        try:
            reply = session.post(address, json=question, timeout=config.timeout)
        except requests.RequestException as error:
            said = f"{url}: cannot be reached ({type(error).__name__})"
            raise InputError(
                f"{said}. Start the server, or correct llm.url; answers so far are kept."
            ) from None
        _accept(reply, config, url)
        answer = _said(reply)
        if answer is not None:
            return answer
        if not left:
            break
    raise InputError(
        f"{url}: answers with something else than a chat completion ({reply.text[:80]!r}). Correct llm.url; "
        "answers so far are kept."
    )


def _accept(reply: requests.Response, config: ServerConfig, url: str) -> None:
    if reply.status_code in REFUSED:
        key = f"Put the right one into {config.key}" if config.key else "Name its variable: llm.key=NAME"
        raise InputError(
            f"{url}: the server refuses the key ({reply.status_code}). {key}; answers so far are kept."
        )
    if reply.status_code >= 400:
        raise InputError(
            f"{url}: {reply.status_code} {reply.reason} ({reply.text[:120]!r}). Correct llm.url or "
            f"llm.id={config.id}; answers so far are kept."
        )


def _said(reply: requests.Response) -> str | None:
    """The answer of a reply; None where it is none: cut off, or no chat completion."""
    try:
        content: Any = reply.json()["choices"][0]["message"]["content"]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return None
    return content if isinstance(content, str) else None
