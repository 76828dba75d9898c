"""Open multimodal embedders of sentence-transformers from the hub, its cache, or a folder."""

import json
import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers

from src import configs
from src.encoders import catalogue, hub, huggingface, pretrained
from src.encoders.dual_encoder import find_unread_texts
from src.encoders.embedder_files import SAVED, Layout, choose_prompt, find_layout, locate_weights
from src.encoders.multimodal_embedder import MultimodalEmbedder
from src.encoders.protocol import Encoder, EncoderFamily, half_precision_versions
from src.errors import InputError
from src.storage import cache
from src.storage.versions import declared_versions, library_versions

LIBRARIES = (*huggingface.LIBRARIES, "sentence-transformers")


def open_encoder(config: configs.SentenceTransformersConfig, accelerator: str) -> Encoder:
    """Open the encoder of a config: locate its files without loading its weights.

    Raise `InputError` if it does not embed pictures and texts, before any large file is fetched.
    """
    source = _locate(config)
    layout = find_layout(config, source)
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
        "parts": declared_versions("encoders.sentence_transformers")
        | half_precision_versions(config.precision),
        "versions": library_versions(*LIBRARIES),
    }

    def load() -> MultimodalEmbedder:
        name = str(config.name or config.id)
        model = _load(config, source, layout)
        with pretrained.convert_load_errors(config.id):
            return MultimodalEmbedder(model, name, prompt, truncate_dim, config.precision).eval()

    return Encoder(
        identity,
        lambda: pretrained.identify_weights(config, lambda: [*locate_weights(source, layout).values()]),
        load,
        partial(_find_unread, source, layout, prompt),
    )


def _find_unread(source: hub.Source, layout: Layout, prompt: str, texts: Sequence[str]) -> dict[int, str]:
    """Find texts that are not read whole, with the instruction, but without the tokens of a chat template."""
    with pretrained.convert_load_errors(source.name), pretrained.link_files(layout.files) as folder:
        config = transformers.AutoConfig.from_pretrained(folder / layout.root, **huggingface.NO_CODE)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder / layout.root, **huggingface.NO_CODE)
        return find_unread_texts(config, tokenizer, [prompt + text for text in texts])


def _locate(config: configs.SentenceTransformersConfig) -> hub.Source:
    command = pretrained.format_fetch_command(config)
    command += f" model.pooling={config.pooling}" if config.pooling != SAVED else ""
    kind = "multimodal model of sentence-transformers"
    return pretrained.locate_source(config, "model", kind, f"Fetch it where there is a network: {command}")


def _load(config: configs.SentenceTransformersConfig, source: hub.Source, layout: Layout) -> Any:
    """Load a `SentenceTransformer`; raise `InputError` if its files are truncated or inconsistent."""
    logging.getLogger("transformers").setLevel(logging.ERROR)
    untrained = config.weights == "random"
    weights = {} if untrained else locate_weights(source, layout)
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

    model_class: Any = SentenceTransformer
    no_code: Any = huggingface.NO_CODE
    options = {"dtype": torch.float32, "use_safetensors": True, **no_code}
    if config.pooling == SAVED:
        model = model_class(str(folder), device="cpu", model_kwargs=options, **no_code)
    else:
        kwargs = {"model_kwargs": options, "processor_kwargs": no_code, "config_kwargs": no_code}
        first = Transformer(str(folder), **kwargs)
        modules = [first, Pooling(first.get_embedding_dimension(), config.pooling)]
        model = model_class(modules=modules, device="cpu")
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
    """Write weights of dense layers, and none of the first module, which the library then draws."""
    from safetensors.torch import save_file

    metadata = {"format": "pt"}
    save_file({}, folder / layout.root / pretrained.SAFETENSORS[0], metadata=metadata)
    for name, path in layout.modules:
        if name == "Dense":
            linear = pretrained.build_seeded(partial(_build_dense, folder / path))
            tensors = {f"linear.{key}": value for key, value in linear.state_dict().items()}
            save_file(tensors, folder / path / pretrained.SAFETENSORS[0], metadata=metadata)


def _build_dense(folder: Path) -> torch.nn.Linear:
    """Build the linear layer of a dense module by the config in its folder, with random weights."""
    sizes = json.loads((folder / huggingface.CONFIG).read_text("utf-8"))
    return torch.nn.Linear(sizes["in_features"], sizes["out_features"], sizes.get("bias", True))


def measure_size(config: configs.SentenceTransformersConfig) -> dict[str, str]:
    """Return parameters in millions and width by the small files; empty if these are not here or unfit."""
    try:
        with cache.forbid_building():
            layout = find_layout(config, _locate(config))
        with pretrained.convert_load_errors(config.id), pretrained.link_files(layout.files) as folder:
            first: Any = transformers.AutoConfig.from_pretrained(folder / layout.root, **huggingface.NO_CODE)
            architecture: Any = transformers.AutoModel.from_config
            parameters = huggingface.count_parameters(architecture, first)
            dense = [_build_dense(folder / path) for name, path in layout.modules if name == "Dense"]
    except (cache.NotStored, InputError):
        return {}
    is_pooled = config.pooling != SAVED or any(name == "Pooling" for name, _ in layout.modules)
    width = first.get_text_config().hidden_size if is_pooled else huggingface.find_width(first)
    width = dense[-1].out_features if dense else width
    parameters += sum(weights.numel() for layer in dense for weights in layer.parameters())
    truncate_dim = config.truncate_dim or layout.settings.get("truncate_dim")
    return huggingface.format_size(parameters, truncate_dim or width)


def _name_architecture(config: configs.SentenceTransformersConfig) -> str:
    """Return the name of a model without its width, as all widths share its weights."""
    return pretrained.choose_default_name(config, config.family)


FAMILY = EncoderFamily(
    name="sentence_transformers",
    config=configs.SentenceTransformersConfig,
    encoder=open_encoder,
    fetch_files=lambda config: [
        *locate_weights(source := _locate(config), find_layout(config, source)).values()
    ],
    pretraining=catalogue.pretraining_of,
    facts=catalogue.facts_of,
    size=measure_size,
    declared=catalogue.declared_facts,
    architecture=_name_architecture,
    default_name=pretrained.choose_default_name,
    instruction=("prompt", "prompt_name"),
)
