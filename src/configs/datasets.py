"""YAMLs of datasets: what they write must take effect, or is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from src.errors import InputError

# Groups that come after `dataset` in conf/run.yaml and conf/generate.yaml: their YAMLs would win.
LATER = ("model", "exp", "llm", "task")


def check_dataset(hydra: Any) -> None:
    """Refuse a dataset's YAML that writes what another YAML would override, or the other way round.

    Args:
        hydra: Hydra's own part of a composed config.

    Raises:
        InputError: naming file, key and remedy.
    """
    choice = hydra.runtime.choices.get("dataset")
    if not choice:
        return
    folders = [Path(source.path) for source in hydra.runtime.config_sources if source.schema == "file"]
    typed = dict(item.split("=", 1) for item in hydra.overrides.task if "=" in item)
    for path, content in _yamls(folders, str(choice)):
        for key in LATER:
            if key in content:
                raise InputError(
                    f"{path} writes {key}, which no dataset decides: it would be overridden. Take it out, "
                    f"and type {key}=NAME or {key}.FIELD=VALUE."
                )
        if "templates" in content and "template_set" in typed and "templates" not in typed:
            raise InputError(
                f"{path} writes templates, which would stand in place of template_set="
                f"{typed['template_set']}. Type templates=[...], or leave template_set out."
            )


def _yamls(folders: list[Path], choice: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Read the YAML of a dataset, and those of the same group that it builds on."""
    paths = (folder / "dataset" / f"{choice}.yaml" for folder in folders)
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        return
    content = OmegaConf.to_container(OmegaConf.load(path))
    if not isinstance(content, dict):
        return
    yield path, {str(key): value for key, value in content.items()}
    for name in content.get("defaults", []):
        if isinstance(name, str) and name[0] not in "/_":
            yield from _yamls(folders, name)
