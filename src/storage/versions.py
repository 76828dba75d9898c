"""Look up versions on which numbers depend: of this project's parts and of installed libraries."""

import importlib.metadata
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

DECLARED = Path(__file__).parents[1] / "versions.yaml"


def declared_versions(*parts: str) -> dict[str, int]:
    """Return the declared version of each part, such as `encoders.toy`; raise `KeyError` if it is unknown."""
    return {name: all_declared_versions()[name] for name in parts}


@cache
def all_declared_versions() -> dict[str, int]:
    """Return the declared version of every part, by its dotted name."""
    return dict(_flatten("", yaml.safe_load(DECLARED.read_text("utf-8"))))


def _flatten(prefix: str, node: dict[str, Any]) -> Iterator[tuple[str, int]]:
    for name, entry in node.items():
        if "version" in entry:
            yield f"{prefix}{name}", entry["version"]
        else:
            yield from _flatten(f"{prefix}{name}.", entry)


def library_versions(*libraries: str) -> dict[str, str]:
    """Return the version of each distribution, by name; raise `PackageNotFoundError` if not installed."""
    return {name: _version(name) for name in libraries}


# Cached per process: importlib parses all metadata of the distribution on each call.
_version = cache(importlib.metadata.version)
