"""Open dual encoders of transformers from the hub, its cache, or a folder."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers

from src import configs
from src.encoders import catalogue, hub, pretrained
from src.encoders.dual_encoder import REMEDY, DualEncoder, find_unread_texts
from src.encoders.protocol import Encoder, EncoderFamily, half_precision_versions
from src.errors import InputError, brief
from src.storage import cache
from src.storage.versions import declared_versions, library_versions

CONFIG, PREPROCESSOR = "config.json", "preprocessor_config.json"
# Files besides the weights; each inner tuple lists alternatives, one of which is required.
REQUIRED = (
    (CONFIG,),
    ("processor_config.json", PREPROCESSOR),
    ("tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "sentencepiece.bpe.model"),
)
OPTIONAL = (
    *(PREPROCESSOR, "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.json", "merges.txt", "spiece.model"),
)
LIBRARIES = ("torch", "torchvision", "pillow", "transformers", "tokenizers", "sentencepiece")
FEATURES = ("get_image_features", "get_text_features")
# Type of model with both functions -> why its vectors cannot be compared, and the remedy.
REFUSED = {"blip-2": "the vectors of its pictures and of its texts are in different spaces. Use model=blip2."}
# Type of model -> implementation of attention. With the default of transformers 5.23, the causal text tower
# of AIMv2 attends to later tokens in a batch without padding.
ATTENTION = {"aimv2": "eager"}
SAFETENSORS_REMEDY = (
    "Only safetensors are read; the hub offers conversions as pull requests (model.revision=refs/pr/N)."
)
NO_CODE = {"local_files_only": True, "trust_remote_code": False}


def open_encoder(config: configs.HfEncoderConfig, accelerator: str) -> Encoder:
    """Open the encoder of a config: locate its files without loading its weights.

    Raise `InputError` if it is not a dual encoder, before any other file than its config is fetched.
    """
    source = _locate(config)
    architecture = find_architecture(source)
    files = hub.locate_files(source, REQUIRED, OPTIONAL)
    refuse_code(source, files)
    identity = {
        "architecture": f"transformers.{architecture.__name__}",
        "files": {name: hub.hash_files([path]) for name, path in files.items()},
        "precision": config.precision,
        "accelerator": accelerator,
        "parts": declared_versions("encoders.hf") | half_precision_versions(config.precision),
        "versions": library_versions(*LIBRARIES),
    }
    return Encoder(
        identity,
        lambda: pretrained.identify_weights(config, lambda: _weights(source)),
        lambda: _load(config, source, files),
        partial(_find_unread, source, files),
    )


def _find_unread(source: hub.Source, files: Mapping[str, Path], texts: Sequence[str]) -> dict[int, str]:
    with pretrained.convert_load_errors(source.name), pretrained.link_files(files) as folder:
        config = transformers.AutoConfig.from_pretrained(folder, **NO_CODE)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **NO_CODE)
        return find_unread_texts(config, tokenizer, texts)


def find_architecture(source: hub.Source) -> Any:
    """Return the class that transformers loads; raise `InputError` if it is not a dual encoder."""
    files = hub.locate_files(source, [(CONFIG,)])
    refuse_code(source, files)
    settings = read_json(files[CONFIG], source)
    kind = settings.get("model_type")
    version = transformers.__version__
    if not isinstance(kind, str) or kind not in transformers.CONFIG_MAPPING:
        raise InputError(f"{source.name}: transformers {version} has no type of model {kind!r}. {REMEDY}")
    if kind in REFUSED:
        raise InputError(f"{source.name}: {REFUSED[kind]}")
    with pretrained.convert_load_errors(source.name), pretrained.link_files(files) as folder:
        config = transformers.AutoConfig.from_pretrained(folder, **NO_CODE)
        architecture: Any = transformers.MODEL_MAPPING.get(type(config), None)
    missing = [name for name in FEATURES if not hasattr(architecture, name)]
    if missing:
        name = getattr(architecture, "__name__", kind)
        raise InputError(f"{source.name}: {name} has no {' and no '.join(missing)}. {REMEDY}")
    with pretrained.convert_load_errors(source.name):
        _check_published(source, config, architecture)
    return architecture


def _check_published(source: hub.Source, config: Any, architecture: Any) -> None:
    """Raise `InputError` if the class that the weights were saved from lacks tensors of an architecture."""
    for name in config.architectures or ():
        published: Any = getattr(transformers, name, None)
        is_model = isinstance(published, type) and issubclass(published, transformers.PreTrainedModel)
        if not is_model or published is architecture:
            continue
        with torch.device("meta"):  # neither memory nor time
            saved, needed = ({*each(config).state_dict()} for each in (published, architecture))
        prefix = architecture.base_model_prefix
        missing = sorted(key for key in needed if not {key, f"{prefix}.{key}"} & saved)
        if missing:
            raise InputError(
                f"{source.name}: its weights are those of {name}, which lacks {len(missing)} tensors of "
                f"{architecture.__name__}, first {missing[0]}. {REMEDY}"
            )


def refuse_code(source: hub.Source, files: Mapping[str, Path]) -> None:
    """Raise `InputError` if a JSON file names code of the repository."""
    for name, path in files.items():
        # Re-encoded, as a file may escape the key. A vocabulary is large, and cannot name code.
        is_settings = path.suffix == ".json" and path.name not in ("tokenizer.json", "vocab.json")
        if is_settings and '"auto_map"' in json.dumps(read_json(path, source)):
            raise InputError(
                f"{source.name}: {name} names code in the repository (auto_map), which is never run. {REMEDY}"
            )


def read_json(path: Path, source: hub.Source) -> dict[str, Any]:
    """Read a JSON object; raise `InputError` if it is none."""
    try:
        content = json.loads(path.read_text("utf-8"))
        if not isinstance(content, dict):
            raise ValueError("expected an object")
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: not a JSON object ({brief(repr(error))}). {source.remedy}") from None
    return content


def _locate(config: configs.HfEncoderConfig) -> hub.Source:
    remedy = f"Fetch it where there is a network: {pretrained.format_fetch_command(config)}"
    return pretrained.locate_source(config, "model", "dual encoder of transformers", remedy)


def _weights(source: hub.Source) -> list[Path]:
    return pretrained.locate_transformers_weights(
        replace(source, remedy=f"{SAFETENSORS_REMEDY} {source.remedy}"), pretrained.SAFETENSORS
    )


def _load(config: configs.HfEncoderConfig, source: hub.Source, files: Mapping[str, Path]) -> DualEncoder:
    logging.getLogger("transformers").setLevel(logging.ERROR)
    untrained = config.weights == "random"
    paths = [] if untrained else _weights(source)
    with (
        pretrained.convert_load_errors(config.id),
        pretrained.link_files({**files, **{path.name: path for path in paths}}) as folder,
    ):
        auto: Any = transformers.AutoModel
        settings = transformers.AutoConfig.from_pretrained(folder, **NO_CODE)
        options: Any = {"dtype": torch.float32, "attn_implementation": ATTENTION.get(settings.model_type)}
        if untrained:
            model = pretrained.build_seeded(lambda: auto.from_config(settings, **options))
        else:
            options |= {"use_safetensors": True, "output_loading_info": True}
            model, loading_info = auto.from_pretrained(folder, config=settings, **options, **NO_CODE)
            pretrained.check_complete(loading_info)
        load_processor: Any = transformers.AutoImageProcessor.from_pretrained
        processor = load_processor(folder, backend="pil", **NO_CODE)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **NO_CODE)
        network = DualEncoder(model, processor, tokenizer, str(config.name or config.id), config.precision)
    return network.eval()


def measure_size(config: configs.HfEncoderConfig) -> dict[str, str]:
    """Return parameters in millions and width by config.json; empty if it is not here, or unsuitable."""
    try:
        with cache.forbid_building():
            source = _locate(config)
            architecture = find_architecture(source)
            files = hub.locate_files(source, [(CONFIG,)])
        with pretrained.convert_load_errors(config.id), pretrained.link_files(files) as folder:
            settings = transformers.AutoConfig.from_pretrained(folder, **NO_CODE)
            return format_size(count_parameters(architecture, settings), find_width(settings))
    except (cache.NotStored, InputError):
        return {}


def count_parameters(architecture: Any, settings: Any) -> int:
    """Count the parameters of an architecture with the settings of a config, without allocating them."""
    with torch.device("meta"):
        return sum(weights.numel() for weights in architecture(settings).parameters())


def find_width(settings: Any) -> int:
    """Return the width of the vectors of a dual encoder; without projections it is that of its pictures."""
    return int(getattr(settings, "projection_dim", None) or settings.vision_config.hidden_size)


def format_size(parameters: int, width: int) -> dict[str, str]:
    """Format a size as in the columns of `catalogue.COLUMNS`."""
    return {"parameters_millions": f"{parameters / 1e6:.2f}", "width": str(width)}


FAMILY = EncoderFamily(
    name="hf",
    config=configs.HfEncoderConfig,
    encoder=open_encoder,
    fetch_files=lambda config: _weights(_locate(config)),
    pretraining=catalogue.pretraining_of,
    declared=catalogue.declared_facts,
    facts=catalogue.facts_of,
    size=measure_size,
    default_name=pretrained.choose_default_name,
)
