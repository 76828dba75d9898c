"""YAMLs of the config folders that cannot be read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import yaml
from omegaconf import OmegaConf

from src.errors import brief

# Errors that reading a YAML raises.
ERRORS = (OSError, ValueError, yaml.YAMLError, RecursionError)


def broken_yaml(cause: Exception, folders: Iterable[Path]) -> str:
    """Return the message about the YAML that caused an error; empty if none did.

    Args:
        cause: error that Hydra raised while it composed; it names no file, or names it at length.
        folders: config folders.
    """
    for path in [path for folder in folders for path in sorted(folder.rglob("*.yaml"))]:
        try:
            OmegaConf.load(path)
        except ERRORS as error:
            if type(error) is type(cause) and (str(error) == str(cause) or isinstance(error, RecursionError)):
                return f"{path}: {brief(' '.join(str(error).split()), 400)}. Correct it."
    return ""
