"""Find the modules and files of a model of sentence-transformers, and refuse unsuitable models."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import transformers

from src import configs
from src.encoders import hub, huggingface, pretrained
from src.encoders.dual_encoder import REMEDY
from src.errors import InputError, brief

MODULES, CONFIG = "modules.json", huggingface.CONFIG
PROMPTS = "config_sentence_transformers.json"  # instructions and width of the vectors
INPUTS = "sentence_bert_config.json"  # kinds of inputs of the first module
ADAPTER = "adapter_config.json"
# Of processors of multimodal language models.
TEMPLATES = ("chat_template.jinja", "chat_template.json", "video_preprocessor_config.json")
# Classes of the library, by the last part of their names, that can be first in a model, and after it.
FIRST_CLASSES, OTHER_CLASSES = {"Transformer", "CLIPModel"}, {"Pooling", "Dense", "Normalize"}
SAVED = "modules"  # `model.pooling` of a model with modules.json
KIND = "SentenceTransformer"  # a vector per item
PACKAGE = "sentence_transformers."
NEEDED = ("text", "image")
# Instructions that the library defines for every model.
NO_INSTRUCTIONS = {"query": "", "document": ""}
# Type of model -> why its vectors cannot be compared, and the remedy.
REFUSED = {
    "blip-2": "the library lacks its projections. Use model=blip2.",
    "aimv2": "without padding, the library lets tokens of a text attend to later ones. Use model=hf.",
}


@dataclass(frozen=True)
class Layout:
    """Modules of a model, and their files."""

    modules: tuple[tuple[str, str], ...]  # name of the class and folder, with a slash at the end, of each
    settings: Mapping[str, Any]  # content of `PROMPTS`
    files: Mapping[str, Path]  # name in the repository -> file; without weights

    @property
    def root(self) -> str:
        """Return the folder of the first module."""
        return self.modules[0][1]


def find_layout(config: configs.SentenceTransformersConfig, source: hub.Source) -> Layout:
    """Find the modules of a model and locate their small files; raise `InputError` for unsuitable models."""
    with pretrained.convert_load_errors(source.name):  # values in the files may have any type
        modules, files = _read_modules(config, source)
        return _locate_others(config, source, modules, files)


def _locate_others(
    config: configs.SentenceTransformersConfig,
    source: hub.Source,
    modules: Sequence[tuple[str, str]],
    files: dict[str, Path],
) -> Layout:
    """Locate the files of the modules, those first by which a model can be refused."""
    settings = _read_settings(source, files.get(PROMPTS))
    root = modules[0][1]
    # Without the file, the library takes texts alone; a CLIPModel is one of pictures and texts.
    has_inputs = config.pooling == SAVED and modules[0][0] == "Transformer"
    files |= hub.locate_files(
        source,
        [(root + CONFIG,), *([(root + INPUTS,)] if has_inputs else [])],
        [root + INPUTS],
        decisive=[root + ADAPTER],
    )
    _refuse_code(source, files)
    _check_architecture(config, source, files, root)
    if config.pooling == SAVED:
        _check_inputs(source, modules[0][0], files.get(root + INPUTS))
    required = [[root + name for name in names] for names in huggingface.REQUIRED]
    required += [[folder + CONFIG] for name, folder in modules[1:] if name != "Normalize"]
    optional = [root + name for name in (*huggingface.OPTIONAL, *TEMPLATES)]
    optional += [folder + CONFIG for name, folder in modules[1:] if name == "Normalize"]
    files |= hub.locate_files(source, required, optional)
    _refuse_code(source, files)
    for name, folder in modules:
        if name == "Dense":
            _check_dense(source, folder + CONFIG, files[folder + CONFIG])
    return Layout(tuple(modules), settings, files)


def _read_modules(
    config: configs.SentenceTransformersConfig, source: hub.Source
) -> tuple[list[tuple[str, str]], dict[str, Path]]:
    """Return the class and the folder of each module, and the files that describe the model."""
    if config.pooling != SAVED:
        files = hub.locate_files(source, [(CONFIG,)], decisive=[MODULES, ADAPTER])
        if MODULES in files:
            raise InputError(
                f"{source.name}: model.pooling={config.pooling}, but its {MODULES} says how it pools. "
                "Leave out model.pooling."
            )
        return [("Transformer", "")], files
    remedy = (
        "Where it is missing, look in the pull requests of the repository (model.revision=refs/pr/N), or, "
        "for a multimodal language model, set model.pooling to what its authors do, usually lasttoken: the "
        "library would average the tokens. "
    )
    files = hub.locate_files(
        replace(source, remedy=remedy + source.remedy), [(MODULES,)], decisive=[PROMPTS, ADAPTER]
    )
    try:
        entries = json.loads(files[MODULES].read_text("utf-8"))
        modules = [(str(entry["type"]), str(entry["path"])) for entry in entries]
        if not modules:
            raise ValueError("expected a list of modules")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            f"{files[MODULES]}: not a list of modules ({brief(repr(error))}). {REMEDY}"
        ) from None
    return [_check_module(source, *module, is_first=not i) for i, module in enumerate(modules)], files


def _check_module(source: hub.Source, kind: str, folder: str, is_first: bool) -> tuple[str, str]:
    """Return the last part of the name of a module's class, and its folder."""
    if not kind.startswith(PACKAGE):
        raise InputError(
            f"{source.name}: {MODULES} names {brief(kind)}, code outside sentence-transformers, which is "
            f"never run. {REMEDY}"
        )
    name = kind.rpartition(".")[2]
    allowed = FIRST_CLASSES if is_first else OTHER_CLASSES
    if name not in allowed:
        reason = "which takes texts alone or is not supported" if is_first else "which is not supported"
        raise InputError(
            f"{source.name}: {MODULES} names {name}, {reason}; expected {' or '.join(sorted(allowed))}. "
            f"{REMEDY}"
        )
    parts = PurePosixPath(folder).parts
    if len(parts) > 1 or {*parts} & {"..", "/"}:
        raise InputError(
            f"{source.name}: {MODULES} names the folder {brief(folder)!r}, expected a subfolder. {REMEDY}"
        )
    return name, f"{parts[0]}/" if parts else ""


def _read_settings(source: hub.Source, path: Path | None) -> dict[str, Any]:
    """Read the instructions and the width of a model; raise `InputError` if it is of another kind."""
    settings = huggingface.read_json(path, source) if path else {}
    if (kind := settings.get("model_type", KIND)) != KIND:  # the library would average its tokens
        raise InputError(f"{source.name}: {PROMPTS} says {brief(str(kind))}, expected {KIND}. {REMEDY}")
    types = {"prompts": dict, "default_prompt_name": str, "truncate_dim": int}
    for name, kind in types.items():
        if not isinstance(settings.get(name), kind | None):
            raise InputError(
                f"{source.name}: {PROMPTS}: expected {name} as {kind.__name__}, got "
                f"{brief(repr(settings[name]))}. {source.remedy}"
            )
    return settings


def _refuse_code(source: hub.Source, files: Mapping[str, Path]) -> None:
    huggingface.refuse_code(source, {name: path for name, path in files.items() if name != MODULES})


def _check_dense(source: hub.Source, name: str, path: Path) -> None:
    """Raise `InputError` for an activation outside torch: the library would take another, with a warning."""
    activation = str(huggingface.read_json(path, source).get("activation_function", "torch."))
    if not activation.startswith("torch."):
        raise InputError(
            f"{source.name}: {name} names the activation {brief(activation)}, code outside torch, which is "
            f"never run. {REMEDY}"
        )


def _check_architecture(
    config: configs.SentenceTransformersConfig, source: hub.Source, files: Mapping[str, Path], root: str
) -> None:
    """Raise `InputError` if transformers lacks the class, or the weights need more than its files."""
    if adapter := next((name for name in (ADAPTER, root + ADAPTER) if name in files), None):
        raise InputError(
            f"{source.name}: its weights are an adapter ({adapter}) of another model. Merge them "
            "(merge_and_unload of the package peft), and save the result to a folder."
        )
    kind = huggingface.read_json(files[root + CONFIG], source).get("model_type")
    if not isinstance(kind, str) or kind not in transformers.CONFIG_MAPPING:
        version = transformers.__version__
        raise InputError(f"{source.name}: transformers {version} has no type of model {kind!r}. {REMEDY}")
    if kind in REFUSED:
        raise InputError(f"{source.name}: {REFUSED[kind]}")
    multimodal: Any = transformers.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING
    if config.pooling != SAVED and transformers.CONFIG_MAPPING[kind] not in multimodal:
        raise InputError(
            f"{source.name}: model.pooling={config.pooling} needs a multimodal language model, got {kind}. "
            "For a dual encoder, use model=hf."
        )


def _check_inputs(source: hub.Source, module: str, path: Path | None) -> None:
    """Raise `InputError` if the first module does not take both pictures and texts."""
    inputs = huggingface.read_json(path, source) if path else {}
    if "tokenizer_name_or_path" in inputs:
        raise InputError(
            f"{source.name}: {INPUTS} takes the tokenizer of another repository "
            f"({brief(str(inputs['tokenizer_name_or_path']))}). {REMEDY}"
        )
    task = inputs.get("transformer_task", "feature-extraction")
    if task != "feature-extraction":
        raise InputError(f"{source.name}: {INPUTS} says {task}, expected feature-extraction. {REMEDY}")
    kinds = inputs.get("modality_config", dict.fromkeys(NEEDED) if module == "CLIPModel" else {"text": None})
    if not {*NEEDED} <= {*kinds}:
        raise InputError(
            f"{source.name}: it embeds {', '.join(kinds) or 'nothing'} alone ({INPUTS}); expected text and "
            f"image, in one space. Choose a multimodal model. {REMEDY}"
        )


def choose_prompt(config: configs.SentenceTransformersConfig, settings: Mapping[str, Any]) -> str:
    """Return the instruction before each input; raise `InputError` if the model has none of that name.

    `settings`: content of `PROMPTS`.
    """
    prompts = {**NO_INSTRUCTIONS, **(settings.get("prompts") or {})}
    if config.prompt is not None:
        if config.prompt_name is not None:
            raise InputError(
                f"model.prompt={config.prompt!r}, model.prompt_name={config.prompt_name}: expected one of "
                "them. Leave out the other."
            )
        return config.prompt
    name = config.prompt_name if config.prompt_name is not None else settings.get("default_prompt_name")
    if name is None:
        return ""
    if name not in prompts:
        raise InputError(
            f"model.prompt_name={name}: {config.id} has only {', '.join(sorted(prompts))}. Choose one of "
            "these, or write the instruction: model.prompt=TEXT."
        )
    return str(prompts[name] or "")


def locate_weights(source: hub.Source, layout: Layout) -> dict[str, Path]:
    """Locate the weights of all modules; return name in the repository -> file."""
    remedy = f"{huggingface.SAFETENSORS_REMEDY} {source.remedy}"
    source, root = replace(source, remedy=remedy), layout.root
    paths = pretrained.locate_transformers_weights(source, pretrained.SAFETENSORS, root)
    weights = {root + path.name: path for path in paths}
    dense = [(folder + pretrained.SAFETENSORS[0],) for name, folder in layout.modules if name == "Dense"]
    return weights | hub.locate_files(source, dense)
