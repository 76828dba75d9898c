"""Declare config fields with bounds, and check them."""

import math
from collections.abc import Collection, Mapping
from dataclasses import field, fields, is_dataclass
from typing import Any

from omegaconf import MISSING

from src.configs import registry
from src.errors import InputError


def bounded_number(minimum: float, maximum: float = math.inf, *, default: Any = MISSING) -> Any:
    """Return a field for a number that `check` requires to be between two bounds, both included."""
    return field(default=default, metadata={"min": minimum, "max": maximum})


def one_of(*values: str, default: Any = MISSING) -> Any:
    """Return a field for a text that `check` requires to be one of `values`."""
    return field(default=default, metadata={"values": values})


def registered_name(known: Mapping[str, str], *, default: Any = MISSING) -> Any:
    """Return a field for a name that `check` requires to be in `known` or importable."""
    return field(default=default, metadata={"known": known})


def check(node: object, name: str = "", only: Collection[str] | None = None) -> None:
    """Check that every field of a config meets its bounds, or raise `InputError`.

    `name` is the key of the node on the command line; empty for the whole config. `only`: names of the node's
    fields to check; None: all.
    """
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "":  # a csv of results does not distinguish an empty name from a missing value
                raise InputError(f"{name}: expected a name before the colon, got none. Give it a name.")
            check(value, f"{name}.{key}")
    if not is_dataclass(node):
        return
    for entry in fields(node):
        if only is not None and entry.name not in only:
            continue
        value = getattr(node, entry.name)
        path = f"{name}.{entry.name}" if name else entry.name
        check(value, path)
        if "min" in entry.metadata and value is not None:
            minimum, maximum = entry.metadata["min"], entry.metadata["max"]
            if not minimum <= value <= maximum:
                allowed = f"at least {minimum}" if maximum == math.inf else f"from {minimum} to {maximum}"
                raise InputError(f"{path}={value}: must be {allowed}.")
        if "values" in entry.metadata and value not in entry.metadata["values"]:
            raise InputError(f"{path}={value}: must be one of {', '.join(entry.metadata['values'])}.")
        if "known" in entry.metadata and value not in entry.metadata["known"]:
            registry.load(path, value, entry.metadata["known"], object)
