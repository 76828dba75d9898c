"""Send many questions to a server at once, and tell questions that it cannot answer from its own failures."""

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import TypeVar

from openai import OpenAI

from src.api.client import make_client
from src.api.failures import AmbiguousFailure, Unanswered
from src.configs import ApiConfig

log = logging.getLogger(__name__)

# Consecutive failures after which the server is tested with a question that it answered before. The run ends
# if the test fails, or if the server has not answered any question.
FAILURES_BEFORE_TEST = 8

Question = TypeVar("Question")
Answer = TypeVar("Answer")
Request = Callable[[OpenAI, Question], Answer | Unanswered | AmbiguousFailure]


def query_answers(
    config: ApiConfig,
    request: Request[Question, Answer],
    questions: Sequence[Question],
    answered: Question | None = None,
) -> Iterator[Mapping[int, Answer | Unanswered]]:
    """Yield answers to questions as they arrive, by index of the question.

    A failed question counts as unanswered only if the server still answers other questions. A question that
    the server refuses is given up once the server has answered a question after the refusal. A question that
    fails by a transient fault is sent again at the end.

    Args:
        config: config of the model and its server.
        request: (client, question) -> answer, after all retries.
        questions: questions.
        answered: question that this server has answered before, if any.

    Raises:
        InputError: the server refuses the key or all questions from some question on, does not know the
            model, cannot be reached, or gives replies of another kind. Answers in flight are lost.
    """
    with make_client(config) as client:

        def still_answers() -> bool:
            return answered is not None and not isinstance(request(client, answered), AmbiguousFailure)

        refused: dict[int, AmbiguousFailure] = {}
        transient: dict[int, AmbiguousFailure] = {}
        failures = 0
        for index, reply in _request_replies(client, config, request, questions):
            if isinstance(reply, AmbiguousFailure):
                (transient if reply.transient else refused)[index] = reply
                failures += 1
                if failures >= FAILURES_BEFORE_TEST:
                    if not still_answers():
                        raise reply.error
                    failures = 0
            else:
                yield {index: reply}
                answered, failures = questions[index], 0
            if not failures and refused:
                yield _give_up(refused)
                refused.clear()
        if answered is None and transient:
            raise next(iter({**refused, **transient}.values())).error
        if refused:
            if not still_answers():
                raise next(iter(refused.values())).error
            yield _give_up(refused)
        for index in transient:
            reply = request(client, questions[index])
            if isinstance(reply, AmbiguousFailure):
                if not still_answers():
                    raise reply.error
                log.warning("no answer to %.60r: %s", questions[index], reply.reason)
                reply = Unanswered(reply.reason)
            yield {index: reply}


def _give_up(refused: Mapping[int, AmbiguousFailure]) -> dict[int, Unanswered]:
    """Return refused questions as unanswered, by index."""
    return {index: Unanswered(failure.reason) for index, failure in refused.items()}


def _request_replies(
    client: OpenAI, config: ApiConfig, request: Request[Question, Answer], questions: Sequence[Question]
) -> Iterator[tuple[int, Answer | Unanswered | AmbiguousFailure]]:
    """Yield (index, reply) for each question; raise a fatal error after the replies that came before it."""
    waiting: SimpleQueue[tuple[int, Question]] = SimpleQueue()
    replies: SimpleQueue[tuple[int, Answer | Unanswered | AmbiguousFailure | Exception]] = SimpleQueue()
    for index_and_question in enumerate(questions):
        waiting.put(index_and_question)

    def ask() -> None:
        with contextlib.suppress(Empty):
            while not stopped.is_set():
                index, question = waiting.get_nowait()
                try:
                    replies.put((index, request(client, question)))
                except Exception as error:  # raised again by the consumer
                    stopped.set()
                    replies.put((index, error))

    stopped = Event()
    # Daemon threads end with the process: a Ctrl-C does not wait for the answer of a slow server.
    for _ in range(min(config.concurrency, len(questions))):
        Thread(target=ask, daemon=True).start()
    pending, failure = len(questions), None
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
