"""Composing of a sweep's jobs: once each, each YAML read once, and what neighbours share merged once."""

from __future__ import annotations

import copy
from functools import wraps
from itertools import takewhile
from typing import TYPE_CHECKING

from hydra._internal import defaults_list
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

if TYPE_CHECKING:
    from hydra._internal.config_repository import IConfigRepository
    from hydra._internal.defaults_list import Overrides
    from hydra.core.config_loader import ConfigLoader
    from hydra.core.default_element import InputDefault, ResultDefault
    from hydra.core.override_parser.types import Override
    from hydra.plugins.config_source import ConfigResult
    from omegaconf import DictConfig


def once(loader: ConfigLoader) -> None:
    """Have Hydra's loader of a command compose each job once, and do once what its jobs share.

    Hydra's sweeper composes every job to see that it can be, its launcher does so again to run it; either
    reads every YAML anew, and merges all of them, though two jobs that follow each other often differ in
    the last few only. That was the largest part of what a small job costs.

    Args:
        loader: of one command; it changes.
    """
    assert isinstance(loader, ConfigLoaderImpl)
    _read_once(loader)
    _map_where_asked()
    _merge_once(loader)
    compose = loader.load_sweep_config
    waiting: dict[tuple[str, ...], DictConfig] = {}

    def load_sweep_config(master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
        asked = tuple(sweep_overrides)
        found = waiting.pop(asked, None)
        # Who runs a job writes its number into what is given: another may not have it.
        if found is None or not OmegaConf.is_missing(found.hydra.job, "num"):
            found = waiting[asked] = compose(master_config, sweep_overrides)
        # What a job takes from the sweep, as when it began, may have been resolved meanwhile.
        OmegaConf.copy_cache(from_config=master_config, to_config=found)
        return found

    loader.load_sweep_config = load_sweep_config  # type: ignore[method-assign]


def _read_once(loader: ConfigLoaderImpl) -> None:
    """Keep what was read of the YAMLs for all jobs of one search path."""
    begin = loader._parse_overrides_and_create_caching_repo
    kept: dict[tuple[str | None, ...], CachingConfigRepository] = {}

    def parse(
        config_name: str | None, overrides: list[str]
    ) -> tuple[list[Override], CachingConfigRepository]:
        given = [item for item in overrides if "hydra.searchpath" in item]
        path = (config_name, *given)
        if path in kept:
            return OverridesParser.create().parse_overrides(overrides=overrides), kept[path]
        parsed, kept[path] = begin(config_name, overrides)
        return parsed, kept[path]

    loader._parse_overrides_and_create_caching_repo = parse  # type: ignore[method-assign]


def _map_where_asked() -> None:
    """Have what a defaults list may refer to gathered for those lists alone that refer to something.

    Hydra gathers it for the list of every YAML: that was a quarter of what is left of composing.
    """
    gather = defaults_list._create_interpolation_map
    if hasattr(gather, "__wrapped__"):
        return

    @wraps(gather)
    def gathered(overrides: Overrides, defaults: list[InputDefault], self_added: bool) -> DictConfig:
        refers = any(not default.is_self() and default.is_interpolation() for default in defaults)
        return gather(overrides, defaults, self_added) if refers else OmegaConf.create()

    defaults_list._create_interpolation_map = gathered  # type: ignore[assignment]


class _Copies(CachingConfigRepository):
    """A repository whose configs may be changed, as merging does."""

    def __init__(self, kept: IConfigRepository) -> None:
        self.delegate = kept

    def load_config(self, config_path: str) -> ConfigResult | None:
        return copy.deepcopy(self.delegate.load_config(config_path))


def _merge_once(loader: ConfigLoaderImpl) -> None:
    """Merge the first YAMLs of a job's defaults list anew only where they are not those of the job before."""
    compose = loader._compose_config_from_defaults_list
    before: list[ResultDefault] = []
    shared: list[ResultDefault] = []
    merged = OmegaConf.create()

    def merge(defaults: list[ResultDefault], repo: IConfigRepository) -> DictConfig:
        nonlocal before, shared, merged
        copies = _Copies(repo)
        alike = takewhile(lambda pair: pair[0] == pair[1], zip(before, defaults, strict=False))
        common = [default for _, default in alike]
        before = defaults
        try:
            if common != shared:
                merged, shared = compose(common, copies), common
            config = copy.deepcopy(merged)
            config.merge_with(compose(defaults[len(common) :], copies))
        except OmegaConfBaseException:
            # Only a merge of all of them, one by one, tells which does not fit.
            return compose(defaults, copies)
        return config

    loader._compose_config_from_defaults_list = merge  # type: ignore[method-assign]
