"""Process the overrides of a command: hide secrets, turn overrides into sweeps, select the user's."""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from src.errors import SECRET, InputError, redact
from src.jobs.identity import task_family

if TYPE_CHECKING:
    from omegaconf import DictConfig

# Name of an environment variable, or an empty text.
VARIABLE_NAME = re.compile(r"[A-Za-z_]\w*|", re.ASCII)

# Settings with the name of the environment variable that has a server's key.
KEY_SETTINGS = ("llm.key", "model.key")
# Config groups that choose the model; jobs with the same model share a batch, as loading it is expensive.
MODEL_GROUPS = ("model", "llm")


def format_command(module: str, arguments: Sequence[str]) -> str:
    """Return a command line to paste into a shell, with passwords in addresses masked.

    >>> format_command("src.run", ["-m", "exp=glob(*)", "tracking.uri=https://me:secret@host"])
    "python -m src.run -m 'exp=glob(*)' 'tracking.uri=https://me:…@host'"
    """
    return shlex.join(["python", "-m", module, *map(redact, arguments)])


def hide_secrets(arguments: Sequence[str]) -> list[str]:
    """Move passwords in addresses to the environment, so that Hydra does not write them to files.

    Raises `InputError` if one of `KEY_SETTINGS` is a key instead of the name of an environment variable.

    >>> hide_secrets(["tracking.uri=https://me:se,cret@host"])
    ['tracking.uri=https://me:${oc.env:CARRYOVER_SECRET_1}@host']
    """
    numbers = itertools.count(1)
    safe_arguments = []
    for argument in arguments:
        key, _, value = argument.partition("=")
        setting = key.lstrip("+")
        if setting in KEY_SETTINGS and not VARIABLE_NAME.fullmatch(value.strip("'\"")):
            raise InputError(
                f"{setting}: expected the name of an environment variable, not a key. "
                f"Use {setting}=OPENAI_API_KEY."
            )

        def replacement(match: re.Match[str], quoted: bool = value[:1] in ("'", '"')) -> str:
            if "${" in match["secret"]:
                return match[0]
            variable = f"CARRYOVER_SECRET_{next(numbers)}"
            # Hydra removes a backslash before a character in unquoted values.
            os.environ[variable] = match["secret"] if quoted else re.sub(r"\\(.)", r"\1", match["secret"])
            return f"{match['before']}${{oc.env:{variable}}}"

        safe_arguments.append(SECRET.sub(replacement, argument))
    return safe_arguments


def to_sweeps(arguments: list[str]) -> list[str]:
    """Turn plain overrides next to a sweep over choices into sweeps of a single value.

    Hydra first composes the default choices, to read its own settings, and would then reject a key that only
    the swept choices have.

    >>> to_sweeps(["-m", "model=clip_b32,clip_l14", "model.weights=random", "seed=1"])
    ['-m', 'model=clip_b32,clip_l14', 'model.weights=choice(random)', 'seed=1']
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    parser = OverridesParser.create()
    override_texts = [text for text in arguments if "=" in text and not text.startswith("-")]
    try:
        parsed = dict(zip(override_texts, parser.parse_overrides(override_texts), strict=True))
    except HydraException:  # Hydra reports the error itself
        return arguments
    if not any(item.is_sweep_override() and "." not in str(item.key_or_group) for item in parsed.values()):
        return arguments

    def as_sweep(text: str) -> str:
        override, (key, _, value) = parsed.get(text), text.partition("=")
        if override is None or override.is_sweep_override() or override.is_delete():
            return text
        if "." not in key or key.lstrip("+").startswith("hydra."):
            return text
        wrapped = f"{key}=choice({value})"
        try:  # choice() rejects null and drops some quotes: then the override stays as it is
            (swept,) = parser.parse_overrides([wrapped])
            (reparsed,) = parser.parse_overrides([f"{key}={item}" for item in swept.sweep_string_iterator()])
        except (HydraException, ValueError):
            return text
        return wrapped if reparsed.value() == override.value() else text

    return [as_sweep(text) for text in arguments]


def refuse_perturbations(arguments: Sequence[str]) -> None:
    """Raise `InputError` if the arguments of a command on generative models perturb pictures."""
    for argument in arguments:
        if re.match(r"[+~]*perturb[=.@]", argument):
            raise InputError(
                f"{argument}: generative models are asked about pictures as they are. Leave it out; src.run "
                "perturbs the pictures of encoders."
            )


def describe_new_entry(error: BaseException, arguments: Sequence[str]) -> str:
    """Describe an override that adds an entry below a mapping that is absent or null.

    OmegaConf merges such entries only with their mapping, and raises errors that do not say so.

    Args:
        error: error of the composition of the config.
        arguments: arguments of the command.

    Returns:
        Message; an empty text for other errors.

    >>> error = AssertionError("Unexpected type for root: NoneType")
    >>> describe_new_entry(error, ["+faces.axes.race.bins.old=1"])
    "+faces.axes.race.bins.old=1: its mapping is not set yet. Set both: '+faces.axes.race={bins: {...}}'."
    """
    text = f"{error}\n{error.__cause__ or ''}"
    if "Unexpected type for root: NoneType" in text or "'NoneType' object has no attribute 'get'" in text:
        pattern = r"\++(.*\.\w+)\.(\w+)\.\w+=" if "root" in text else r"\++(.*)\.(\w+)=\{"
    elif "dict is not a subclass of" in text:
        entry = text.partition("full_key: ")[2].split("\n")[0]
        pattern = rf"\++([\w.]+)\.({re.escape(entry)})\b"
    else:
        return ""
    for argument in arguments:
        if match := re.match(pattern, argument if argument.startswith("+") else f"+{argument}"):
            mapping, entry = match.groups()
            return f"{argument}: its mapping is not set yet. Set both: '+{mapping}={{{entry}: {{...}}}}'."
    return ""


def selects_by_glob(config: DictConfig) -> bool:
    """Return whether a sweep selects its experiments, tasks, protocols or perturbations by a glob."""
    params = config.hydra.sweeper.get("params") or {}
    texts = [*(f"{name}={value}" for name, value in params.items()), *select_user_overrides(config.hydra)]
    groups = ("exp=", "task=", "protocol=", "perturb=")
    return any(text.startswith(groups) and "glob(" in text for text in texts)


def select_user_overrides(hydra: Any) -> list[str]:
    """Return the user's overrides of a job from Hydra's settings, without resolving environment variables."""
    from omegaconf import OmegaConf

    override_texts: Any = OmegaConf.to_container(hydra.overrides.task, resolve=False)
    return [str(text) for text in override_texts]


def dataset_of(overrides: Sequence[str], choices: Mapping[str, str]) -> str:
    """Return the dataset of a job that could not be built, as `Job.of` or `GeneratorJob.of` would name it.

    `choices`: config group -> YAML chosen by default.
    """
    selected = {**choices, **dict(item.split("=", 1) for item in overrides if "=" in item)}
    if "llm" in selected:  # a job of a generative model
        return task_family(str(selected.get("task")))
    return "precomputed" if selected.get("model") == "precomputed" else str(selected.get("dataset"))
