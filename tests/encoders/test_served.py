"""Check encoders on servers that are slow, fail, cut off, change or return nonsense."""

import json
import os
import signal
import threading
from functools import partial
from multiprocessing import get_context

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from src import configs, encoders
from src.embeddings import store
from src.encoders import served
from src.encoders.embedding_requests import Item
from src.encoders.served_network import pack_vector
from src.errors import InputError
from tests.commands import FEW_DRAWS, command
from tests.conftest import AUDITS, store_overrides
from tests.encoders.embedding_server import (
    MODEL,
    PAGES,
    WIDTH,
    answer,
    embed,
    is_probe,
    read_item,
    reply,
    sent_items,
    serve_vectors,
)
from tests.served import serve_json

SENTENCES = [
    "This is the word calm",
    "Это слово",
    "a",
    *(f"That is the word {number}" for number in range(9)),
]
PICTURES = [
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (20 + seed, 30, 3), dtype=np.uint8))
    for seed in range(5)
]


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    # Tests need not wait for seconds before they retry; nothing is left of an earlier server.
    monkeypatch.setattr("src.api.client.MAX_WAIT", 0)
    monkeypatch.setattr(served, "_reports", {})
    monkeypatch.setattr(store, "_last_network", {})


def open_at(answers, url, **fields):
    fields = {"url": url, "id": MODEL, "retries": 1, "timeout": 5.0, "answers": answers, **fields}
    return encoders.open_published(configs.ServedConfig(name="tried", **fields), "cpu")


@pytest.fixture
def opened(tmp_path):
    """Return a function that opens the encoder of an address."""
    return partial(open_at, str(tmp_path))


def embed_texts(network, sentences=SENTENCES):
    return network.encode_texts(network.tokenize(sentences))


def embed_pictures(network, pictures=PICTURES):
    return network.encode_images(torch.stack([network.transform(picture) for picture in pictures]))


def expected(items):
    vectors = torch.tensor([embed(item) for item in items], dtype=torch.float64)
    return torch.nn.functional.normalize(vectors, dim=-1).float()


@pytest.mark.parametrize("dialect", ["messages", "input"])
def test_vectors_are_those_of_the_server_normalised(opened, dialect):
    with serve_vectors() as (server, url):
        network = opened(url, dialect=dialect, batch_size=3).load()
        texts, images = embed_texts(network), embed_pictures(network)
    assert torch.allclose(texts, expected(SENTENCES), atol=1e-7)
    assert torch.allclose(images, expected(map(np.asarray, PICTURES)), atol=1e-7)
    assert (texts.dtype, images.dtype) == (torch.float32, torch.float32)
    assert len(sent_items(server)) == len(SENTENCES) + len(PICTURES)
    assert {*server.paths} == {"/v1/embeddings"}


def test_requests_are_those_of_the_servers_documentation(opened):
    with serve_vectors() as (server, url):
        embed_texts(opened(url).load(), ["a"])
        embed_texts(opened(url, dialect="input").load(), ["a"])
    # The addresses of both pages are in docs/models.md.
    _, picture, chat = server.requests[:3]
    common = {"model": MODEL, "encoding_format": "float"}
    assert chat == common | {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}]}
    assert [entry["type"] for entry in picture["messages"][0]["content"]] == ["image_url"]
    _, picture, data, text = server.requests[3:]
    assert text == common | {"input": ["a"]}
    assert picture == common | {"input": data["input"], "modality": "image"}
    assert data == common | {"input": data["input"]}  # does the server read it as a text?


def test_an_instruction_is_sent_and_makes_another_model(opened):
    fields = {"prompt": "Be brief.", "picture_text": "Represent the given image.", "padding": "max_length"}
    with serve_vectors() as (server, url):
        plain, instructed = opened(url), opened(url, **fields)
        server.requests.clear()
        embed_pictures(instructed.load())
        embed_texts(instructed.load(), ["a"])
    system, user = server.requests[0]["messages"]
    assert system == {"role": "system", "content": "Be brief."}
    assert user["content"][1] == {"type": "text", "text": "Represent the given image."}
    assert server.requests[-1]["messages"][0] == system
    assert len(server.requests[-1]["messages"][1]["content"]) == 1
    assert server.requests[0]["padding"] == "max_length"
    assert plain.identity != instructed.identity


def test_an_instruction_is_a_specification_and_padding_is_in_the_name(job):
    model = ["model=served", "model.url=http://127.0.0.1:9/v1", "model.id=a/b"]
    plain, instructed = job(*model), job(*model, "model.prompt=Be brief.", "model.picture_text=Represent it.")
    assert (plain.model, plain.protocol) == ("a/b", "paper")
    assert (instructed.model, instructed.protocol) == (
        "a/b",
        "paper+prompt=Be brief.+picture_text=Represent it.",
    )
    assert encoders.name_family(plain.cfg.model) == encoders.name_family(instructed.cfg.model)
    assert job(*model, "model.padding=max_length").model == "a/b+max_length"


@pytest.mark.parametrize("field", ["prompt", "picture_text"])
def test_an_instruction_without_a_place_is_refused(opened, field):
    with pytest.raises(InputError, match=f"model.{field}: model.dialect=input has no place for it"):
        opened("http://127.0.0.1:9/v1", dialect="input", **{field: "x"})


def test_a_large_picture_is_reduced_and_no_other(opened):
    wide = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 90, 3), dtype=np.uint8))
    with serve_vectors() as (server, url):
        network = opened(url, max_edge=64).load()
        server.requests.clear()
        embed_pictures(network, [wide, PICTURES[0].resize((64, 33)), PICTURES[1]])
    sizes = sorted(read_item(request).shape[:2] for request in server.requests)
    assert sizes == [(21, 30), (28, 64), (33, 64)]


def test_the_address_is_in_no_key_and_what_the_server_reports_is(opened):
    def identity(pages=PAGES, behave=answer, **fields):
        served._reports.clear()
        with serve_json(behave, pages) as (_, url):
            return opened(url, **fields).identity

    first = identity()
    assert first["server"] == {
        **{"model": MODEL, "width": str(WIDTH), "version": "0.9.1", "root": "weights", "max_model_len": "77"}
    }
    assert identity(concurrency=1, timeout=9.0) == first
    listed = PAGES["/v1/models"]["data"][1]
    for changed in (listed | {"root": "others"}, listed | {"dtype": "bfloat16"}):
        assert identity(PAGES | {"/v1/models": {"data": [changed]}}) != first
    assert identity(PAGES | {"/v1/models": {"data": [listed | {"created": 2}]}}) == first
    assert identity(PAGES | {"/version": {"version": "0.9.2"}}) != first
    assert identity(behave=lambda _, request: (200, reply(embed(read_item(request)), "v2"))) != first
    for field, value in {
        "revision": "b",
        "max_edge": 512,
        "dialect": "input",
        "padding": "max_length",
    }.items():
        assert identity(**{field: value}) != first, field


def test_the_version_of_infinity_is_in_the_description_of_its_api(opened):
    pages = {"/v1/openapi.json": {"info": {"title": "Infinity", "version": "0.0.77"}}}
    with serve_vectors(pages=pages) as (_, url):
        encoder = opened(url)
    assert encoder.identity["server"]["version"] == "Infinity 0.0.77"
    assert encoder.identify_weights() == {
        **{"revision": "unknown", "sha256": "unknown: served", "model": MODEL, "version": "Infinity 0.0.77"}
    }


@pytest.mark.parametrize("page", ["text", [1], {"data": None}, {"data": [1, {"id": MODEL, "root": [1]}]}])
def test_a_server_that_reports_nothing_of_use_is_used(opened, page):
    with serve_vectors(pages={"/v1/models": page, "/version": page}) as (_, url):
        assert {*opened(url).identity["server"]} == {"model", "width", "version"}


TRANSIENT = [
    (500, ""),
    (529, "overloaded"),
    (429, "later"),
    (200, None),
    (200, "<html>"),
    (200, '{"data": ['),
]
UNUSABLE = [
    reply([float("nan")] * WIDTH),
    reply([None] * WIDTH),
    reply([0.0] * WIDTH),
    reply([1.0] * WIDTH, index=1),
    reply([[1.0] * WIDTH] * 2),
    reply("text"),
    reply([1.0] * WIDTH, model=None),
    {"model": MODEL, "data": []},
    {"model": MODEL, "data": reply([1.0] * WIDTH)["data"] * 2},
    {"data": reply([1.0] * WIDTH)["data"]},
]


@pytest.mark.parametrize(
    "trouble",
    [
        *TRANSIENT,
        (200, UNUSABLE[0]),
        *(pytest.param((200, unusable), marks=pytest.mark.thorough) for unusable in UNUSABLE[1:]),
    ],
)
def test_passing_faults_and_unusable_replies_are_retried(opened, trouble):
    failed = []

    def behave(number, request):
        failed.append(number)
        return trouble if len(failed) == 3 else answer(number, request)

    with serve_vectors(behave) as (server, url):
        texts = embed_texts(opened(url, concurrency=1).load())
    assert torch.allclose(texts, expected(SENTENCES), atol=1e-7)
    assert len(sent_items(server)) == len(SENTENCES) + 1


LASTING = [
    ((500, "broken"), "500 .*Run the same command later; answers so far are saved"),
    ((429, "quota"), "429 .*Too many requests"),
    ((200, None), "cannot be reached"),
    ((401, "no"), "refuses the key .401.. Put a valid key into OPENAI_API_KEY"),
    ((404, "no"), f"404 .*Correct model.url or model.id={MODEL}"),
    ((200, "<html>"), "expected one embedding, got .*Correct model.url, model.dialect"),
    ((200, reply([float("inf")] * WIDTH)), "vectors contain NaN or infinity"),
    ((307, "", {"Location": "http://me:hush@elsewhere/v1"}), "redirects to http://me:…@elsewhere/v1 .307."),
    ((200, reply([1.0] * (WIDTH + 1))), f"expected {WIDTH} numbers by {MODEL}, got {WIDTH + 1}"),
    ((200, reply([1.0] * WIDTH, "other")), f"expected {WIDTH} numbers by {MODEL}, got {WIDTH} by other"),
]


@pytest.mark.parametrize(("trouble", "message"), LASTING)
def test_a_server_that_fails_for_all_ends_the_job_with_the_vectors_before(opened, trouble, message, tmp_path):
    items = []

    def behave(number, request):
        if not is_probe(request):
            items.append(request)
        return trouble if len(items) > 4 else answer(number, request)

    with serve_json(behave, PAGES) as (_, url):
        network = opened(url, concurrency=1, retries=0).load()
        with pytest.raises(InputError, match=message) as raised:
            embed_texts(network)
    assert "hush" not in str(raised.value)
    (path,) = tmp_path.glob("*.jsonl")
    assert len(path.read_text().splitlines()) == 2 + 4  # probes, and texts before the fault


@pytest.mark.parametrize(
    ("trouble", "message"),
    [
        ((401, "no"), "refuses the key"),
        ((404, "no"), "404"),
        ((200, "<html>"), "expected one embedding"),
        ((307, "", {"Location": "http://other/v1"}), "redirects to http://other/v1"),
        ((422, "messages: extra field"), "The server refuses messages: set model.dialect=input"),
    ],
)
def test_a_wrong_address_key_or_dialect_ends_before_any_work_at_the_first_request(opened, trouble, message):
    with serve_json(lambda *_: trouble) as (server, url):
        for _ in range(2):
            with pytest.raises(InputError, match=message):
                opened(url, retries=0)
    assert len(server.requests) == 1


def test_no_server_is_reported_with_the_remedy(opened):
    with pytest.raises(InputError, match="cannot be reached .*Start the server, or correct model.url"):
        opened("http://127.0.0.1:9/v1", retries=0)
    for url in ("localhost:8000", "http://127.0.0.1:PORT/v1"):
        with pytest.raises(InputError, match=f"model.url={url}: expected the address of a server"):
            opened(url)


def test_a_model_of_texts_is_refused_before_any_work(opened):
    def behave(number, request):
        return answer(number, request) if isinstance(read_item(request), str) else (400, "0 images allowed")

    message = "embeds a text, but not a picture .400: 0 images allowed.. Choose a multimodal model.id, or"
    with serve_json(behave) as (_, url), pytest.raises(InputError, match=message):
        opened(url)


def test_vectors_of_two_spaces_are_refused(opened):
    def behave(_, request):
        vector = embed(read_item(request))
        return 200, reply(vector if isinstance(read_item(request), str) else vector[1:])

    with (
        serve_json(behave) as (_, url),
        pytest.raises(InputError, match="12 numbers .* and 11 by .* a picture"),
    ):
        opened(url)


def test_a_server_that_reads_the_data_of_a_picture_as_a_text_is_refused(opened):
    def behave(_, request):
        return 200, reply(embed(request["input"][0]))

    message = "reads the data of a picture as a text. Use model.dialect=messages"
    with serve_json(behave) as (_, url), pytest.raises(InputError, match=message):
        opened(url, dialect="input")


def test_weights_that_change_under_the_same_name_are_noticed(opened):
    with serve_vectors() as (_, url):
        embed_texts(opened(url).load())
    served._reports.clear()
    with serve_json(lambda _, request: (200, reply(embed(read_item(request))[::-1])), PAGES) as (server, url):
        with pytest.raises(InputError, match=r"got others under the same name .*model.revision=NAME"):
            opened(url).load()
        embed_texts(opened(url, revision="second").load(), ["a"])
    assert len(sent_items(server)) == 1


def refuses(*texts):
    """Refuse some texts, as a content filter does."""
    return lambda number, request: (
        (400, "too long") if read_item(request) in texts else answer(number, request)
    )


def test_an_item_without_a_vector_does_not_decide_for_others(opened, caplog):
    with serve_vectors(refuses("a", SENTENCES[3])) as (server, url):
        texts = embed_texts(opened(url).load())
        assert torch.isnan(texts).all(dim=1).nonzero().flatten().tolist() == [2, 3]
        rest = [*SENTENCES[:2], *SENTENCES[4:]]
        assert torch.allclose(texts[[0, 1, *range(4, len(SENTENCES))]], expected(rest), atol=1e-7)
        assert "tried: no vector of 'a': 400: too long" in caplog.text
        n_requests = len(server.requests)
        embed_texts(opened(url).load())
    # The others are stored; the refused ones are sent again.
    assert {*sent_items(server)[n_requests - 2 :]} == {Item(text).key for text in ("a", SENTENCES[3])}


def test_the_first_picture_may_be_refused(opened):
    def behave(number, request):
        return (413, "too large") if read_item(request).shape[0] == 20 else answer(number, request)

    with serve_vectors(behave) as (server, url):
        network = opened(url).load()
        assert torch.isnan(embed_pictures(network, PICTURES[:1])).all()
        assert torch.isnan(embed_pictures(network)).any(dim=1).tolist() == [True, False, False, False, False]
    assert len(sent_items(server)) == len(PICTURES)  # the refused picture is not sent again


def test_no_item_is_sent_twice_to_a_second_process(opened, tmp_path):
    with serve_vectors() as (server, url):
        first = opened(url).load()
        embed_texts(first, SENTENCES[:4])
        embed_texts(opened(url).load())
        embed_texts(first, SENTENCES[:5])  # which opened its log before
    assert len({*sent_items(server)}) == len(SENTENCES)
    assert len(sent_items(server)) == len(SENTENCES) + 1


def test_concurrency_is_bounded(opened):
    running, counts, lock = [], [], threading.Lock()
    waiting = threading.Event()

    def behave(number, request):
        with lock:
            running.append(number)
            counts.append(len(running))
        waiting.wait(0.02)
        with lock:
            running.remove(number)
        return answer(number, request)

    with serve_vectors(behave) as (_, url):
        embed_texts(opened(url, concurrency=3).load())
    assert max(counts) == 3


def test_a_slow_server_is_given_up_after_the_timeout(opened):
    ended = threading.Event()
    with serve_vectors(lambda *arguments: (ended.wait(300), answer(*arguments))[1]) as (_, url):
        network = opened(url, timeout=0.2, retries=0, concurrency=1).load()
        vectors = embed_texts(network, ["slow"])  # the probe is answered: it is the text's fault
        ended.set()
    assert torch.isnan(vectors).all()


def test_the_key_comes_from_the_environment_alone(opened, monkeypatch):
    monkeypatch.setenv("MY_KEY", "secret")
    with serve_vectors() as (server, url):
        for key in ("MY_KEY", "", "NOT_SET"):
            server.authorizations.clear()
            embed_texts(opened(url, key=key, revision=key).load(), ["a"])
            assert {*server.authorizations} == {"Bearer secret" if key == "MY_KEY" else None}


@pytest.mark.parametrize(
    "trouble", [(400, "bad hush-1"), (403, "bad hush-1"), (500, "hush-1"), (200, "hush-1")]
)
def test_a_key_that_a_server_repeats_is_not_quoted(opened, monkeypatch, trouble):
    monkeypatch.setenv("MY_KEY", "hush-1")
    with serve_json(lambda *_: trouble) as (_, url), pytest.raises(InputError) as raised:
        opened(url, key="MY_KEY", retries=0)
    assert "hush-1" not in str(raised.value)


def test_a_log_of_another_width_is_refused(opened, tmp_path):
    with serve_vectors() as (_, url):
        opened(url).load()
        (path,) = tmp_path.glob("*.jsonl")
        path.write_text(json.dumps({"key": "a", "answer": pack_vector(np.ones(WIDTH + 1))}) + "\n")
        with pytest.raises(InputError, match="not a log of answers. Delete it, .*model.answers=DIR"):
            opened(url).load()


WORLD = ["faces.per_group=4", "scenes.count=24", "words.count=24", "protocol.k=8", "trainer=cpu"]
WORLD += ["protocol.extremes=5", "protocol.set_size=6", "trainer.workers=0", *FEW_DRAWS]


def run(folder, name, url, *arguments, more=()):
    model = ["model=served", f"model.url={url}", f"model.id={MODEL}", "model.retries=0", "model.max_edge=64"]
    return command(folder / name, *arguments, *model, *WORLD, *more, *store_overrides(folder / "stores"))


def embed_singly(opened, url):
    embed_texts(opened(url, concurrency=1).load())


def test_a_killed_process_loses_only_answers_in_flight(opened):
    def behave(number, request):
        if len(sent_items(server)) == 6:
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            return 200, None
        return answer(number, request)

    with serve_vectors(behave) as (server, url):
        # Not forked: of a process with threads, a fork can wait forever for a lock.
        process = get_context("spawn").Process(target=embed_singly, args=(opened, url))
        process.start()
        process.join(120)
        assert process.exitcode == -signal.SIGKILL
        before = sent_items(server)
        texts = embed_texts(opened(url).load())
        after = sent_items(server)[len(before) :]
    assert torch.allclose(texts, expected(SENTENCES), atol=1e-7)
    # Of those in flight, the first may have arrived.
    assert not {*before[:4]} & {*after}
    assert {*before} | {*after} == {Item(text).key for text in SENTENCES}


@pytest.mark.thorough
def test_a_job_resumes_at_another_address_without_sending_an_item_twice(tmp_path, capsys):
    count = []

    def behave(number, request):
        count.append(number)
        return (401, "expired") if len(count) > 20 else answer(number, request)

    with serve_vectors(behave) as (server, url):
        # Of several requests at a time, answers in flight would be lost.
        assert run(tmp_path, "first", url, "exp=scenes_to_words", "model.concurrency=1").code == 1
        assert "refuses the key" in capsys.readouterr().out
        before = sent_items(server)
    store._last_network.clear()
    with serve_vectors() as (server, url):
        assert run(tmp_path, "second", url, "exp=scenes_to_words").code == 0
        after = sent_items(server)
        assert len(after) == len({*after})
        assert not {*before[:20]} & {*after}
    with serve_vectors() as (server, url):
        assert run(tmp_path, "third", url, "exp=scenes_to_words").code == 0
        assert sent_items(server) == []
    assert "finished already" in capsys.readouterr().out
    analyses = pd.read_csv(tmp_path / "second" / "results" / "analyses.csv")
    assert {*analyses["model"]} == {f"{MODEL}+max_edge=64"}


def test_a_refused_picture_ends_the_job_with_its_name_and_the_number(tmp_path, capsys):
    def behave(number, request):
        is_refused = not isinstance(read_item(request), str) and int(sent_items(server)[-1], 16) % 4 == 0
        return (400, "indecent") if is_refused else answer(number, request)

    with serve_vectors(behave) as (server, url):
        assert run(tmp_path, "out", url, "exp=scenes_to_words", "model.concurrency=1").code == 1
        refused = [key for key in sent_items(server) if int(key, 16) % 4 == 0]
    printed = capsys.readouterr().out
    assert 1 < len(refused) < 12
    assert printed.count("no vector of a picture of 48 x 48 pixels: 400: indecent") == len({*refused})
    assert f"scenes: {len(refused)} of 24 items have no vector of finite numbers: " in printed
    assert printed.count(".png") == min(5, len(refused))


def test_a_plan_sends_a_picture_and_a_text_and_embeds_nothing(tmp_path, capsys):
    with serve_vectors() as (server, url):
        assert run(tmp_path, "out", url, "exp=scenes_to_words", "plan=true").code == 0
    assert len(sent_items(server)) == 2
    printed = capsys.readouterr().out
    assert "1 to do" in printed
    assert not (tmp_path / "stores" / "embeddings" / "scenes").exists()


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
def test_all_experiments_run_and_each_item_is_sent_once(tmp_path):
    more = ["faces.per_group=12", "scenes.count=60", "words.count=60", "protocol.k=20", "protocol.top_k=20"]
    with serve_vectors() as (server, url):
        swept = run(tmp_path, "out", url, "-m", "exp=glob(*)", more=[*more, "protocol.set_size=10"])
    assert swept.code == 0
    experiments = {*swept.analyses()["exp"]}
    assert len([exp for exp in experiments if "_to_" in exp]) == 8
    assert {*AUDITS} <= experiments
    items = sent_items(server)
    assert len(items) == len({*items})
