"""Log answers as they arrive, so that an interrupted run resumes without repeating a question."""

import json
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from src.errors import InputError

log = logging.getLogger(__name__)


class AnswerLog:
    """A log of answers, with one JSON object per line: `key` and `answer`.

    The key is a hash of all that determines the answer. The file is created if it does not exist, and a
    truncated last line is dropped. Each write is synced to disk, so a killed run loses only answers that had
    not arrived. Threads must not share a log. `is_valid` checks a stored answer.

    Raises:
        InputError: the file cannot be written, or is not such a log.
    """

    def __init__(self, path: Path, is_valid: Callable[[Any], bool] = lambda _: True) -> None:
        self.path, self._is_valid = path, is_valid
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists() and not path.is_file():  # reading a pipe would block
                raise OSError(0, "not a file")
            content = path.read_bytes() if path.exists() else b""
            self._file = path.open("ab")
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}. Use another folder: store.answers=DIR.") from None
        complete, truncated = content[: content.rfind(b"\n") + 1], content[content.rfind(b"\n") + 1 :]
        if truncated:
            log.warning("%s: the last line is truncated; its question will be asked again", path)
            self._file.truncate(len(complete))
        self.known = dict(self._parse(complete))  # key -> answer, for all logged answers
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
                f"{self.path}: not a log of answers. Delete it, or use another folder: store.answers=DIR."
            ) from None

    def append(self, answers: Mapping[str, Any]) -> None:
        """Append answers, by key, and sync them to disk."""
        lines = [json.dumps({"key": key, "answer": answer}) for key, answer in answers.items()]
        self._file.write("".join(f"{line}\n" for line in lines).encode())
        self._file.flush()
        os.fsync(self._file.fileno())
        self.known |= answers

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
