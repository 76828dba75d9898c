"""Parse YAML and JSON of users, with plain values and unique keys only."""

import json
import math
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

# Errors that OmegaConf raises for values that are valid in YAML, but not in configs.
OMEGACONF_ERRORS = (RecursionError, AssertionError, TypeError, AttributeError, OverflowError)
# Maximum number of keys and values after expanding references; a long text may have 2 per character instead.
MAX_VALUES = 100_000


def parse_yaml(text: str) -> Any:
    """Parse YAML into plain values; tags that would create objects are refused.

    Raises:
        ValueError: the text is not YAML, repeats a key, is nested too deeply or contains itself, or has
            references that would expand to too many values.
    """
    try:
        _check_count(yaml.compose(text, Loader=yaml.SafeLoader), max(MAX_VALUES, 2 * len(text)), {})
        return OmegaConf.to_container(OmegaConf.create(text))  # refuses repeated keys
    except (yaml.YAMLError, OmegaConfBaseException, *OMEGACONF_ERRORS) as error:
        raise ValueError(" ".join(str(error).split())[:300] or "a value that only YAML allows") from None


def parse_json(text: str) -> Any:
    """Parse JSON into plain values.

    Raises:
        ValueError: the text is not JSON, repeats a key, or is nested too deeply.
    """
    try:
        return json.loads(text, object_pairs_hook=_build_mapping)
    except RecursionError as error:
        raise ValueError(str(error)) from None


def is_text(value: str) -> bool:
    """Return whether a text can be encoded: escapes in YAML and JSON may produce half a surrogate pair."""
    return value.isascii() or value.encode(errors="replace").decode() == value


def _check_count(node: yaml.Node | None, limit: int, counts: dict[int, float]) -> float:
    """Count a node and all nodes in it, after expanding references; a node that contains itself is infinite.

    Raises:
        ValueError: the count exceeds `limit`.
    """
    if not isinstance(node, yaml.CollectionNode):
        return 1
    if id(node) not in counts:
        counts[id(node)] = math.inf
        pairs = node.value if isinstance(node, yaml.MappingNode) else [node.value]
        counts[id(node)] = 1 + sum(_check_count(item, limit, counts) for pair in pairs for item in pair)
    if counts[id(node)] > limit:
        line = node.start_mark.line + 1
        raise ValueError(f"line {line}: its references expand to more than {limit} values; write them out")
    return counts[id(node)]


def _build_mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a mapping of key-value pairs; raise `ValueError` if a key is repeated."""
    keys = [key for key, _ in pairs]
    mapping = dict(pairs)
    if len(mapping) < len(keys):
        repeated_key = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"{repeated_key!r} occurs twice")
    return mapping
