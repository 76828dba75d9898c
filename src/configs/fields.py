"""Fields with bounds, and what holds them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field, fields, is_dataclass
from typing import Any

from omegaconf import MISSING

from src.configs import registry
from src.errors import InputError


def number(least: float, most: float = math.inf, *, default: Any = MISSING) -> Any:
    """A field whose value `check` holds between two bounds, both included."""
    return field(default=default, metadata={"least": least, "most": most})


def one_of(*values: str, default: Any = MISSING) -> Any:
    """A field whose value `check` holds to be one of these."""
    return field(default=default, metadata={"values": values})


def named(known: Mapping[str, str], *, default: Any = MISSING) -> Any:
    """A field whose value `check` holds to be a registered name, or one that can be imported."""
    return field(default=default, metadata={"known": known})


def check(node: object, name: str = "") -> None:
    """Hold every number of a config within its bounds, and every name to those that there are.

    Args:
        node: a config, or a part of it.
        name: of the part on the command line.

    Raises:
        InputError: naming field, value and bounds.
    """
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "":  # a table of results could not tell it from no name
                raise InputError(
                    f"{name}: expected a name before the colon, got an empty one. Give it a name."
                )
            check(value, f"{name}.{key}")
    if not is_dataclass(node):
        return
    for entry in fields(node):
        value = getattr(node, entry.name)
        full = f"{name}.{entry.name}" if name else entry.name
        check(value, full)
        if "least" in entry.metadata and value is not None:
            least, most = entry.metadata["least"], entry.metadata["most"]
            if not least <= value <= most:
                allowed = f"at least {least}" if most == math.inf else f"from {least} to {most}"
                raise InputError(f"{full}={value}: must be {allowed}.")
        if "values" in entry.metadata and value not in entry.metadata["values"]:
            raise InputError(f"{full}={value}: must be one of {', '.join(entry.metadata['values'])}.")
        if "known" in entry.metadata and value not in entry.metadata["known"]:
            registry.load(full, value, entry.metadata["known"])
