"""Composing of a sweep's jobs: once each, and each YAML read once."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from omegaconf import OmegaConf

if TYPE_CHECKING:
    from hydra.core.config_loader import ConfigLoader
    from hydra.plugins.config_source import ConfigResult, ConfigSource
    from omegaconf import DictConfig


def once(loader: ConfigLoader) -> None:
    """Have Hydra's loader of a command compose each job once, from YAMLs that it reads once.

    Hydra's sweeper composes every job to see that it can be, its launcher does so again to run it, and
    either reads every YAML anew: the largest part of what a small job costs.

    Args:
        loader: of one command; it changes.
    """
    assert isinstance(loader, ConfigLoaderImpl)
    for source in loader.repository.get_sources():
        _read_once(source)
    compose = loader.load_sweep_config
    waiting: dict[tuple[str, ...], DictConfig] = {}

    def load_sweep_config(master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
        asked = tuple(sweep_overrides)
        found = waiting.pop(asked, None)
        if found is None:
            waiting[asked] = compose(master_config, sweep_overrides)
            # What is given is changed: the job's number is written into it.
            found = copy.deepcopy(waiting[asked])
        # What a job takes from the sweep, as when it began, may have been resolved meanwhile.
        OmegaConf.copy_cache(from_config=master_config, to_config=found)
        return found

    loader.load_sweep_config = load_sweep_config  # type: ignore[method-assign]


def _read_once(source: ConfigSource) -> None:
    read = source.load_config
    known: dict[str, ConfigResult] = {}

    def load_config(config_path: str) -> ConfigResult:
        if config_path not in known:
            known[config_path] = read(config_path)
        # Hydra takes the defaults list out of what it is given.
        return copy.deepcopy(known[config_path])

    source.load_config = load_config  # type: ignore[method-assign]
