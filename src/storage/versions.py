"""Versions of what decides numbers: of this project's own parts, and of installed libraries."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

DECLARED = Path(__file__).parents[1] / "versions.yaml"


def declared(*parts: str) -> dict[str, int]:
    """Return the declared version of parts of this project, from `versions.yaml`.

    Args:
        parts: dotted names, such as `encoders.toy`.

    Returns:
        Name of each part -> its version.

    Raises:
        KeyError: a part has no declared version.
    """
    numbers = every()
    return {name: numbers[name] for name in parts}


@cache
def every() -> dict[str, int]:
    """Return the declared version of every part, by its dotted name."""
    return dict(_numbers("", read()))


def read() -> dict[str, Any]:
    """Return `versions.yaml`: part, or group of parts -> its entry, or its parts."""
    entries: dict[str, Any] = yaml.safe_load(DECLARED.read_text("utf-8"))
    return entries


def _numbers(prefix: str, node: dict[str, Any]) -> Iterator[tuple[str, int]]:
    for name, entry in node.items():
        if "version" in entry:
            yield f"{prefix}{name}", entry["version"]
        else:
            yield from _numbers(f"{prefix}{name}.", entry)


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
