"""The one error that a user's input can cause."""

from __future__ import annotations


class InputError(Exception):
    """Something that the user gave cannot be used: what was found, where, and what to do.

    Entry points print its message without a traceback and exit with status 1.
    """


class NotApplicable(InputError):
    """An experiment that this dataset or model cannot serve.

    Named by itself it is an error like any other; inside a glob it is listed with its reason.
    """
