"""Models behind a server that speaks as OpenAI's does: asked at once by a few threads, with patience."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from src.configs import ServerConfig
from src.errors import InputError

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
    waiting = iter(enumerate(texts))
    pool = ThreadPoolExecutor(config.concurrency)
    try:
        flying: dict[Future[str], int] = {}
        while True:
            for place, text in waiting:
                flying[pool.submit(_answer, session, config, text)] = place
                if len(flying) >= config.concurrency:
                    break
            if not flying:
                return
            done, _ = wait(flying, return_when=FIRST_COMPLETED)
            yield from _landed(done, flying)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        session.close()


def _landed(done: set[Future[str]], flying: dict[Future[str], int]) -> Iterator[Mapping[int, str]]:
    # First what was answered, then what failed: an answer is never lost for another's failure.
    for future in sorted(done, key=lambda future: future.exception() is not None):
        yield {flying.pop(future): future.result()}


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
    url = f"{config.url.rstrip('/')}/chat/completions"
    question: Any = {
        "model": config.id,
        "messages": [{"role": "user", "content": text}],
        "temperature": 0,
        "max_tokens": config.most,
    }
    for left in range(config.retries, -1, -1):
        try:
            reply = session.post(url, json=question, timeout=config.timeout)
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
    except (ValueError, KeyError, IndexError, TypeError):
        return None
    return content if isinstance(content, str) else None
