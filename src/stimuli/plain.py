"""YAML and JSON that somebody wrote: plain values, each key once, no tags, no references."""

from __future__ import annotations

import json
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

# What OmegaConf raises over values that YAML has and configs have not.
STUMBLED = (RecursionError, AssertionError, TypeError, AttributeError, OverflowError)


def of_yaml(text: str) -> Any:
    """What a YAML says; tags that would make objects are errors to the loader.

    Raises:
        ValueError: it is no YAML, has a key twice, a reference (nested, a few lines of them stand for
            more than any memory holds), or is nested too deeply.
    """
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                line = event.start_mark.line + 1
                raise ValueError(f"line {line}: *{event.anchor} is a reference; write out what it stands for")
        return OmegaConf.to_container(OmegaConf.create(text))  # which refuses a key that stands twice
    except (yaml.YAMLError, OmegaConfBaseException, *STUMBLED) as error:
        raise ValueError(
            " ".join(str(error).split())[:300] or "a value that YAML knows and no list has"
        ) from None


def of_json(text: str) -> Any:
    """What a JSON says.

    Raises:
        ValueError: it is no JSON, has a key twice, or is nested too deeply.
    """
    try:
        return json.loads(text, object_pairs_hook=_once)
    except RecursionError as error:
        raise ValueError(str(error)) from None


def is_text(value: str) -> bool:
    """Whether a text can be written down: escapes of YAML and JSON also stand for half of a character."""
    return value.isascii() or value.encode(errors="replace").decode() == value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    found = dict(pairs)
    if len(found) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"{twice!r} stands there twice")
    return found
