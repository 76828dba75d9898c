"""Import objects on demand by their registered names, or as `module:attribute`."""

import importlib
from collections.abc import Mapping
from typing import TypeVar

from src.errors import InputError, brief, did_you_mean

T = TypeVar("T")


def load(key: str, name: str, known: Mapping[str, str], kind: type[T]) -> T:
    """Import the object that a config names: by its name in `known`, or as `module:attribute`.

    Raises `InputError`, which mentions the setting `key`, if the object cannot be imported or is not of
    class `kind`.
    """
    if name not in known and ":" not in name:
        hint = did_you_mean(name, known)
        names = f" Known: {', '.join(known)}; or name" if known else " Name"
        raise InputError(f"{key}: unknown name {name!r}.{hint}{names} your own as module:attribute.")
    module, _, attribute = known.get(name, name).partition(":")
    try:
        loaded = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # a user's module may raise any exception
        if name in known:
            raise
        raise InputError(
            f"{key}={name}: cannot be imported ({brief(str(error))}). Put its folder on PYTHONPATH and name "
            "it module:attribute."
        ) from None
    if not isinstance(loaded, kind):
        raise InputError(
            f"{key}={name}: expected {kind.__name__}, got {type(loaded).__name__}. Name an attribute of that "
            "class, as module:attribute."
        )
    return loaded
