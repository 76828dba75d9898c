"""YAML and JSON that somebody wrote: plain values, each key once, no tags."""

from __future__ import annotations

import json
import math
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

# What OmegaConf raises over values that YAML has and configs have not.
STUMBLED = (RecursionError, AssertionError, TypeError, AttributeError, OverflowError)
# Keys and values that a YAML may stand for with its references written out, be it ever so short.
MOST = 100_000


def of_yaml(text: str) -> Any:
    """What a YAML says; tags that would make objects are errors to the loader.

    Raises:
        ValueError: it is no YAML, has a key twice, is nested too deeply, or in itself, or has references that
            stand for more than any memory holds, as a few nested ones do.
    """
    try:
        _bounded(yaml.compose(text, Loader=yaml.SafeLoader), max(MOST, 2 * len(text)), {})
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


def _bounded(node: yaml.Node | None, most: int, known: dict[int, float]) -> float:
    """Values that a node stands for, with each reference written out; a node within itself has no end."""
    if not isinstance(node, yaml.CollectionNode):
        return 1
    if id(node) not in known:
        known[id(node)] = math.inf
        pairs = node.value if isinstance(node, yaml.MappingNode) else [node.value]
        known[id(node)] = 1 + sum(_bounded(item, most, known) for pair in pairs for item in pair)
    if known[id(node)] > most:
        line = node.start_mark.line + 1
        raise ValueError(f"line {line}: references in it stand for more than {most} values; write them out")
    return known[id(node)]


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    found = dict(pairs)
    if len(found) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"{twice!r} stands there twice")
    return found
