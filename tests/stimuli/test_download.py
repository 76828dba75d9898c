"""One file over HTTP: broken off, slow, wrong, refused."""

import hashlib
import os
import resource
import subprocess
import sys
import time

import numpy as np
import pytest
import requests

from src.errors import InputError
from src.stimuli import download as module
from src.stimuli.download import _Transfer, check_address, download
from tests.paths import CHECKOUT
from tests.stimuli.served import Publisher

CONTENT = np.random.default_rng(0).bytes(1_000_000)
OTHER = np.random.default_rng(1).bytes(1_000_000)
HALF = 500_000
ANY_SIZE = (0, 10_000_000)


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda _: None)


@pytest.fixture
def publisher():
    with Publisher({"file.zip": CONTENT}) as served:
        yield served


@pytest.fixture
def target(tmp_path):
    return tmp_path / "file.zip"


def get(publisher, target, sizes=ANY_SIZE, sha256=None, progress=lambda completed, total: None):
    download(publisher.url("file.zip"), target, sizes, sha256, progress)


def digest(content):
    return hashlib.sha256(content).hexdigest()


def left(target):
    return sorted(path.name for path in target.parent.iterdir())


def test_a_file_arrives_whole_with_nothing_beside_it(publisher, target, capfd):
    seen = []
    size = len(CONTENT)
    get(publisher, target, (size, size), digest(CONTENT), lambda **numbers: seen.append(numbers))
    assert target.read_bytes() == CONTENT
    assert left(target) == ["file.zip"]
    assert seen[-1] == {"completed": size, "total": size}
    assert len(seen) > 5
    assert publisher.encodings == ["identity"]
    assert capfd.readouterr() == ("", "")


def test_others_may_read_it_as_any_new_file(publisher, target):
    get(publisher, target)
    (target.parent / "new").write_bytes(b"")
    assert target.stat().st_mode == (target.parent / "new").stat().st_mode


def test_a_broken_transfer_is_begun_anew_by_itself(publisher, target):
    publisher.breaks_after = [HALF, 0]
    get(publisher, target)
    assert target.read_bytes() == CONTENT
    assert publisher.asked == 3


@pytest.mark.parametrize("fault", [{"statuses": [503] * 100}, {"breaks_after": [HALF] * 100}])
def test_attempts_are_bounded_and_leave_nothing(publisher, target, fault):
    for name, value in fault.items():
        setattr(publisher, name, value)
    with pytest.raises(InputError, match=r"cannot be fetched \(.*; 5 attempts\). Try again later"):
        get(publisher, target)
    assert publisher.asked == module.RETRIES + 1
    assert left(target) == []


def test_a_busy_server_is_asked_again(publisher, target):
    publisher.statuses = [503, 429]
    get(publisher, target)
    assert target.read_bytes() == CONTENT


def test_a_server_that_says_nothing_more_is_given_up(publisher, target, monkeypatch):
    monkeypatch.setattr(module, "TIMEOUT", (10, 0.2))
    publisher.silent.clear()
    with pytest.raises(InputError, match=r"cannot be fetched \(.*timed out"):
        get(publisher, target)
    publisher.silent.set()
    assert left(target) == []


def test_a_server_that_is_not_there_is_named_without_its_password(target):
    with pytest.raises(InputError, match=r"^http://me:…@127.0.0.1:1/a: cannot be fetched") as error:
        download("http://me:hush@127.0.0.1:1/a", target, ANY_SIZE, None, lambda completed, total: None)
    assert "hush" not in str(error.value)


@pytest.mark.parametrize(
    ("sizes", "said"),
    [((100_000, 100_000), "bytes: 100000 expected"), ((0, 100_000), "bytes: at most 100000 expected")],
)
def test_a_body_without_an_end_is_left_once_it_is_too_long(publisher, target, sizes, said):
    publisher.endless = True
    seen = []
    with pytest.raises(InputError, match=said):
        get(publisher, target, sizes, None, lambda completed, total: seen.append(completed))
    assert max(seen) <= 100_000
    assert publisher.asked == 1
    assert left(target) == []


@pytest.mark.parametrize("endless", [False, True])
def test_too_few_bytes_are_refused_once(publisher, target, endless):
    publisher.endless = endless
    with pytest.raises(InputError, match="bytes: 2000000 expected, 1000000"):
        get(publisher, target, (2_000_000, 2_000_000))
    assert publisher.asked == 1
    assert left(target) == []


@pytest.mark.parametrize(
    ("sizes", "sha256", "said"),
    [
        (ANY_SIZE, digest(OTHER), f"expected {digest(OTHER)} but got {digest(CONTENT)}"),
        ((999, 999), None, "bytes: 999 expected, 1000000 announced"),
        ((0, 999), None, "bytes: at most 999 expected, 1000000 announced"),
    ],
)
def test_wrong_bytes_never_get_the_name(publisher, target, sizes, sha256, said):
    with pytest.raises(InputError, match="the publisher has changed the file") as error:
        get(publisher, target, sizes, sha256)
    assert said in str(error.value)
    assert publisher.url("file.zip") in str(error.value)
    assert left(target) == []


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"files": {}}, "404 Not Found"),
        ({"kind": "text/html; charset=utf-8"}, "a page, not the file"),
        ({"headers": {"Content-Encoding": "gzip"}}, "the server sends it packed"),
    ],
)
def test_what_is_no_file_is_refused_at_once(publisher, target, fault, said):
    for name, value in fault.items():
        setattr(publisher, name, value)
    with pytest.raises(InputError, match=said):
        get(publisher, target)
    assert publisher.asked == 1
    assert left(target) == []


@pytest.mark.parametrize("redirect", ["ftp://127.0.0.1/file.zip", "file:///etc/hostname"])
def test_no_redirection_leads_away_from_http(publisher, target, redirect):
    publisher.redirect = redirect
    with pytest.raises(InputError, match=f"leads to {redirect}. Only http and https"):
        get(publisher, target)
    assert publisher.asked == 1
    assert left(target) == []


def test_a_redirection_is_followed(publisher, target):
    publisher.redirect = "/file.zip"
    publisher.redirections = 1
    get(publisher, target)
    assert target.read_bytes() == CONTENT
    assert publisher.asked == 2


@pytest.mark.parametrize(
    ("url", "hop"),
    [
        ("file:///etc/passwd", "file:///etc/passwd"),
        ("ftp://a/b", "ftp://a/b"),
        ("https://a/b", "http://a/b"),
        ("http://a", "data:,x"),
    ],
)
def test_no_address_leads_to_less_safety(url, hop):
    with pytest.raises(InputError, match="Only http and https"):
        check_address(url, hop)
    check_address("http://a", "https://a")


def test_every_hop_is_looked_at_before_it_is_asked():
    transfer = _Transfer("https://a/file", ANY_SIZE, print)
    hop = requests.Response()
    hop.url, hop.status_code = "https://b/file", 302
    hop.headers["Location"] = "http://a/file"
    with pytest.raises(InputError, match="https://a/file: leads to http://a/file"):
        transfer.check(hop)
    hop.headers["Location"] = "/other"
    transfer.check(hop)


def test_a_full_disk_leaves_nothing(publisher, target):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (HALF, hard))
    try:
        with pytest.raises(InputError, match="cannot be written .* run the same command again"):
            get(publisher, target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert left(target) == []
    get(publisher, target)
    assert target.read_bytes() == CONTENT


def test_a_killed_process_leaves_no_half_file_and_the_next_clears_up(publisher, target):
    code = f"""
import os
from pathlib import Path
from src.stimuli.download import download
def progress(completed, total):
    if completed > {HALF}:
        os.kill(os.getpid(), 9)
download({publisher.url("file.zip")!r}, Path({str(target)!r}), {ANY_SIZE!r}, None, progress)
"""
    killed = subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, timeout=500, check=False)
    assert killed.returncode == -9
    assert not target.exists()
    assert sum(len(files) for _, _, files in os.walk(target.parent)) == 1
    get(publisher, target)
    assert target.read_bytes() == CONTENT
    assert left(target) == ["file.zip"]
