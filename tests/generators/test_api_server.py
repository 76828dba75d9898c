"""Servers that are slow, fail, cut off, refuse or return nonsense."""

import re
import threading

import pytest
from urllib3.util import Retry

from src.configs import ServerConfig
from src.errors import InputError
from src.generators import api_server
from src.generators.completions import Unanswered
from tests.generators.chat import said, served

SLEEP = Retry.sleep


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
        found = collected(api_server.answers(config(url, concurrency=4), texts))
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
        collected(api_server.answers(config(url, concurrency=3), [str(n) for n in range(12)]))
    assert chat.most == 3


def test_the_key_comes_from_the_environment_alone(monkeypatch):
    monkeypatch.setenv("MY_KEY", "secret")
    with served(echo) as (chat, url):
        collected(api_server.answers(config(url, key="MY_KEY"), ["a"]))
        collected(api_server.answers(config(url, key=""), ["a"]))
        collected(api_server.answers(config(url, key="NOT_SET"), ["a"]))
    assert chat.keys == ["Bearer secret", None, None]


@pytest.mark.parametrize(
    "trouble", [(503, "busy"), (429, "later"), (500, ""), (200, None), (200, "<html>"), (200, {})]
)
def test_what_passes_is_asked_again(trouble):
    with served(lambda number, asked: trouble if number < 3 else echo(number, asked)) as (chat, url):
        assert collected(api_server.answers(config(url, concurrency=1), ["a"])) == {0: "A"}
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
        collected(api_server.answers(config(url), ["a"]))


def test_a_key_that_is_refused_is_not_tried_again():
    with served(lambda *_: (401, "no")) as (chat, url), pytest.raises(InputError):
        collected(api_server.answers(config(url, concurrency=1), ["a", "b", "c"]))
    assert len(chat.asked) == 1


def refused(message, **error):
    return {"error": {"message": message, **error}}


AZURE = refused(
    "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
    code="content_filter", status=400, innererror={"code": "ResponsibleAIPolicyViolation"},
)  # fmt: skip
LONG = refused("This model's maximum context length is 10 tokens.", code="context_length_exceeded")
SLIP = {"choices": [{"message": {"content": "par"}, "finish_reason": "content_filter"}]}


def silent(message, finish="stop"):
    return 200, {"choices": [{"message": {"role": "assistant", **message}, "finish_reason": finish}]}


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        ((400, refused("Bad", code="content_filter")), "content_filter"),
        ((400, AZURE), "content_filter"),
        (
            (400, refused("Output data may contain inappropriate content", code="data_inspection_failed")),
            "content_f",
        ),
        ((403, refused("Your input was flagged", metadata={"reasons": ["hate"]})), "content_filter"),
        ((200, refused("no", code="content_policy_violation")), "content_filter"),
        ((200, SLIP), "content_filter"),
        ((200, {"choices": [{"finish_reason": "content_filter"}]}), "content_filter"),
        (silent({"content": None, "refusal": "I'm sorry, no."}), "refusal: I'm sorry, no."),
        (silent({"content": None}, "length"), "no text (finish_reason length)"),
        (silent({"content": ""}), "no text (finish_reason stop)"),
        (silent({"reasoning_content": "hm"}, "length"), "no text (finish_reason length)"),
        ((400, LONG), "400: .*maximum context length"),
        ((413, "Payload Too Large"), "413: Payload Too Large"),
        ((422, {"detail": "too many words"}), "422: .*too many words"),
        ((403, "no permission for this"), "403: no permission"),
        ((500, "CUDA error"), "500: CUDA error"),
        ((200, {"choices": []}), "no chat completion"),
        ((200, None), "no reply"),
    ],
)
@pytest.mark.parametrize("at", [0, 4, 11])
def test_a_question_without_an_answer_is_known_and_the_rest_is_asked(trouble, reason, at):
    texts = [f"question {number}" for number in range(12)]

    def behave(number, asked):
        return trouble if asked["messages"][0]["content"] == texts[at] else echo(number, asked)

    with served(behave) as (_, url):
        found = collected(api_server.answers(config(url, concurrency=2, retries=1), texts))
    unanswered = found.pop(at)
    assert isinstance(unanswered, Unanswered)
    assert re.match(reason.replace("(", "[(]").replace(")", "[)]"), unanswered.reason)
    assert found == {place: text.upper() for place, text in enumerate(texts) if place != at}


@pytest.mark.parametrize("trouble", [(400, LONG), (500, "CUDA error")])
def test_the_last_question_of_a_log_may_have_no_answer(trouble):
    def behave(number, asked):
        return trouble if asked["messages"][0]["content"] == "bad" else echo(number, asked)

    with served(behave) as (_, url):
        found = collected(api_server.answers(config(url), ["bad"], proof="answered before"))
        assert isinstance(found[0], Unanswered)
        with pytest.raises(InputError, match=r"(400|500) .*(maximum context|CUDA)"):
            collected(api_server.answers(config(url), ["bad"]))


def test_a_filter_of_every_question_is_no_fault_of_the_address():
    with served(lambda *_: (400, AZURE)) as (chat, url):
        found = collected(api_server.answers(config(url), ["a"] * 20))
    assert len(found) == len(chat.asked) == 20


@pytest.mark.parametrize(
    ("after", "trouble"),
    [
        (0, (400, refused("Unknown model class"))),
        *((after, trouble) for after in (0, 5) for trouble in ((503, "down"), (200, {"choices": []}))),
    ],
)
def test_a_server_that_answers_nobody_ends_the_run_soon(trouble, after):
    def behave(number, asked):
        return echo(number, asked) if number <= after else trouble

    texts, answers = [f"question {number}" for number in range(100)], {}
    with served(behave) as (chat, url), pytest.raises(InputError, match="answers so far are kept"):
        answers.update(
            (place, text)
            for part in api_server.answers(config(url, concurrency=1, retries=0), texts)
            for place, text in part.items()
        )
    assert len(chat.asked) < 20
    assert len(answers) == after


@pytest.mark.parametrize(
    ("message", "options", "remedy"),
    [
        (
            "Unsupported parameter: 'max_tokens' is not supported. Use max_completion_tokens.",
            {},
            "refuses max_tokens: say llm.limit=max_completion_tokens, or llm.limit=none",
        ),
        (
            "max_completion_tokens: Extra inputs are not permitted",
            {"limit": "max_completion_tokens"},
            "refuses max_completion_tokens: say llm.limit=max_tokens",
        ),
        (
            "Unsupported value: 'temperature' does not support 0 with this model.",
            {},
            "refuses temperature: say llm.temperature=null",
        ),
    ],
)
@pytest.mark.parametrize("status", [400, 422])
def test_a_parameter_that_is_refused_is_named_with_its_option(message, options, remedy, status):
    texts = [str(number) for number in range(30)]
    trouble = status, refused(message, code="unsupported_parameter")
    with served(lambda *_: trouble) as (chat, url), pytest.raises(InputError, match=remedy):
        collected(api_server.answers(config(url, concurrency=1, **options), texts))
    # One more may be in flight when the eighth refusal is read.
    assert api_server.IN_A_ROW <= len(chat.asked) <= api_server.IN_A_ROW + 1


def test_parameters_that_a_server_refuses_are_left_out_or_renamed():
    with served(echo) as (chat, url):
        collected(
            api_server.answers(config(url, limit="max_completion_tokens", temperature=None, most=500), ["a"])
        )
        collected(api_server.answers(config(url, limit="none"), ["a"]))
    sent = [set(asked) - {"model", "messages"} for asked in chat.asked]
    assert sent == [{"max_completion_tokens"}, {"temperature"}]
    assert chat.asked[0]["max_completion_tokens"] == 500


@pytest.mark.parametrize(
    ("status", "error"),
    [(404, "The model does not exist"), (402, "Insufficient credits"), (401, "Incorrect API key provided")],
)
def test_a_wrong_address_key_or_account_stops_at_once_even_after_answers(status, error):
    def behave(number, asked):
        return echo(number, asked) if number < 4 else (status, refused(error))

    with served(behave) as (chat, url), pytest.raises(InputError, match=str(status)):
        collected(api_server.answers(config(url, concurrency=1), ["a"] * 20))
    assert len(chat.asked) == 4


@pytest.mark.parametrize(
    ("after", "waited"),
    [
        ("3600", [60]),
        ("Wed, 21 Oct 2099 07:28:00 GMT", [60]),
        ("Wed, 21 Oct 2015 07:28:00 GMT", []),
        ("7", [7]),
        ("soon", []),
        ("-5", []),
    ],
)
def test_a_server_that_asks_to_wait_is_waited_for_within_bounds(after, waited, monkeypatch, caplog):
    seconds = []
    monkeypatch.setattr("urllib3.util.Retry.sleep", SLEEP)
    monkeypatch.setattr("time.sleep", lambda wait: seconds.append(round(wait)) if wait else None)

    def behave(number, asked):
        return (429, "later", {"Retry-After": after}) if number == 1 else echo(number, asked)

    with served(behave) as (_, url):
        assert collected(api_server.answers(config(url), ["a"])) == {0: "A"}
    assert [wait for wait in seconds if wait] == waited
    assert (f"Retry-After: {after}); waiting 60 s" in caplog.text) == (waited == [60])


def test_a_server_that_never_stops_asking_to_wait_is_left_with_what_it_asks():
    trouble, message = (
        (429, "later", {"Retry-After": "3600"}),
        "429 .* asks to wait 3600 s. Run the same command",
    )
    with served(lambda *_: trouble) as (_, url), pytest.raises(InputError, match=message):
        collected(api_server.answers(config(url, retries=1), ["a"]))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "rigid"}], "rigid"),
        ("rigid \ud83d", "rigid ?"),
    ],
)
def test_contents_in_parts_and_characters_cut_in_two_are_texts(content, text):
    with served(lambda *_: silent({"content": content})) as (_, url):
        assert collected(api_server.answers(config(url), ["a"])) == {0: text}


def test_nobody_there_is_said():
    with pytest.raises(InputError, match="cannot be reached .ConnectionError.. Start the server"):
        collected(api_server.answers(config("http://127.0.0.1:9/v1"), ["a"]))


def test_an_answer_that_takes_too_long_is_said():
    over = threading.Event()
    with served(lambda *_: (over.wait(300), said("late"))[1]) as (_, url):
        with pytest.raises(InputError, match="cannot be reached"):
            collected(api_server.answers(config(url, timeout=0.1, retries=0), ["a"]))
        over.set()


def test_answers_before_a_failure_are_given():
    texts, answers = ["a", "b", "c", "d", "e"], {}

    def behave(number, asked):
        return echo(number, asked) if number < 4 else (401, "no")

    with served(behave) as (_, url), pytest.raises(InputError):
        answers.update(
            (place, text)
            for part in api_server.answers(config(url, concurrency=1), texts)
            for place, text in part.items()
        )
    assert answers == {0: "A", 1: "B", 2: "C"}
