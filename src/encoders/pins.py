"""Pin published encoders: write the revision and the hash of their weights into a YAML."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from src import configs
from src.configs.composition import YAML_ERRORS
from src.errors import InputError

FOLDER = Path("conf/model")
COMMIT = re.compile(r"[0-9a-f]{40}")
NAME = re.compile(r"[\w.-]+")
# Fields of a model's YAML besides id and pins.
OTHER_FIELDS = (
    *("pooling", "prompt", "prompt_name", "truncate_dim", "precision"),
    *("pretraining", "languages", "golden", "batch_size"),
)


def locate_yaml(model: configs.PretrainedConfig, overrides: Sequence[str], name: str) -> Path:
    """Return the path of the YAML to write: `name`, or else that of the chosen model.

    Raises `InputError` for an invalid name, or a name of this program's own YAMLs in another folder.
    """
    choice = configs.compose([*overrides])[1]["model"]
    included = configs.CONF / "model" / f"{name or choice}.yaml"
    if not name and OmegaConf.is_missing(OmegaConf.load(included), "id"):
        raise InputError(
            f"model={choice}: its YAML is for any model of the family. Name that of {model.id}: --name=NAME."
        )
    if name and not NAME.fullmatch(name):
        raise InputError(f"--name={name}: expected letters, digits, '.', '-' and '_'. Choose another name.")
    path = FOLDER / included.name
    if included.exists() and path.absolute() != included.absolute():
        raise InputError(
            f"{path}: {included.stem} is the name of a model of this program, which would be used instead. "
            "Choose another --name."
        )
    return path


def format_pinned(model: configs.PretrainedConfig, weights: Mapping[str, str]) -> str:
    """Format a YAML of a model with the revision and hash of its weights."""
    settings, defaults = asdict(model), asdict(type(model)())
    values: dict[str, object] = {"id": model.id, **_select_pins(weights)}
    values |= {name: settings[name] for name in OTHER_FIELDS if settings.get(name) != defaults.get(name)}
    lines = [
        f"# {model.id}, pinned to its first download.",
        f"defaults: [/schema/{model.family}@_here_, _self_]",
    ]
    return "\n".join(lines) + "\n" + OmegaConf.to_yaml(OmegaConf.create(values))


def write_pins(path: Path, model: configs.PretrainedConfig, weights: Mapping[str, str]) -> bool:
    """Write a model's pins into a YAML; return whether it changed.

    Raises `InputError` if the YAML is of another model, has other pins, or cannot be written.
    """
    if not path.exists():
        _write(path, format_pinned(model, weights))
        return True
    text = _read(path)
    content = _parse(path, text)
    if content.get("id") is None:
        raise InputError(f"{path}: has no id. Add `id: {model.id}`, or choose another --name.")
    if content["id"] != model.id:
        raise InputError(f"{path}: is of {content['id']}, not of {model.id}. Choose another --name.")
    pins = _select_pins(weights)
    for name, value in pins.items():
        present = "" if content.get(name) is None else str(content[name])
        is_pin = name == "sha256" or COMMIT.fullmatch(present)  # not a branch or tag
        if present and is_pin and present.lower() != value:
            raise InputError(
                f"{path}: has {name} {present}, but the download has {value}. Delete the line if the new "
                "weights are right, or fetch the pinned ones."
            )
    edited = _insert_pins(text, pins)
    if edited == text:
        return False
    _write(path, edited)
    return True


def _select_pins(weights: Mapping[str, str]) -> dict[str, str]:
    """Return the pins among facts about weights: a folder has no revision."""
    revision = {"revision": weights["revision"]} if COMMIT.fullmatch(weights["revision"]) else {}
    return revision | {"sha256": weights["sha256"]}


def _insert_pins(text: str, pins: Mapping[str, str]) -> str:
    """Return the text of a YAML with pins; other lines and all comments stay."""
    lines = text.splitlines()
    after = next(index for index, line in enumerate(lines) if line.startswith("id:"))
    for name, value in pins.items():
        line = OmegaConf.to_yaml(OmegaConf.create({name: value})).strip()  # quotes a hash of digits only
        index = next((i for i, line in enumerate(lines) if line.startswith(f"{name}:")), None)
        if index is None:
            after += 1
            lines.insert(after, line)
            continue
        comment = re.search(r"\s+#.*$", lines[index])
        lines[index] = f"{line}{comment[0] if comment else ''}"
        after = index
    return "\n".join(lines) + "\n"


def _parse(path: Path, text: str) -> Mapping[str, object]:
    try:
        content = OmegaConf.to_container(OmegaConf.create(text))
    except (*YAML_ERRORS, OmegaConfBaseException) as error:
        raise InputError(f"{path}: not a YAML ({str(error).splitlines()[0]}). Correct it.") from None
    if not isinstance(content, dict):
        raise InputError(f"{path}: expected the keys of a model, got a list. Correct it.")
    return {str(name): value for name, value in content.items()}


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error}). Use --print, and write it by hand.") from None


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written ({error.strerror}). Use --print, and write it elsewhere."
        ) from None
