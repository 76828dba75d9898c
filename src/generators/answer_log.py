"""Answers as they come: a log that a broken run takes up again, so that nothing is asked twice."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from src.errors import InputError

log = logging.getLogger(__name__)


class Kept:
    """A file of one JSON object a line: `key`, of all that decides an answer, and `answer`.

    Lines are written whole and synced: what a run that is killed loses is what it had not answered yet. A
    last line that was cut off is passed over. Threads must not share it.

    Args:
        path: of the file; made, with its folder, when absent.
        fits: whether something can be an answer here.

    Raises:
        InputError: it cannot be written, or holds something else.
    """

    def __init__(self, path: Path, fits: Callable[[Any], bool] = lambda _: True) -> None:
        self.path, self._fits = path, fits
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists() and not path.is_file():  # a pipe would be waited for
                raise OSError(0, "not a file")
            before = path.read_bytes() if path.exists() else b""
            self._file = path.open("ab")
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}. Name another folder: store.answers=DIR.") from None
        whole, cut = before[: before.rfind(b"\n") + 1], before[before.rfind(b"\n") + 1 :]
        if cut:
            log.warning("%s: its last line was cut off; that answer is asked for again", path)
            self._file.truncate(len(whole))
        self.known = dict(self._lines(whole))
        if self.known:
            log.info("%s: %d answers are there already", path, len(self.known))

    def _lines(self, content: bytes) -> list[tuple[str, Any]]:
        try:
            lines = [json.loads(line) for line in content.splitlines()]
            if not all(isinstance(line["key"], str) and self._fits(line["answer"]) for line in lines):
                raise ValueError("no answer of this kind")
            return [(line["key"], line["answer"]) for line in lines]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise InputError(
                f"{self.path}: not a log of answers. Delete it, or name another folder: store.answers=DIR."
            ) from None

    def keep(self, answers: Mapping[str, Any]) -> None:
        """Write answers, by their keys, before anything else is asked."""
        lines = [json.dumps({"key": key, "answer": answer}) for key, answer in answers.items()]
        self._file.write("".join(f"{line}\n" for line in lines).encode())
        self._file.flush()
        os.fsync(self._file.fileno())
        self.known |= answers

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
