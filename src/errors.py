"""Errors caused by a user's input, and how an entry reports them, prints, and ends on signals."""

from __future__ import annotations

import difflib
import errno
import io
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

# What stands before the @ of an address: a password (SQLAlchemy takes one with slashes), or a token. A sweep
# may name several addresses.
SECRET = re.compile(
    r"(?P<before>://[^/:@\s]*:|://)(?P<secret>(?<=:)(?:(?!,['\"]?[\w+.-]*://)\S)+|[^/:@\s]+)(?=@)"
)
INTERRUPTED = "Interrupted: what is finished is kept; the same command goes on."


# Letters of a message: what a file holds in place of a name may be as long as the file.
LONGEST = 4000


class InputError(Exception):
    """Something that the user gave cannot be used: what was found, where, and what to do.

    Entry points print its message without a traceback and exit with status 1. Of one that is too long to be
    read both ends are left: the place, and the remedy.
    """

    def __init__(self, message: str) -> None:
        cut = LONGEST // 2 - 1
        super().__init__(message if len(message) <= LONGEST else f"{message[:cut]}…{message[-cut:]}")


class NotApplicable(InputError):
    """An experiment that this dataset or model cannot serve.

    Named by itself it is an error like any other; inside a glob it is listed with its reason.
    """


def brief(given: object, longest: int = 200) -> str:
    r"""What a user gave as it stands in a message: cut where it is long, control characters written out.

    >>> brief("a\n" + "b" * 300, 5), brief(None)
    ('a\\nbb…', 'None')
    """
    shown = "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in str(given)[: longest + 1])
    return shown if len(shown) <= longest else shown[:longest] + "…"


def masked(text: str) -> str:
    """A text whose addresses tell nobody's password, nor a token in its place.

    >>> masked("tracking.uri=https://me:p@ss@host/x"), masked("https://token@host"), masked("sqlite:///a@b")
    ('tracking.uri=https://me:…@host/x', 'https://…@host', 'sqlite:///a@b')
    """
    return SECRET.sub(r"\g<before>…", text)


GOES_ON = "Make room, or wait until no other process holds the database; the same command goes on."
# What a disk that is full, or may only be read, answers.
REFUSED = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
# The same of libraries that have no number for it.
SAID = (
    *("No space left", "disk is full", "File too large", "Read-only file system", "readonly database"),
    *("database is locked", "disk I/O error"),
)


def refused(error: BaseException) -> str:
    """What a disk or a database refused, as an error or one that led to it says; empty where none did."""
    seen: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in seen:
        seen.append(link)
        if isinstance(link, OSError) and link.errno in REFUSED:
            return f"{link.filename}: {link.strerror}" if link.filename else str(link.strerror)
        said = next((said for said in SAID if said in str(link)), "")
        if said:
            return said
        link = link.__cause__ or link.__context__
    return ""


def key_values(arguments: Sequence[str], defaults: Mapping[str, str]) -> dict[str, str]:
    """Return `key=value` arguments of an entry upon their defaults.

    Raises:
        InputError: an argument is no `key=value`, or its key is unknown, given twice or empty.
    """
    values: dict[str, str] = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals or key not in defaults:
            near = difflib.get_close_matches(key, defaults, n=1)
            hint = f" Did you mean {near[0]}=?" if near and near[0] != key else ""
            known = ", ".join(f"{name}=" for name in defaults)
            raise InputError(f"{argument}: not understood.{hint} There is {known}; --help explains them.")
        if key in values or not value.strip():
            problem = "given twice" if key in values else "empty"
            raise InputError(f"{argument}: {problem}. Say {key}= once, or not.")
        values[key] = value
    return {**defaults, **values}


def replace_unprintable() -> None:
    """Have stdout and stderr write `?` for a character that their encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        # Others, as a notebook's, print every character.
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="replace")


def answered(entry: Callable[[], int]) -> int:
    """Exit status of an entry: its own, 1 with the message of an `InputError`, 130 after Ctrl-C."""
    try:
        return entry()
    except InputError as error:
        print(error, file=sys.stderr)
        return 1
    except (KeyboardInterrupt, SystemExit) as stop:
        if not interrupted(stop):
            raise
        print(INTERRUPTED, file=sys.stderr)
        return 130


def interrupted(stop: BaseException) -> bool:
    """Whether somebody pressed Ctrl-C: Lightning answers that with an exit of its own."""
    return isinstance(stop, KeyboardInterrupt) or isinstance(stop.__context__, KeyboardInterrupt)


# Signals that came to end this process.
_stop_signals: list[int] = []


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGTERM as on Ctrl-C, and remember both; restore the handlers afterwards."""
    _stop_signals.clear()

    def stop(number: int, _: object) -> None:
        _stop_signals.append(number)
        raise KeyboardInterrupt

    numbers = [signal.SIGTERM]
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # a shell's background job ignores it
        numbers.append(signal.SIGINT)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def raise_pending_interrupt() -> None:
    """Re-raise an interrupt that a library swallowed, or took for an error of its own.

    Raises:
        KeyboardInterrupt: a signal came since `stoppable` began.
    """
    if _stop_signals:
        raise KeyboardInterrupt


def interrupted_status() -> int:
    """Return the exit status of a process that a signal ended, and print what to do next."""
    print(INTERRUPTED, file=sys.stderr)
    return 128 + int((_stop_signals or [signal.SIGINT])[0])
