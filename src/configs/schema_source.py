"""Config source of Hydra's that serves the schemas of conf/: `/schema/NAME` is a dataclass.

Hydra copies its own `ConfigStore` for every group that `--help` lists: with all schemas in it, that was half
of `--help`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

GROUP = "schema"


class SchemaSource(ConfigSource):
    """Config source of the dataclasses in `schemas`, by name; see Hydra's `ConfigSource`."""

    schemas: ClassVar[Mapping[str, type]] = {}

    @staticmethod
    def scheme() -> str:
        """Return the scheme of its paths."""
        return "carryover"

    def load_config(self, config_path: str) -> ConfigResult:
        """Return a schema as a config."""
        schema = OmegaConf.structured(self.schemas[self._name(config_path)])
        return ConfigResult(self.provider, self.full_path(), schema, {"package": None})

    def available(self) -> bool:
        """Return that the source can always be read."""
        return True

    def is_group(self, config_path: str) -> bool:
        """Return whether a path is the group of schemas, or the root."""
        return config_path.strip("/") in ("", GROUP)

    def is_config(self, config_path: str) -> bool:
        """Return whether a path is a schema."""
        return self._name(config_path) in self.schemas

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """Return the schemas; none at the root, for `--help` lists what users choose."""
        shown = config_path.strip("/") == GROUP and results_filter is not ObjectType.GROUP
        return sorted(self.schemas) if shown else []

    def _name(self, config_path: str) -> str:
        group, _, name = config_path.strip("/").partition("/")
        return name.removesuffix(".yaml") if group == GROUP else ""


class SchemaPath(SearchPathPlugin):
    """Search path that ends with the schemas."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """See Hydra's `SearchPathPlugin`."""
        search_path.append("carryover", "carryover://")


def register(schemas: Mapping[str, type]) -> None:
    """Make schemas known to Hydra.

    Args:
        schemas: name -> dataclass.
    """
    SchemaSource.schemas = schemas
    plugins = Plugins.instance()
    for plugin in (SchemaSource, SchemaPath):
        plugins.register(plugin)
