"""Serve the schemas of conf/ as a config source of Hydra: `/schema/NAME` is a dataclass.

Hydra copies its `ConfigStore` for every group that `--help` lists; if it contained the schemas, this copying
would take half the time of `--help`.
"""

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
        """Return the scheme of the source's paths."""
        return "carryover"

    def load_config(self, config_path: str) -> ConfigResult:
        """Return a schema as a config."""
        schema = OmegaConf.structured(self.schemas[self._name(config_path)])
        return ConfigResult(self.provider, self.full_path(), schema, {"package": None})

    def available(self) -> bool:
        """Return True, as the source can always be read."""
        return True

    def is_group(self, config_path: str) -> bool:
        """Return whether a path is the group of schemas, or the root."""
        return config_path.strip("/") in ("", GROUP)

    def is_config(self, config_path: str) -> bool:
        """Return whether a path is a schema."""
        return self._name(config_path) in self.schemas

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """Return the names of the schemas for their group; for the root nothing, to hide it from --help."""
        is_listed = config_path.strip("/") == GROUP and results_filter is not ObjectType.GROUP
        return sorted(self.schemas) if is_listed else []

    def _name(self, config_path: str) -> str:
        group, _, name = config_path.strip("/").partition("/")
        return name.removesuffix(".yaml") if group == GROUP else ""


class SchemaPath(SearchPathPlugin):
    """Search path with the schemas at the end."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Append the schemas; see Hydra's `SearchPathPlugin`."""
        search_path.append("carryover", "carryover://")


def register(schemas: Mapping[str, type]) -> None:
    """Register schemas, dataclasses by name, with Hydra."""
    SchemaSource.schemas = schemas
    for plugin in (SchemaSource, SchemaPath):
        Plugins.instance().register(plugin)
