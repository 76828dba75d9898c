"""Commands that fetch a model whose files are missing."""

from __future__ import annotations

import re
import shlex

from omegaconf import OmegaConf

from src import configs

# What Hydra reads as a text without quotes, unless it is a number or a constant.
PLAIN = re.compile(r"(?!(?:null|true|false)$)[\w./:-]+", re.ASCII | re.IGNORECASE)


def fetch_command(config: configs.PretrainedConfig) -> str:
    """Write the command that fetches just the files that a config names.

    >>> fetch_command(configs.OpenClipConfig(id="hf-hub:lab/clip", revision="a6f597a3"))
    'python -m src.encoders fetch model=open_clip model.id=hf-hub:lab/clip model.revision=a6f597a3'
    """
    # The YAML of the family's name; pins that it has would stay if they were not overridden.
    written = OmegaConf.load(configs.CONF / "model" / f"{config.family}.yaml")
    values = {"id": config.id, "revision": config.revision, "sha256": config.sha256}
    values = {name: value for name, value in values.items() if value or name in written}
    if config.weights != "pretrained":
        values["weights"] = config.weights
    overrides = [f"model.{name}={_quoted(value)}" for name, value in values.items()]
    return shlex.join(["python", "-m", "src.encoders", "fetch", f"model={config.family}", *overrides])


def _quoted(value: str) -> str:
    """Write a text so that Hydra reads the same text: no number, no constant, no list."""
    if not value or (PLAIN.fullmatch(value) and not _is_number(value)):
        return value
    # Hydra unescapes backslashes where a quote follows, and there alone.
    return '"' + re.sub(r'(\\*)("|$)', lambda found: 2 * found[1] + ('\\"' if found[2] else ""), value) + '"'


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
