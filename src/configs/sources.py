"""YAMLs of conf/ and of --config-dir: one that cannot be read is named, with the place in it."""

from __future__ import annotations

from typing import Any

import yaml

from src.errors import brief


def register() -> None:
    """Have Hydra tell in a few words of a YAML that is none; by itself it shows a traceback."""
    from hydra._internal.sources_registry import SourcesRegistry
    from hydra.core.plugins import Plugins
    from hydra.errors import CompactHydraException

    Plugins.instance()  # which imports the source anew
    files: Any = SourcesRegistry.instance().resolve("file")
    load = files.load_config
    if load.__module__ == __name__:
        return

    def load_config(self: Any, config_path: str) -> Any:
        try:
            return load(self, config_path)
        except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
            said = brief(" ".join(str(error).split()), 400)
            file = f"{self.path}/{self._normalize_file_name(config_path)}"
            raise CompactHydraException(f"{file}: {said}. Correct it.") from None

    files.load_config = load_config
