"""Store the facts about a run as a few tags, under names that MLflow's pages know, and read them back.

In code, the tags of a run are a mapping of facts (`version.torch`, `input.faces`, `command`). The store has
one tag per group of facts, as JSON, and MLflow's own tags for command, commit and user. Older runs have one
tag per fact.
"""

import getpass
import json
from collections.abc import Mapping

from src.tracking import names

# Maximum number of characters that MLflow stores of a tag; its newer servers accept 8000.
LIMIT_TAG = 5000
# Tag of a group -> prefixes of its facts.
GROUPS = {
    "environment.process": ("process.",),
    "environment.versions": ("version.",),
    "inputs": ("input.", "used."),
}
# Name of a fact -> MLflow's name of its tag.
MLFLOW_NAMES = {
    "command": "mlflow.source.name",
    "git.commit": "mlflow.source.git.commit",
    "git.dirty": "mlflow.source.git.dirty",
    "description": "mlflow.note.content",
}
# MLflow's pages display the source of a JOB unchanged; of other types only what follows the last slash.
SOURCE_TYPE = {"mlflow.source.type": "JOB"}
# Value of an unknown fact, which is not stored under MLflow's name.
UNKNOWN = "unknown"


def build_user_tags() -> dict[str, str]:
    """Return the tag of the user's name; empty if the system does not know the name."""
    try:
        return {"mlflow.user": getpass.getuser()}
    except (KeyError, OSError, ImportError):  # a container whose user id has no name
        return {}


def to_tags(facts: Mapping[str, str]) -> dict[str, str]:
    """Return the tags to store for facts, under encoded names.

    A group whose JSON is too long for a tag is stored as one tag per fact.

    >>> to_tags({"version.torch": "2.9", "version.numpy": "2.4", "git.commit": "ab", "exp": "x"})
    ... # doctest: +NORMALIZE_WHITESPACE
    {'mlflow.source.git.commit': 'ab', 'exp': 'x',
     'environment.versions': '{"version.torch": "2.9", "version.numpy": "2.4"}'}
    """
    groups = {
        group: {name: text for name, text in facts.items() if name.startswith(prefixes)}
        for group, prefixes in GROUPS.items()
    }
    grouped = {name for values in groups.values() for name in values}
    single = {name: text for name, text in facts.items() if name not in grouped}
    tags = {
        MLFLOW_NAMES.get(name) or names.encode(name): text
        for name, text in single.items()
        if not (name in MLFLOW_NAMES and text == UNKNOWN)
    }
    if "command" in facts:
        tags |= SOURCE_TYPE
    for group, values in groups.items():
        text = json.dumps(values, ensure_ascii=False)
        if len(text) > LIMIT_TAG:
            tags |= {names.encode(name): value for name, value in values.items()}
        elif values:
            tags[group] = text
    return tags


def to_facts(tags: Mapping[str, str]) -> dict[str, str]:
    """Return the facts stored in tags; tags that contain no facts are returned unchanged.

    >>> to_facts({"inputs": '{"input.faces": "ab"}', "mlflow.source.git.commit": "cd", "exp": "x"})
    {'git.commit': 'cd', 'input.faces': 'ab', 'exp': 'x'}
    """
    known = {name: text for name, text in tags.items() if name not in (*GROUPS, *MLFLOW_NAMES.values())}
    for group in GROUPS:
        known = {**_parse_group(tags.get(group, "")), **known}
    renamed = {name: tags[tag] for name, tag in MLFLOW_NAMES.items() if tag in tags}
    return {**renamed, **known}


def _parse_group(text: str) -> dict[str, str]:
    """Return the facts of a group from the JSON in its tag; empty if a user replaced it by other text."""
    try:
        values = json.loads(text)
    except ValueError:
        return {}
    return {str(name): str(value) for name, value in values.items()} if isinstance(values, dict) else {}
