"""Answers survive what kills a run."""

import logging
import os
import signal
import subprocess
import sys
import time

import pytest

from src.errors import InputError
from src.generators.answer_log import Kept


def test_what_is_kept_is_known_again(tmp_path):
    path = tmp_path / "folder" / "log.jsonl"
    with Kept(path) as kept:
        kept.keep({"a": "an answer\nof two lines", "b": [[1.5, 2]]})
        kept.keep({"c": "中文"})
        assert set(kept.known) == {"a", "b", "c"}
    with Kept(path) as kept:
        assert kept.known == {"a": "an answer\nof two lines", "b": [[1.5, 2]], "c": "中文"}


def test_a_line_that_was_cut_off_is_asked_for_again(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    path = tmp_path / "log.jsonl"
    with Kept(path) as kept:
        kept.keep({"a": 1, "b": 2})
    path.write_bytes(path.read_bytes()[:-5])
    with Kept(path) as kept:
        assert kept.known == {"a": 1}
        kept.keep({"b": 3})
    assert "was cut off" in caplog.text
    with Kept(path) as kept:
        assert kept.known == {"a": 1, "b": 3}


@pytest.mark.parametrize("content", ["not json\n", '{"key": "a"}\n', "[1]\n"])
def test_something_else_is_left_alone(tmp_path, content):
    path = tmp_path / "log.jsonl"
    path.write_text(content)
    with pytest.raises(InputError, match="not a log of answers"):
        Kept(path)
    assert path.read_text() == content


def test_a_folder_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"store\.answers=DIR"):
        Kept(tmp_path / "file" / "log.jsonl")


def test_a_process_that_is_killed_loses_nothing_that_was_kept(tmp_path):
    path = tmp_path / "log.jsonl"
    code = (
        "import sys, pathlib; from src.generators.answer_log import Kept\n"
        "kept = Kept(pathlib.Path(sys.argv[1]))\n"
        "for number in range(10**6): kept.keep({str(number): number}); print(number, flush=True)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        while int(process.stdout.readline()) < 20:
            time.sleep(0)
        os.kill(process.pid, signal.SIGKILL)
        last = [int(line) for line in process.stdout.read().splitlines() if line][-1:] or [20]
    with Kept(path) as kept:
        assert set(range(last[0])) <= {*kept.known.values()}
