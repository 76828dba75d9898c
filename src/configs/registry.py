"""Registries: name -> object, imported when needed; objects from elsewhere are named module:attribute."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from typing import Any

from src.errors import InputError, brief


def load(key: str, name: str, known: Mapping[str, str], kind: type = object) -> Any:
    """Import the object that a config names.

    Args:
        key: setting that holds the name, for messages.
        name: a name in `known`, or `module:attribute` of an object that is defined elsewhere.
        known: name -> `module:attribute`.
        kind: class of the object.

    Raises:
        InputError: the name is unknown, its module cannot be imported, or its attribute is of another class.
    """
    if name not in known and ":" not in name:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        names = f" Known: {', '.join(known)}; or name" if known else " Name"
        raise InputError(f"{key}: unknown name {name!r}.{hint}{names} your own as module:attribute.")
    module, _, attribute = known.get(name, name).partition(":")
    try:
        loaded = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # a module of the user's raises of everything
        if name in known:
            raise
        raise InputError(
            f"{key}={name}: cannot be imported ({brief(str(error))}). Put its folder on PYTHONPATH and name "
            "it module:attribute."
        ) from None
    if not isinstance(loaded, kind):
        raise InputError(
            f"{key}={name}: expected {kind.__name__}, got {type(loaded).__name__}. Name the attribute that "
            "holds one, as module:attribute."
        )
    return loaded
