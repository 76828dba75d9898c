"""Versions of the installed libraries that move numbers."""

from __future__ import annotations

import importlib.metadata
from functools import cache


def versions(*libraries: str) -> dict[str, str]:
    """Name of each distribution -> its version.

    Raises:
        importlib.metadata.PackageNotFoundError: one is not installed.
    """
    return {name: _version(name) for name in libraries}


@cache
def _version(library: str) -> str:
    # Once per process: all that is known of a distribution is parsed to learn it, anew each time.
    return importlib.metadata.version(library)
