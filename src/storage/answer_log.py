"""Log answers as they arrive, so that an interrupted run resumes without repeating a question."""

import fcntl
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Self

from src.errors import InputError

log = logging.getLogger(__name__)


class AnswerLog:
    """A log of answers, with one JSON object per line: `key` and `answer`.

    The key is a hash of all that determines the answer. The file is created if it does not exist, and a
    truncated last line is dropped. Each write is synced to disk, so a killed run loses only answers that had
    not arrived. Processes may share a file, each with a log of its own; threads must not share a log.
    `is_valid` checks a stored answer; `setting` names the setting of the folder, for messages.

    Raises:
        InputError: the file cannot be written, or is not such a log.
    """

    def __init__(
        self, path: Path, is_valid: Callable[[Any], bool] = lambda _: True, setting: str = "store.answers"
    ) -> None:
        self.path, self._is_valid, self._setting = path, is_valid, setting
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists() and not path.is_file():  # reading a pipe would block
                raise OSError(0, "not a file")
            self._file = path.open("ab")
            with _lock(self._file):
                content = path.read_bytes()
                end = content.rfind(b"\n") + 1
                if content[end:]:
                    log.warning("%s: the last line is truncated; its question will be asked again", path)
                    self._file.truncate(end)
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}. Use another folder: {setting}=DIR.") from None
        self.known = dict(self._parse(content[:end]))  # key -> answer, for all logged answers
        if self.known:
            log.info("%s: %d answers are already stored", path, len(self.known))

    def _parse(self, content: bytes) -> list[tuple[str, Any]]:
        try:
            lines = [json.loads(line) for line in content.splitlines()]
            if not all(isinstance(line["key"], str) and self._is_valid(line["answer"]) for line in lines):
                raise ValueError("invalid answer")
            return [(line["key"], line["answer"]) for line in lines]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise InputError(
                f"{self.path}: not a log of answers. Delete it, or use another folder: {self._setting}=DIR."
            ) from None

    def append(self, answers: Mapping[str, Any]) -> None:
        """Append answers, by key, and sync them to disk; raise `InputError` if they cannot be written."""
        lines = [json.dumps({"key": key, "answer": answer}) for key, answer in answers.items()]
        try:
            with _lock(self._file):
                self._file.write("".join(f"{line}\n" for line in lines).encode())
                self._file.flush()
                os.fsync(self._file.fileno())
        except OSError as error:
            raise InputError(
                f"{self.path}: {error.strerror}. Free disk space, or use another folder: {self._setting}=DIR."
            ) from None
        self.known |= answers

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # a write that fails again: `append` has raised its error
            self._file.close()


@contextmanager
def _lock(file: IO[bytes]) -> Iterator[None]:
    """Lock a file, so that no other process reads or writes it meanwhile.

    Some network file systems have no locks: there, only one process can use a log safely.
    """
    with suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_UN)
