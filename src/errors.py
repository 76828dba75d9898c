"""Report errors in a user's input, adapt output streams, and handle signals of entry points."""

import difflib
import errno
import io
import itertools
import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

# Password (which may contain slashes in SQLAlchemy's addresses) or token before the @ of an address. The text
# may contain several addresses, as an override with a sweep does.
SECRET = re.compile(
    r"(?P<before>://[^/:@\s{]*:|://)(?P<secret>(?<=:)(?:(?!,['\"]?[\w+.-]*://)\S)+|[^/:@\s]+)(?=@)"
)
INTERRUPTED = "Interrupted. Finished jobs are saved; run the same command again to resume."
# Maximum number of characters of a message, as it may quote arbitrarily long content of a file.
MAX_MESSAGE = 4000


class InputError(Exception):
    """Error in the user's input; its message gives the problem, the place and the remedy.

    Entry points print the message without a traceback and exit with status 1. A long message is shortened in
    the middle, as its start and end contain the place and the remedy.
    """

    def __init__(self, message: str) -> None:
        cut = MAX_MESSAGE // 2 - 1
        super().__init__(message if len(message) <= MAX_MESSAGE else f"{message[:cut]}…{message[-cut:]}")


class NotApplicable(InputError):
    """Error of an experiment that the dataset or model does not support.

    Its job fails; if the command selects experiments, tasks, protocols or perturbations by a glob, the job is
    listed as skipped.
    """


def brief(value: object, max_length: int = 200) -> str:
    r"""Format a value for a message: shorten long text, and escape control characters.

    >>> brief("a\n" + "b" * 300, 5), brief(None)
    ('a\\nbb…', 'None')
    """
    text = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in str(value)[: max_length + 1])
    return text if len(text) <= max_length else text[:max_length] + "…"


def first_few(names: Iterable[object], count: int = 5) -> str:
    """Format the first of many names for a message.

    >>> first_few("abc", 2)
    'a, b, …'
    """
    first = [brief(name) for name in itertools.islice(names, count + 1)]
    return ", ".join(first[:count] + ["…"] * (len(first) > count))


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return a question that suggests the nearest known name; empty if none is near.

    >>> did_you_mean("fases", ["faces", "words"])
    " Did you mean 'faces'?"
    """
    # The search time is quadratic in the length of the name.
    matches = difflib.get_close_matches(str(name)[:100], known, n=1)
    return f" Did you mean {matches[0]!r}?" if matches else ""


def redact(text: str) -> str:
    """Mask passwords and tokens in the addresses of a text.

    >>> redact("tracking.uri=https://me:p@ss@host/x"), redact("https://token@host"), redact("sqlite:///a@b")
    ('tracking.uri=https://me:…@host/x', 'https://…@host', 'sqlite:///a@b')
    """
    return SECRET.sub(r"\g<before>…", text)


RESUME_HINT = (
    "Free disk space, make the folder writable, or wait until no process locks the database; then run the "
    "same command again."
)
# Error numbers of a full or read-only disk.
WRITE_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
# Phrases by which libraries report a full, read-only or locked disk or database without an error number.
WRITE_PHRASES = (
    *("No space left", "disk is full", "File too large", "Read-only file system", "readonly database"),
    *("database is locked", "disk I/O error"),
)


# Error numbers of a file or folder without permission, or of a name that is too long for a file.
ACCESS_ERRNOS = (errno.EACCES, errno.EPERM, errno.ENAMETOOLONG)


def describe_access(error: BaseException) -> str:
    """Return a message about a file or folder that may not be used; empty for other errors."""
    if isinstance(error, OSError) and error.errno in ACCESS_ERRNOS and error.filename:
        name = brief(str(error.filename))
        return f"{name}: cannot be used ({error.strerror}). Change its permissions, or name another one."
    return ""


def describe_memory(error: BaseException) -> str:
    """Return a message about memory that ran out; empty for other errors."""
    text = str(error)
    if isinstance(error, MemoryError) or "out of memory" in text or "can't allocate memory" in text:
        return (
            f"memory ran out ({brief(text) or type(error).__name__}). Lower model.batch_size "
            "(llm.batch_size), the number of stimuli or of the protocol's draws, or use a machine with more "
            "memory (plan=true estimates it)."
        )
    return ""


def write_refusal(error: BaseException) -> str:
    """Return why a disk or database refused a write, from an error or its causes; empty for other errors."""
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in causes:
        causes.append(cause)
        if isinstance(cause, OSError) and cause.errno in WRITE_ERRNOS:
            return f"{cause.filename}: {cause.strerror}" if cause.filename else str(cause.strerror)
        phrase = next((phrase for phrase in WRITE_PHRASES if phrase in str(cause)), "")
        if phrase:
            return phrase
        cause = cause.__cause__ or cause.__context__
    return ""


def parse_key_values(arguments: Sequence[str], defaults: Mapping[str, str]) -> dict[str, str]:
    """Parse `key=value` arguments of an entry point over their defaults.

    Raises:
        InputError: an argument is not `key=value`, its key is unknown or repeated, or its value is empty.
    """
    values: dict[str, str] = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals or key not in defaults:
            near = difflib.get_close_matches(key, defaults, n=1)
            hint = f" Did you mean {near[0]}=?" if near and near[0] != key else ""
            known = ", ".join(f"{name}=" for name in defaults)
            raise InputError(f"{redact(argument)}: not understood.{hint} Use one of {known} (see --help).")
        if key in values or not value.strip():
            problem = "given twice" if key in values else "empty"
            raise InputError(f"{redact(argument)}: {problem}. Set {key}= once, or leave it out.")
        values[key] = value
    return {**defaults, **values}


def replace_unprintable() -> None:
    """Make stdout and stderr write `?` for characters that their encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        # Other streams, such as a notebook's, print every character.
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="replace")


def run_entry(entry: Callable[[], int]) -> int:
    """Run an entry point and return its exit status: 1 after a user's mistake, 130 after Ctrl-C."""
    try:
        return entry()
    except InputError as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        if not (message := describe_access(error)):
            raise
        print(message, file=sys.stderr)
        return 1
    except (KeyboardInterrupt, SystemExit) as stop:
        if not is_interrupt(stop):
            raise
        print(INTERRUPTED, file=sys.stderr)
        return 130


def is_interrupt(error: BaseException) -> bool:
    """Return whether Ctrl-C caused an exception; Lightning turns it into a `SystemExit`."""
    return isinstance(error, KeyboardInterrupt) or isinstance(error.__context__, KeyboardInterrupt)


# Signals to stop that this process has received.
_stop_signals: list[int] = []


@contextmanager
def interrupt_on_signals() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGTERM and Ctrl-C, and record the signal; restore the handlers on exit."""
    _stop_signals.clear()

    def stop(number: int, _: object) -> None:
        _stop_signals.append(number)
        raise KeyboardInterrupt

    signals = [signal.SIGTERM]
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # background jobs of a shell ignore it
        signals.append(signal.SIGINT)
    previous_handlers = {number: signal.signal(number, stop) for number in signals}
    try:
        yield
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)


def raise_if_interrupted() -> None:
    """Raise an interrupt if a stop signal has arrived since `interrupt_on_signals` began.

    The handler's own exception may have been lost: a library may swallow it or turn it into another error.

    Raises:
        KeyboardInterrupt: a signal has arrived.
    """
    if _stop_signals:
        raise KeyboardInterrupt


def report_interrupt() -> int:
    """Print how to resume, and return the exit status of a process ended by a signal."""
    print(INTERRUPTED, file=sys.stderr)
    return 128 + int((_stop_signals or [signal.SIGINT])[0])
