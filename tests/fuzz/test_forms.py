"""What is no file where one is looked for: nothing waits for a pipe, or ends in a traceback."""

import os
import signal
import socket
from pathlib import Path

import pytest

from tests.fuzz.harness import REFUSED, TABLE, answered
from tests.fuzz.parsers import PARSERS

# Files that the tests themselves read.
OURS = ("names", "answer.txt", "reply.json")


def missing(path):
    """Nothing."""


def folder(path):
    path.mkdir()
    (path / "in it").touch()


def pipe(path):
    os.mkfifo(path)


def listening(path):
    at = Path.cwd()
    os.chdir(path.parent)  # the name of a socket holds 108 bytes
    socket.socket(socket.AF_UNIX).bind(path.name)
    os.chdir(at)


def dangling(path):
    path.symlink_to("nowhere")


def itself(path):
    path.symlink_to(path)


def device(path):
    path.symlink_to("/dev/zero")


def empty(path):
    path.write_bytes(b"")


@pytest.fixture
def patience():
    """A parser that waits is woken, and fails."""

    class Waited(BaseException):
        """No error of the system, which a parser may take for one of the file's."""

    def woken(*_):
        raise Waited("it waits for what never comes")

    before = signal.signal(signal.SIGALRM, woken)
    signal.alarm(300)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


FORMS = (missing, folder, pipe, listening, dangling, itself, device, empty)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_what_is_no_file_is_refused(tmp_path, form, patience):
    for parser in PARSERS:
        if parser.file in OURS:
            continue
        place = tmp_path / parser.name.replace("/", "_")
        place.mkdir()
        parser.draw(place)
        (place / parser.file).unlink()
        form(place / parser.file)
        assert answered(parser, place, patient=True) in (TABLE, REFUSED), parser.name


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_a_folder_may_be_called_anything(tmp_path, parser):
    place = tmp_path / "é ' \"\n{word} ${x} %s [a]"
    place.mkdir()
    parser.draw(place)
    assert answered(parser, place, patient=True) == TABLE
