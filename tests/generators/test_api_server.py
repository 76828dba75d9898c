"""Check answers of servers that are slow, fail, cut off, refuse or return nonsense."""

import re
import threading

import pytest

from src.api.failures import Unanswered
from src.api.queries import FAILURES_BEFORE_TEST
from src.configs import ServerConfig
from src.errors import InputError
from src.generators import api_server
from tests.served import completion, serve_json


def config(url, **changes):
    return ServerConfig(**{"url": url, "id": "some-model", "retries": 2, "timeout": 5.0, **changes})


def echo(_, request):
    return completion(request["messages"][0]["content"].upper())


def collected(batches, answers=None):
    """Merge the answers of all batches, into `answers` if there may be an error."""
    answers = {} if answers is None else answers
    for batch in batches:
        answers |= batch
    return answers


def refused(message, **error):
    return {"error": {"message": message, **error}}


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    # Tests need not wait for seconds before they retry.
    monkeypatch.setattr("time.sleep", lambda *_: None)


def test_every_question_is_answered_once_by_its_place():
    texts = [f"question {number}" for number in range(40)]
    with serve_json(echo) as (chat, url):
        replies = collected(api_server.query_answers(config(url, concurrency=4), texts))
    assert replies == {place: text.upper() for place, text in enumerate(texts)}
    assert len(chat.requests) == 40
    assert chat.requests[0] | {"messages": []} == {
        **{"model": "some-model", "messages": [], "temperature": 0, "max_tokens": 32}
    }


@pytest.mark.parametrize(
    "trouble",
    [
        *((503, "busy"), (429, "later"), (500, ""), (200, None), (200, "<html>"), (200, {})),
        (529, refused("overloaded")),  # Anthropic
        (524, "<html>"),  # Cloudflare
        *((200, refused("Rate limited", code=code)) for code in (429, "429", 502)),  # OpenRouter
        (200, {"choices": [{"message": {"content": "par"}, **refused("Provider failed", code=502)}]}),
    ],
)
def test_transient_faults_are_retried(trouble):
    with serve_json(lambda number, request: trouble if number < 3 else echo(number, request)) as (chat, url):
        assert collected(api_server.query_answers(config(url, concurrency=1), ["a"])) == {0: "A"}
    assert len(chat.requests) == 3


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
        ((200, SLIP), "content_filter"),
        (silent({"content": None, "refusal": "I'm sorry, no."}), "refusal: I'm sorry, no."),
        (silent({"content": None}, "length"), "no text (finish_reason length)"),
        ((400, LONG), "400: .*maximum context length"),
        ((413, "Payload Too Large"), "413: Payload Too Large"),
        ((403, "no permission for this"), "403: no permission"),
        ((500, "CUDA error"), "500: CUDA error"),
        ((200, {"choices": []}), "no chat completion"),
        ((200, None), "no reply"),
    ],
)
@pytest.mark.parametrize("at", [0, 11])
def test_a_question_without_an_answer_is_attributed_and_the_rest_answered(trouble, reason, at):
    texts = [f"question {number}" for number in range(12)]

    def behave(number, request):
        return trouble if request["messages"][0]["content"] == texts[at] else echo(number, request)

    with serve_json(behave) as (_, url):
        replies = collected(api_server.query_answers(config(url, concurrency=2, retries=1), texts))
    unanswered = replies.pop(at)
    assert isinstance(unanswered, Unanswered)
    assert re.match(reason.replace("(", "[(]").replace(")", "[)]"), unanswered.reason)
    assert replies == {place: text.upper() for place, text in enumerate(texts) if place != at}


REFUSED = [
    ((403, refused("The key was revoked")), "refuses the key .403.*answers so far are saved"),
    ((400, refused("Billing limit reached")), "400 .*Billing limit.*answers so far are saved"),
]
LASTING = [
    ((503, "down"), "503 .*'down'.*Run the same command later; answers so far are saved"),
    ((529, "overloaded"), "529 .'overloaded'.*Run the same command later"),
    ((200, "<html>"), "expected a chat completion, got .'<html>'.*answers so far are saved"),
    ((200, None), "cannot be reached.*answers so far are saved"),
]


@pytest.mark.parametrize(
    ("count", "after", "trouble", "message"),
    [
        (100, 0, (400, refused("Unknown model class")), "400 .*answers so far are saved"),
        *((*sizes, *lasting) for sizes in ((1, 0), (100, 0), (100, 5)) for lasting in LASTING),
        *((*sizes, *lasting) for sizes in ((100, 5), (8, 5)) for lasting in REFUSED),
    ],
)
def test_a_server_that_answers_nobody_ends_the_run_soon(count, after, trouble, message):
    def behave(number, request):
        return echo(number, request) if number <= after else trouble

    texts, answers = [f"question {number}" for number in range(count)], {}
    with serve_json(behave) as (chat, url), pytest.raises(InputError, match=message):
        collected(api_server.query_answers(config(url, concurrency=1, retries=0), texts), answers)
    assert len(chat.requests) < 20
    assert len(answers) == after


@pytest.mark.parametrize(
    ("parameter", "remedy"),
    [
        ("max_tokens", "llm.limit=max_completion_tokens, or llm.limit=none"),
        ("temperature", "llm.temperature=null"),
    ],
)
def test_a_parameter_that_is_refused_is_named_with_its_option(parameter, remedy):
    texts = [str(number) for number in range(30)]
    trouble = 400, refused(f"Unsupported: '{parameter}' with this model.", code="unsupported_parameter")
    message = f"refuses {parameter}: set {remedy}"
    with serve_json(lambda *_: trouble) as (chat, url), pytest.raises(InputError, match=message):
        collected(api_server.query_answers(config(url, concurrency=1), texts))
    # One more may be in flight when the eighth refusal is read.
    assert FAILURES_BEFORE_TEST <= len(chat.requests) <= FAILURES_BEFORE_TEST + 1


def test_parameters_and_the_key_are_sent_as_set(monkeypatch):
    with serve_json(echo) as (chat, url):
        for changes in (
            {"limit": "max_completion_tokens", "temperature": None, "most": 500},
            {"limit": "none"},
        ):
            collected(api_server.query_answers(config(url, **changes), ["a"]))
    sent = [set(request) - {"model", "messages"} for request in chat.requests]
    assert sent == [{"max_completion_tokens"}, {"temperature"}]
    assert chat.requests[0]["max_completion_tokens"] == 500
    # The key comes from the environment alone.
    monkeypatch.setenv("MY_KEY", "secret")
    with serve_json(echo) as (chat, url):
        for key in ("MY_KEY", "", "NOT_SET"):
            collected(api_server.query_answers(config(url, key=key), ["a"]))
    assert chat.authorizations == ["Bearer secret", None, None]


@pytest.mark.parametrize("key", ["\ufeffsk-hush", "sk–hush", "sk-\r\nhush"])
def test_a_key_that_no_header_can_hold_is_refused_and_not_repeated(key, monkeypatch):
    monkeypatch.setenv("MY_KEY", key)
    with serve_json(echo) as (chat, url), pytest.raises(InputError, match=r"^MY_KEY.*llm\.key") as error:
        collected(api_server.query_answers(config(url, key="MY_KEY"), ["a"]))
    assert "hush" not in repr(error.value)
    assert chat.requests == []


def test_a_line_break_after_the_key_is_not_sent(monkeypatch):
    monkeypatch.setenv("MY_KEY", " secret\r\n")
    with serve_json(echo) as (chat, url):
        assert collected(api_server.query_answers(config(url, key="MY_KEY"), ["a"])) == {0: "A"}
    assert chat.authorizations == ["Bearer secret"]


@pytest.mark.parametrize("url", ["http://me:hush@127.0.0.1:PORT/v1", "http://me:hush@[::1:80/v1", "host/v1"])
def test_an_address_that_is_none_is_refused_with_an_example(url):
    message = r"^llm\.url=\S+: expected the address of a server\. Set it as in llm\.url=http://127\.0"
    with pytest.raises(InputError, match=message) as error:
        collected(api_server.query_answers(config(url), ["a"]))
    assert "hush" not in str(error.value)


@pytest.mark.parametrize("after", [0, 3])
@pytest.mark.parametrize(
    ("status", "message"),
    [
        (404, "404 Not Found .*Correct llm.url or llm.id=some-model"),
        (402, "402"),
        (401, "refuses the key .401.. Put a valid key into OPENAI_API_KEY"),
    ],
)
def test_a_wrong_address_key_or_account_stops_at_once_with_the_answers_before(status, message, after):
    def behave(number, request):
        return echo(number, request) if number <= after else (status, refused("Incorrect"))

    answers = {}
    with serve_json(behave) as (chat, url), pytest.raises(InputError, match=message):
        collected(api_server.query_answers(config(url, concurrency=1), ["a"] * 20), answers)
    assert len(chat.requests) == after + 1
    assert answers == dict.fromkeys(range(after), "A")


@pytest.mark.parametrize(
    ("after", "waited"),
    [("3600", [60]), ("Wed, 21 Oct 2099 07:28:00 GMT", [60]), ("7", [7]), ("soon", []), ("-5", [])],
)
def test_a_server_that_asks_to_wait_is_waited_for_within_bounds(after, waited, monkeypatch, caplog):
    seconds = []
    monkeypatch.setattr("time.sleep", lambda wait: seconds.append(round(wait)) if wait else None)

    def behave(number, request):
        return (429, "later", {"Retry-After": after}) if number == 1 else echo(number, request)

    with serve_json(behave) as (_, url):
        assert collected(api_server.query_answers(config(url), ["a"])) == {0: "A"}
    assert [wait for wait in seconds if wait] == waited
    assert (f"Retry-After: {after}); waiting 60 s" in caplog.text) == (waited == [60])


def test_a_timeout_is_reported():
    ended = threading.Event()
    with serve_json(lambda *_: (ended.wait(300), completion("late"))[1]) as (_, url):
        with pytest.raises(InputError, match="cannot be reached"):
            collected(api_server.query_answers(config(url, timeout=0.1, retries=0), ["a"]))
        ended.set()
