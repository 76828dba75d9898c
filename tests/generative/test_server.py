"""Servers that are slow, fail, cut off, refuse or return nonsense."""

import threading

import pytest

from src.configs import ServerConfig
from src.errors import InputError
from src.generative import server
from tests.generative.chat import said, served


def config(url, **changes):
    return ServerConfig(**{"url": url, "id": "some-model", "retries": 2, "timeout": 5.0, **changes})


def echo(_, asked):
    return said(asked["messages"][0]["content"].upper())


def collected(found):
    answers = {}
    for part in found:
        answers |= part
    return answers


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    # Retries wait for seconds; here they need not.
    monkeypatch.setattr("urllib3.util.Retry.sleep", lambda *_: None)


def test_every_question_is_answered_once_by_its_place():
    texts = [f"question {number}" for number in range(40)]
    with served(echo) as (chat, url):
        found = collected(server.answers(config(url, concurrency=4), texts))
    assert found == {place: text.upper() for place, text in enumerate(texts)}
    assert len(chat.asked) == 40
    assert chat.asked[0] | {"messages": []} == {
        "model": "some-model",
        "messages": [],
        "temperature": 0,
        "max_tokens": 32,
    }


def test_no_more_are_in_flight_than_asked_for():
    # Each waits for two others: fewer than three at once would wait in vain.
    three = threading.Barrier(3, timeout=60)

    def together(number, asked):
        three.wait()
        return echo(number, asked)

    with served(together) as (chat, url):
        collected(server.answers(config(url, concurrency=3), [str(n) for n in range(12)]))
    assert chat.most == 3


def test_the_key_comes_from_the_environment_alone(monkeypatch):
    monkeypatch.setenv("MY_KEY", "secret")
    with served(echo) as (chat, url):
        collected(server.answers(config(url, key="MY_KEY"), ["a"]))
        collected(server.answers(config(url, key=""), ["a"]))
        collected(server.answers(config(url, key="NOT_SET"), ["a"]))
    assert chat.keys == ["Bearer secret", None, None]


@pytest.mark.parametrize(
    "trouble", [(503, "busy"), (429, "later"), (500, ""), (200, None), (200, "<html>"), (200, {})]
)
def test_what_passes_is_asked_again(trouble):
    with served(lambda number, asked: trouble if number < 3 else echo(number, asked)) as (chat, url):
        assert collected(server.answers(config(url, concurrency=1), ["a"])) == {0: "A"}
    assert len(chat.asked) == 3


@pytest.mark.parametrize(
    ("trouble", "message"),
    [
        ((401, "no"), "refuses the key .401.. Put the right one into OPENAI_API_KEY"),
        ((403, "no"), "refuses the key .403."),
        ((404, "no such model"), "404 Not Found .'no such model'.. Correct llm.url or llm.id=some-model"),
        ((503, "busy"), "503"),
        ((200, "<html>"), "something else than a chat completion .'<html>'."),
        ((200, None), "cannot be reached"),
    ],
)
def test_what_does_not_pass_is_said(trouble, message):
    with served(lambda *_: trouble) as (_, url), pytest.raises(InputError, match=message):
        collected(server.answers(config(url), ["a"]))


def test_a_key_that_is_refused_is_not_tried_again():
    with served(lambda *_: (401, "no")) as (chat, url), pytest.raises(InputError):
        collected(server.answers(config(url, concurrency=1), ["a", "b", "c"]))
    assert len(chat.asked) == 1


def test_nobody_there_is_said():
    with pytest.raises(InputError, match="cannot be reached .ConnectionError.. Start the server"):
        collected(server.answers(config("http://127.0.0.1:9/v1"), ["a"]))


def test_an_answer_that_takes_too_long_is_said():
    over = threading.Event()
    with served(lambda *_: (over.wait(300), said("late"))[1]) as (_, url):
        with pytest.raises(InputError, match="cannot be reached"):
            collected(server.answers(config(url, timeout=0.1, retries=0), ["a"]))
        over.set()


def test_answers_before_a_failure_are_given():
    texts, answers = ["a", "b", "c", "d", "e"], {}

    def behave(number, asked):
        return echo(number, asked) if number < 4 else (401, "no")

    with served(behave) as (_, url), pytest.raises(InputError):
        answers.update(
            (place, text)
            for part in server.answers(config(url, concurrency=1), texts)
            for place, text in part.items()
        )
    assert answers == {0: "A", 1: "B", 2: "C"}
