"""Check that logged answers survive a killed process, and that other files are left unchanged."""

import errno
import fcntl
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread

import pytest

from src.errors import InputError
from src.storage.answer_log import AnswerLog


def test_a_truncated_line_is_dropped(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    path = tmp_path / "log.jsonl"
    with AnswerLog(path) as answers:
        answers.append({"a": 1, "b": 2})
    path.write_bytes(path.read_bytes()[:-5])
    with AnswerLog(path) as answers:
        assert answers.known == {"a": 1}
        answers.append({"b": 3})
    assert "is truncated" in caplog.text
    with AnswerLog(path) as answers:
        assert answers.known == {"a": 1, "b": 3}


@pytest.mark.parametrize("content", ["not json\n", '{"key": "a"}\n', "[1]\n"])
def test_a_file_that_is_no_log_is_left_unchanged(tmp_path, content):
    path = tmp_path / "log.jsonl"
    path.write_text(content)
    with pytest.raises(InputError, match="not a log of answers"):
        AnswerLog(path)
    assert path.read_text() == content


def test_a_killed_process_loses_no_stored_answer(tmp_path):
    path = tmp_path / "log.jsonl"
    code = (
        "import sys, pathlib; from src.storage.answer_log import AnswerLog\n"
        "kept = AnswerLog(pathlib.Path(sys.argv[1]))\n"
        "for number in range(10**6): kept.append({str(number): number}); print(number, flush=True)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        while int(process.stdout.readline()) < 20:
            time.sleep(0)
        os.kill(process.pid, signal.SIGKILL)
        last = [int(line) for line in process.stdout.read().splitlines() if line][-1:] or [20]
    with AnswerLog(path) as answers:
        assert set(range(last[0] + 1)) <= {*answers.known.values()}


def test_a_process_waits_until_another_has_written_its_line(tmp_path):
    path = tmp_path / "log.jsonl"
    with AnswerLog(path) as answers, path.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        other.write(b'{"key": "a", ')
        other.flush()
        threads = [Thread(target=answers.append, args=({"b": 2},)), Thread(target=AnswerLog, args=(path,))]
        for thread in threads:
            thread.start()
            thread.join(0.2)
        assert all(thread.is_alive() for thread in threads)
        other.write(b'"answer": 1}\n')
        other.close()  # and unlocks it
        for thread in threads:
            thread.join(10)
    with AnswerLog(path) as answers:
        assert answers.known == {"a": 1, "b": 2}


def test_a_file_system_without_locks_can_hold_a_log(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with AnswerLog(tmp_path / "log.jsonl") as answers:
        answers.append({"a": 1})
    with AnswerLog(tmp_path / "log.jsonl") as answers:
        assert answers.known == {"a": 1}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device imitates a full disk")
def test_a_full_disk_is_named_with_its_setting(tmp_path):
    path = tmp_path / "log.jsonl"
    message = r"log\.jsonl: No space left on device\..* store\.answers=DIR"
    with AnswerLog(path) as answers:
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, answers._file.fileno())
        os.close(full)
        with pytest.raises(InputError, match=message):
            answers.append({"a": 1})
    assert answers.known == {}
