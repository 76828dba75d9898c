"""Open multimodal embedders of sentence-transformers from the hub, its cache, or a folder."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import torch
import transformers

from src import configs
from src.encoders import catalogue, hub, huggingface, pretrained
from src.encoders.dual_encoder import REMEDY
from src.encoders.multimodal_embedder import MultimodalEmbedder
from src.encoders.protocol import Encoder, EncoderFamily
from src.errors import InputError, brief
from src.storage.versions import declared_versions, library_versions

MODULES, CONFIG = "modules.json", huggingface.CONFIG
PROMPTS = "config_sentence_transformers.json"  # instructions and width of the vectors
INPUTS = "sentence_bert_config.json"  # kinds of inputs of the first module
ADAPTER = "adapter_config.json"
# Of processors of multimodal language models.
TEMPLATES = ("chat_template.jinja", "chat_template.json", "video_preprocessor_config.json")
LIBRARIES = (*huggingface.LIBRARIES, "sentence-transformers")
# Classes of the library, by the last part of their names, that can be first in a model, and after it.
FIRST_CLASSES, OTHER_CLASSES = {"Transformer", "CLIPModel"}, {"Pooling", "Dense", "Normalize"}
PACKAGE = "sentence_transformers."
NEEDED = ("text", "image")
# Instructions that the library defines for every model.
NO_INSTRUCTIONS = {"query": "", "document": ""}
# Type of model -> why its vectors cannot be compared, and the remedy.
REFUSED = {"blip-2": "the library lacks its projections. Use model=blip2."}


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


def open_encoder(config: configs.SentenceTransformersConfig, accelerator: str) -> Encoder:
    """Open the encoder of a config: locate its files without loading its weights.

    Raise `InputError` if it does not embed pictures and texts, before any large file is fetched.
    """
    source = _locate(config)
    layout = _find_layout(config, source)
    prompt = choose_prompt(config, layout.settings)
    truncate_dim = config.truncate_dim or layout.settings.get("truncate_dim")
    identity = {
        "architecture": [name for name, _ in layout.modules],
        "files": {name: hub.hash_files([path]) for name, path in layout.files.items()},
        "prompt": prompt,
        "pooling": config.pooling,
        "truncate_dim": truncate_dim,
        "precision": config.precision,
        "accelerator": accelerator,
        "parts": declared_versions("encoders.sentence_transformers"),
        "versions": library_versions(*LIBRARIES),
    }

    def load() -> MultimodalEmbedder:
        name = str(config.name or config.id)
        model = _load(config, source, layout)
        with pretrained.convert_load_errors(config.id):
            return MultimodalEmbedder(model, name, prompt, truncate_dim, config.precision).eval()

    return Encoder(
        identity,
        lambda: pretrained.identify_weights(config, lambda: [*_locate_weights(source, layout).values()]),
        load,
    )


def choose_prompt(config: configs.SentenceTransformersConfig, settings: Mapping[str, Any]) -> str:
    """Return the instruction before each input; raise `InputError` if the model has none of that name.

    `settings`: content of `PROMPTS`.
    """
    prompts = {**NO_INSTRUCTIONS, **(settings.get("prompts") or {})}
    if config.prompt is not None:
        if config.prompt_name is not None:
            raise InputError(
                f"model.prompt={config.prompt!r}, model.prompt_name={config.prompt_name}: only one of them can "
                "be set. Leave out the other."
            )
        return config.prompt
    name = config.prompt_name if config.prompt_name is not None else settings.get("default_prompt_name")
    if name is None:
        return ""
    if name not in prompts:
        raise InputError(
            f"model.prompt_name={name}: {config.id} has only {', '.join(sorted(prompts))}. Choose one of these, "
            "or write the instruction: model.prompt=TEXT."
        )
    return prompts[name] or ""


def _find_layout(config: configs.SentenceTransformersConfig, source: hub.Source) -> Layout:
    """Find the modules of a model and locate their small files; raise `InputError` for unsuitable models."""
    modules, files = _read_modules(config, source)
    settings = huggingface.read_json(files[PROMPTS], source) if PROMPTS in files else {}
    root = modules[0][1]
    # Without the file, the library takes texts alone; a CLIPModel is one of pictures and texts.
    has_inputs = bool(not config.pooling and modules[0][0] == "Transformer")
    files |= hub.locate_files(
        source, [(root + CONFIG,), *([(root + INPUTS,)] if has_inputs else [])], [root + INPUTS, root + ADAPTER]
    )
    _refuse_code(source, files)
    _check_architecture(config, source, files, root)
    if not config.pooling:
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
    if config.pooling:
        files = hub.locate_files(source, [(CONFIG,)], [MODULES])
        if MODULES in files:
            raise InputError(
                f"{source.name}: model.pooling={config.pooling}, but its {MODULES} says how it pools. "
                "Leave out model.pooling."
            )
        return [("Transformer", "")], files
    remedy = (
        "Without it, the library would average all tokens. Look for it in the pull requests of the repository "
        "(model.revision=refs/pr/N), or, for a multimodal language model, set model.pooling, as lasttoken. "
    )
    files = hub.locate_files(
        replace(source, remedy=remedy + source.remedy), [(MODULES,)], [PROMPTS, ADAPTER]
    )
    try:
        entries = json.loads(files[MODULES].read_text("utf-8"))
        modules = [(str(entry["type"]), str(entry["path"])) for entry in entries]
        if not modules:
            raise ValueError("expected a list of modules")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{files[MODULES]}: not a list of modules ({brief(repr(error))}). {REMEDY}") from None
    return [_check_module(source, *module, is_first=not i) for i, module in enumerate(modules)], files


def _check_module(source: hub.Source, kind: str, folder: str, is_first: bool) -> tuple[str, str]:
    """Return the last part of the name of a module's class, and its folder."""
    if not kind.startswith(PACKAGE):
        raise InputError(
            f"{source.name}: {MODULES} names {brief(kind)}, code outside sentence-transformers, which is never "
            f"run. {REMEDY}"
        )
    name = kind.rpartition(".")[2]
    allowed = FIRST_CLASSES if is_first else OTHER_CLASSES
    if name not in allowed:
        reason = "which takes texts alone or is not supported" if is_first else "which is not supported"
        raise InputError(
            f"{source.name}: {MODULES} names {name}, {reason}; expected {' or '.join(sorted(allowed))}. {REMEDY}"
        )
    parts = PurePosixPath(folder).parts
    if len(parts) > 1 or {*parts} & {"..", "/"}:
        raise InputError(f"{source.name}: {MODULES} names the folder {brief(folder)!r}, expected a subfolder. {REMEDY}")
    return name, f"{parts[0]}/" if parts else ""


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
    if config.pooling and transformers.CONFIG_MAPPING[kind] not in multimodal:
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


def _locate(config: configs.SentenceTransformersConfig) -> hub.Source:
    command = pretrained.format_fetch_command(config)
    command += f" model.pooling={config.pooling}" if config.pooling else ""
    kind = "multimodal model of sentence-transformers"
    return pretrained.locate_source(config, "model", kind, f"Fetch it where there is a network: {command}")


def _locate_weights(source: hub.Source, layout: Layout) -> dict[str, Path]:
    """Locate the weights of all modules; return name in the repository -> file."""
    remedy = f"{huggingface.SAFETENSORS_REMEDY} {source.remedy}"
    source, root = replace(source, remedy=remedy), layout.root
    paths = pretrained.locate_transformers_weights(source, pretrained.SAFETENSORS, root)
    weights = {root + path.name: path for path in paths}
    dense = [(folder + pretrained.SAFETENSORS[0],) for name, folder in layout.modules if name == "Dense"]
    return weights | hub.locate_files(source, dense)


def _load(config: configs.SentenceTransformersConfig, source: hub.Source, layout: Layout) -> Any:
    """Load a `SentenceTransformer`; raise `InputError` if its files are truncated or inconsistent."""
    logging.getLogger("transformers").setLevel(logging.ERROR)
    untrained = config.weights == "random"
    weights = {} if untrained else _locate_weights(source, layout)
    with (
        pretrained.convert_load_errors(config.id),
        pretrained.link_files({**layout.files, **weights}) as folder,
    ):
        if untrained:
            _write_untrained(folder, layout)
            return pretrained.build_seeded(lambda: _build(config, folder))
        _check_complete(folder / layout.root)
        return _build(config, folder)


def _build(config: configs.SentenceTransformersConfig, folder: Path) -> Any:
    # Imported here, as it takes seconds.
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    options: dict[str, Any] = {"dtype": torch.float32, "use_safetensors": True, **huggingface.NO_CODE}
    if not config.pooling:
        model = SentenceTransformer(str(folder), device="cpu", model_kwargs=options, **huggingface.NO_CODE)
    else:
        no_code: dict[str, Any] = {"processor_kwargs": huggingface.NO_CODE, "config_kwargs": huggingface.NO_CODE}
        first = Transformer(str(folder), model_kwargs=options, **no_code)
        modules = [first, Pooling(first.get_embedding_dimension(), config.pooling)]
        model = SentenceTransformer(modules=modules, device="cpu")
    if {weights.dtype for weights in model.parameters()} != {torch.float32}:
        raise ValueError("its weights are not float32")
    return model


def _check_complete(folder: Path) -> None:
    """Raise `ValueError` if weights lack tensors: the library would draw them at random without a word."""
    auto: Any = transformers.AutoModel
    options: dict[str, Any] = {"dtype": torch.float32, "use_safetensors": True, **huggingface.NO_CODE}
    _, loading_info = auto.from_pretrained(folder, output_loading_info=True, **options)
    pretrained.check_complete(loading_info)


def _write_untrained(folder: Path, layout: Layout) -> None:
    """Write weights that make the library draw random ones: none for the first module, drawn ones of others."""
    from safetensors.torch import save_file

    metadata = {"format": "pt"}
    save_file({}, folder / layout.root / pretrained.SAFETENSORS[0], metadata=metadata)
    for name, path in layout.modules:
        if name == "Dense":
            sizes = json.loads((folder / path / CONFIG).read_text("utf-8"))
            linear = pretrained.build_seeded(
                lambda sizes=sizes: torch.nn.Linear(
                    sizes["in_features"], sizes["out_features"], sizes.get("bias", True)
                )
            )
            tensors = {f"linear.{key}": value for key, value in linear.state_dict().items()}
            save_file(tensors, folder / path / pretrained.SAFETENSORS[0], metadata=metadata)


def _name_architecture(config: configs.SentenceTransformersConfig) -> str:
    """Return the name of a model without its instruction and width, which all share its weights."""
    return pretrained.choose_default_name(config, config.family)


FAMILY = EncoderFamily(
    name="sentence_transformers",
    config=configs.SentenceTransformersConfig,
    encoder=open_encoder,
    files=lambda config: [*_locate_weights(source := _locate(config), _find_layout(config, source)).values()],
    pretraining=catalogue.pretraining_of,
    facts=catalogue.facts_of,
    architecture=_name_architecture,
    default_name=pretrained.choose_default_name,
)
