"""One file over HTTP: broken off, changed, wrong, refused."""

import hashlib
import resource
import subprocess
import sys

import numpy as np
import pytest
import requests

from src.errors import InputError
from src.stimuli import download as module
from src.stimuli.download import download
from src.stimuli.replies import acceptable, safe
from tests.paths import CHECKOUT
from tests.stimuli.served import Publisher

CONTENT = np.random.default_rng(0).bytes(1_000_000)
OTHER = np.random.default_rng(1).bytes(1_000_000)
HALF = 500_000
LOST = module.PIECE  # what may be lost of a piece that was cut through


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(module, "PAUSE", 0.0)


@pytest.fixture
def publisher():
    with Publisher({"file.zip": CONTENT}) as served:
        yield served


@pytest.fixture
def target(tmp_path):
    return tmp_path / "file.zip"


def get(publisher, target, size=None, sha256=None, told=lambda done, total: None):
    download(publisher.url("file.zip"), target, size=size, sha256=sha256, told=told)


def digest(content):
    return hashlib.sha256(content).hexdigest()


def left(target):
    return sorted(path.name for path in target.parent.iterdir())


def break_off(publisher, target, after=HALF):
    """What five broken attempts leave."""
    publisher.breaks_after = [after, 0, 0, 0, 0]
    with pytest.raises(InputError, match="bytes are kept: the same command goes on"):
        get(publisher, target)
    assert left(target) == ["file.zip.part", "file.zip.part.json"]
    publisher.asked, publisher.sent = [], 0


def test_a_file_arrives_whole_with_nothing_beside_it(publisher, target):
    seen = []
    get(publisher, target, len(CONTENT), digest(CONTENT), lambda *numbers: seen.append(numbers))
    assert target.read_bytes() == CONTENT
    assert left(target) == ["file.zip"]
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert len(seen) > 5
    assert publisher.encodings == ["identity"]


def test_a_broken_transfer_goes_on_by_itself_with_only_the_rest(publisher, target):
    publisher.breaks_after = [HALF]
    get(publisher, target)
    assert target.read_bytes() == CONTENT
    assert publisher.asked[0] is None
    assert publisher.asked[1].startswith("bytes=4")
    assert len(CONTENT) <= publisher.sent <= len(CONTENT) + LOST


def test_the_next_command_goes_on_with_only_the_rest(publisher, target):
    break_off(publisher, target)
    get(publisher, target, sha256=digest(CONTENT))
    assert target.read_bytes() == CONTENT
    assert HALF <= publisher.sent <= HALF + LOST
    assert left(target) == ["file.zip"]


def test_attempts_are_bounded(publisher, target):
    publisher.statuses = [503] * 100
    with pytest.raises(InputError, match="503"):
        get(publisher, target)
    assert len(publisher.asked) == module.ATTEMPTS
    assert left(target) == []


def test_a_busy_server_is_asked_again(publisher, target):
    publisher.statuses = [503, 429]
    get(publisher, target)
    assert target.read_bytes() == CONTENT


def test_halves_of_two_versions_are_never_spliced(publisher, target):
    break_off(publisher, target)
    publisher.files["file.zip"] = OTHER
    get(publisher, target)
    assert target.read_bytes() == OTHER
    assert len(publisher.asked) == 1
    assert publisher.asked[0].startswith("bytes=")


def test_halves_of_two_addresses_are_never_spliced(publisher, target):
    break_off(publisher, target)
    publisher.files["other.zip"] = OTHER
    download(publisher.url("other.zip"), target, size=None, sha256=None, told=lambda done, total: None)
    assert target.read_bytes() == OTHER
    assert publisher.asked == [None]


def test_a_continuation_that_starts_elsewhere_is_not_appended(publisher, target):
    break_off(publisher, target)
    publisher.shift = 10
    get(publisher, target)
    assert target.read_bytes() == CONTENT


def test_a_rest_in_portions_is_put_together(publisher, target):
    break_off(publisher, target)
    publisher.portion = 200_000
    get(publisher, target)
    assert target.read_bytes() == CONTENT
    assert len(publisher.asked) in (3, 4)


def test_a_body_without_an_end_is_left_once_it_is_too_long(publisher, target):
    publisher.endless = True
    seen = []
    with pytest.raises(InputError, match="bytes: 100000 expected"):
        get(publisher, target, 100_000, None, lambda done, total: seen.append(done))
    assert max(seen) <= 100_000 + module.PIECE
    assert left(target) == []


def test_a_server_that_forgets_if_range_does_not_splice_either(publisher, target, monkeypatch):
    break_off(publisher, target)
    publisher.files["file.zip"] = OTHER
    forgetful = module.requests.get

    def get_without(url, headers, **options):
        return forgetful(url, headers={k: v for k, v in headers.items() if k != "If-Range"}, **options)

    monkeypatch.setattr(module.requests, "get", get_without)
    get(publisher, target)
    assert target.read_bytes() == OTHER


@pytest.mark.parametrize(("field", "value"), [("ranges", False), ("tagged", False), ("weak", True)])
def test_a_server_without_ranges_or_versions_is_asked_from_the_start(publisher, target, field, value):
    setattr(publisher, field, value)
    break_off(publisher, target)
    get(publisher, target)
    assert target.read_bytes() == CONTENT
    assert publisher.sent == len(CONTENT)
    assert field == "ranges" or publisher.asked == [None]


def test_what_the_process_left_whole_is_not_fetched_again(publisher, target):
    break_off(publisher, target)
    (target.parent / "file.zip.part").write_bytes(CONTENT)
    get(publisher, target, sha256=digest(CONTENT))
    assert publisher.asked == []
    assert target.read_bytes() == CONTENT


def test_more_bytes_than_there_are_begin_anew(publisher, target):
    break_off(publisher, target)
    (target.parent / "file.zip.part").write_bytes(CONTENT + b"more")
    publisher.statuses = [416]
    get(publisher, target)
    assert target.read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("size", "sha256", "said"),
    [
        (None, digest(OTHER), f"sha256: {digest(OTHER)} expected, {digest(CONTENT)} found"),
        (999, None, "bytes: 999 expected, 1000000 announced"),
    ],
)
def test_wrong_bytes_never_get_the_name(publisher, target, size, sha256, said):
    with pytest.raises(InputError) as error:
        get(publisher, target, size, sha256)
    assert said in str(error.value)
    assert left(target) == []


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"files": {}}, "404 Not Found"),
        ({"kind": "text/html; charset=utf-8"}, "a page, not the file"),
        ({"headers": {"Content-Encoding": "gzip"}}, "the server sends it packed"),
        ({"redirect": "ftp://127.0.0.1/file.zip"}, "cannot be fetched"),
        ({"redirect": "file:///etc/hostname"}, "cannot be fetched"),
    ],
)
def test_what_is_no_file_is_refused_at_once(publisher, target, fault, said):
    for name, value in fault.items():
        setattr(publisher, name, value)
    with pytest.raises(InputError, match=said):
        get(publisher, target)
    assert len(publisher.asked) == 1
    assert left(target) == []


@pytest.mark.parametrize(
    "hops",
    [
        ["file:///etc/passwd"],
        ["ftp://a/b"],
        ["https://a/b", "http://a/b"],
        ["http://a", "https://a", "data:,x"],
    ],
)
def test_no_address_leads_to_less_safety(hops):
    with pytest.raises(InputError, match="Only http and https"):
        safe(hops)
    safe(["http://a", "https://a"])


def test_every_hop_of_a_reply_is_looked_at():
    reply, hop = requests.Response(), requests.Response()
    reply.url, hop.url = "https://a/file", "http://a/file"
    reply.status_code, reply.history = 200, [hop]
    with pytest.raises(InputError, match="leads to http://a/file"):
        acceptable("https://a/file", reply)
    reply.history = []
    acceptable("https://a/file", reply)


def test_a_full_disk_keeps_what_came(publisher, target):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (HALF, hard))
    try:
        with pytest.raises(InputError, match="cannot be written .* the same command goes on"):
            get(publisher, target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    publisher.sent = 0
    get(publisher, target)
    assert target.read_bytes() == CONTENT
    assert publisher.sent <= HALF + LOST


def test_a_killed_process_leaves_no_half_file_and_the_next_goes_on(publisher, target):
    code = f"""
import os
from pathlib import Path
from src.stimuli.download import download
def told(done, total):
    if done > {HALF}:
        os.kill(os.getpid(), 9)
download({publisher.url("file.zip")!r}, Path({str(target)!r}), size=None, sha256=None, told=told)
"""
    killed = subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, timeout=500, check=False)
    assert killed.returncode == -9
    assert not target.exists()
    publisher.asked = []
    get(publisher, target)
    assert target.read_bytes() == CONTENT
    assert publisher.asked[0] is not None
