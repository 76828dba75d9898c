"""The one error that a user's input can cause, how an entry answers it, and what no text may hold."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

INTERRUPTED = "Interrupted: what is finished is kept; the same command goes on."
# Before the host of an address.
PASSWORD = re.compile(r"(://[^/:@\s]*:)[^/@\s]+@")


class InputError(Exception):
    """Something that the user gave cannot be used: what was found, where, and what to do.

    Entry points print its message without a traceback and exit with status 1.
    """


class NotApplicable(InputError):
    """An experiment that this dataset or model cannot serve.

    Named by itself it is an error like any other; inside a glob it is listed with its reason.
    """


def concealed(text: str) -> str:
    """A text without the passwords of the addresses in it.

    >>> concealed("tracking.uri=https://me:secret@host")
    'tracking.uri=https://me:…@host'
    """
    return PASSWORD.sub(r"\1…@", text)


def refuse_secrets(text: str) -> None:
    """See that an address, or an override that holds one, has no password in it.

    Raises:
        InputError: it has.
    """
    if PASSWORD.search(text):
        raise InputError(
            f"{concealed(text)}: holds a password, which would be written into configs and logs. Leave it "
            "out of the address; a tracking server's goes into MLFLOW_TRACKING_USERNAME and "
            "MLFLOW_TRACKING_PASSWORD."
        )


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
