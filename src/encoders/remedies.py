"""Commands that fetch a model whose files are missing."""

from __future__ import annotations

import re
import shlex

from src import configs

# Family of published encoders -> its YAML in conf/model that takes any `model.id`.
GENERIC = {configs.OpenClipConfig: "open_clip", configs.Blip2Config: "blip2"}
# What Hydra reads as a text without quotes, unless it is a number or a constant.
PLAIN = re.compile(r"(?!(?:null|true|false)$)[\w./:-]+", re.ASCII | re.IGNORECASE)


def fetch_command(config: configs.PretrainedConfig) -> str:
    """Write the command that fetches just the files that a config names.

    >>> fetch_command(configs.OpenClipConfig(id="hf-hub:lab/clip", revision="a6f597a3"))
    'python -m src.encoders fetch model=open_clip model.id=hf-hub:lab/clip model.revision=a6f597a3'
    """
    choice = GENERIC[type(config)]
    values = {"id": config.id, "revision": config.revision, "sha256": config.sha256}
    if choice == "open_clip":  # the YAML of BLIP-2 has pins of its own, which would stay
        values = {name: value for name, value in values.items() if value}
    if config.weights != "pretrained":
        values["weights"] = config.weights
    overrides = [f"model.{name}={_quoted(value)}" for name, value in values.items()]
    return shlex.join(["python", "-m", "src.encoders", "fetch", f"model={choice}", *overrides])


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
