"""Overrides of a command: without secrets, as sweeps, and as typed."""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from src.errors import SECRET, InputError, masked
from src.jobs.identity import family

if TYPE_CHECKING:
    from omegaconf import DictConfig

# What may be called so in an environment, or nothing.
VARIABLE = re.compile(r"[A-Za-z_]\w*|", re.ASCII)

# Groups whose choice costs the most to load.
MODELS = ("model", "llm")


def as_typed(module: str, arguments: Sequence[str]) -> str:
    """A command line that can be pasted into a shell; a password within an address is left out.

    >>> as_typed("src.run", ["-m", "exp=glob(*)", "tracking.uri=https://me:secret@host"])
    "python -m src.run -m 'exp=glob(*)' 'tracking.uri=https://me:…@host'"
    """
    return shlex.join(["python", "-m", module, *map(masked, arguments)])


def without_secrets(arguments: Sequence[str]) -> list[str]:
    """The same arguments with passwords of addresses in the environment, so that Hydra writes none down.

    Raises:
        InputError: `llm.key` holds what looks like a key, not the name of a variable.

    >>> without_secrets(["tracking.uri=https://me:se,cret@host"])
    ['tracking.uri=https://me:${oc.env:CARRYOVER_SECRET_1}@host']
    """
    numbers = itertools.count(1)
    return [_without(argument, numbers) for argument in arguments]


def _without(argument: str, numbers: Iterator[int]) -> str:
    key, _, value = argument.partition("=")
    if key.lstrip("+") == "llm.key" and not VARIABLE.fullmatch(value.strip("'\"")):
        raise InputError(
            "llm.key: names the variable that holds the key, not the key. Say llm.key=OPENAI_API_KEY."
        )
    quoted = value[:1] in ("'", '"')

    def kept(found: re.Match[str]) -> str:
        if "${" in found["secret"]:
            return found[0]
        variable = f"CARRYOVER_SECRET_{next(numbers)}"
        # Unquoted, Hydra takes a backslash away from what follows it.
        os.environ[variable] = found["secret"] if quoted else re.sub(r"\\(.)", r"\1", found["secret"])
        return f"{found['before']}${{oc.env:{variable}}}"

    return SECRET.sub(kept, argument)


def as_sweeps(arguments: list[str]) -> list[str]:
    """Plain overrides beside a sweep over choices, as sweeps of one value.

    Hydra composes the default choices first, to find its own settings. There, a key that only the swept
    choices have would be refused.

    >>> as_sweeps(["-m", "model=clip_b32,clip_l14", "model.weights=random", "seed=1"])
    ['-m', 'model=clip_b32,clip_l14', 'model.weights=choice(random)', 'seed=1']
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    parser = OverridesParser.create()
    given = [text for text in arguments if "=" in text and not text.startswith("-")]
    try:
        parsed = dict(zip(given, parser.parse_overrides(given), strict=True))
    except HydraException:  # Hydra itself says what is wrong
        return arguments
    if not any(found.is_sweep_override() and "." not in str(found.key_or_group) for found in parsed.values()):
        return arguments

    def alone(text: str) -> str:
        found, (key, _, value) = parsed.get(text), text.partition("=")
        if found is None or found.is_sweep_override() or found.is_delete():
            return text
        if "." not in key or key.lstrip("+").startswith("hydra."):
            return text
        wrapped = f"{key}=choice({value})"
        try:  # choice() takes no null, and loses some quotes: then the plain override stays
            (swept,) = parser.parse_overrides([wrapped])
            (again,) = parser.parse_overrides([f"{key}={item}" for item in swept.sweep_string_iterator()])
        except (HydraException, ValueError):
            return text
        return wrapped if again.value() == found.value() else text

    return [alone(text) for text in arguments]


def globbed(config: DictConfig) -> bool:
    """Return whether a sweep names its experiments or protocols by a glob."""
    params = config.hydra.sweeper.get("params") or {}
    given = [*(f"{name}={value}" for name, value in params.items()), *typed(config.hydra)]
    return any(item.startswith(("exp=", "protocol=")) and "glob(" in item for item in given)


def typed(hydra: Any) -> list[str]:
    """Overrides of a job or a sweep as they were given; what they say of the environment stays unsaid.

    Args:
        hydra: Hydra's own part of the config.
    """
    from omegaconf import OmegaConf

    given: Any = OmegaConf.to_container(hydra.overrides.task, resolve=False)
    return [str(item) for item in given]


def dataset_of(overrides: Sequence[str], choices: Mapping[str, str]) -> str:
    """Name of the dataset of a job that is not composed yet, as `Job.of` will give it.

    Args:
        overrides: of the job.
        choices: which YAML is chosen of each group where they do not say.
    """
    chosen = {**choices, **dict(item.split("=", 1) for item in overrides if "=" in item)}
    if "llm" in chosen:  # of a generative model
        return family(str(chosen.get("task")))
    return "precomputed" if chosen.get("model") == "precomputed" else str(chosen.get("dataset"))
