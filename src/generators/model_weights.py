"""Load weights of generative models: untrained ones, or from the hub, its cache or a folder."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from src import configs
from src.encoders import hub, pretrained
from src.encoders.precision import check_precision
from src.errors import InputError
from src.generators import chat_templates, tiny
from src.generators.language_models import Causal, Multimodal

# Files besides the weights; of the names in each inner tuple, at least one is required (`hub.locate_files`).
REQUIRED = (("config.json",), ("tokenizer.json", "tokenizer.model", "vocab.json"))
OPTIONAL = (
    *("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "merges.txt"),
    *("chat_template.jinja", "generation_config.json"),
)
# Further files of a multimodal model; older repositories have the chat template in a JSON file.
PROCESSOR_REQUIRED = (("processor_config.json", "preprocessor_config.json"),)
PROCESSOR_OPTIONAL = ("preprocessor_config.json", "chat_template.json")
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class LocatedModel:
    """A model whose files are available."""

    config: configs.WeightsConfig  # config of the model
    other_files: Mapping[str, Path]  # files other than weights, by name
    weights: tuple[Path, ...]  # files of the weights

    def read_metadata(self) -> dict[str, str]:
        """Return the revision and the hashes of the weights and other files, and the day if templates use it.

        Raises `InputError` for a file that is truncated or changed, or weights that do not match
        `llm.sha256`.
        """
        metadata = pretrained.verify_weights(self.config, self.weights, "llm")
        if any(map(chat_templates.reads_clock, chat_templates.read_templates(self.other_files.values()))):
            metadata |= {"chat_date": chat_templates.parse_day(self.config.date).isoformat()}
        return metadata | {name: hub.hash_files([path]) for name, path in self.other_files.items()}


def check_device(cfg: configs.GenerateConfig) -> None:
    """Check that this machine supports the model's precision; raise `InputError` otherwise."""
    if isinstance(cfg.llm, configs.HfConfig | configs.VlmHfConfig):
        if cfg.trainer.accelerator not in ("cpu", "gpu", "auto"):
            raise InputError(
                f"trainer.accelerator={cfg.trainer.accelerator}: expected cpu, gpu or auto. Choose one of "
                "them."
            )
        check_precision("llm.precision", cfg.llm.precision, cfg.trainer.accelerator)


def find_weights(
    cfg: configs.GenerateConfig,
) -> tuple[dict[str, str], Callable[[], Causal | Multimodal] | None]:
    """Locate a model (see `locate`); return the revision and hashes of its weights, and its loader.

    Returns ({}, None) if a server runs the model, or if answers need no model (`llm=planted`).
    """
    llm = cfg.llm
    if isinstance(llm, configs.TinyConfig):
        return {"revision": "random"}, partial(tiny.load, llm)
    if isinstance(llm, configs.TinyVlmConfig):
        return {"revision": "random"}, partial(tiny.load_multimodal, llm)
    if not isinstance(llm, configs.HfConfig | configs.VlmHfConfig):
        return {}, None
    source = locate(llm)
    accelerator = cfg.trainer.accelerator
    gpu = accelerator == "gpu" or (accelerator == "auto" and torch.cuda.is_available())
    return source.read_metadata(), partial(load, source, torch.device("cuda" if gpu else "cpu"))


def locate(config: configs.WeightsConfig) -> LocatedModel:
    """Locate a model's files, and fetch files that are not cached.

    Raises:
        InputError: `llm.date` is not a day, files are not available, or a chat template draws at random.
        NotStored: within `cache.forbid_building`, files would have to be fetched.
    """
    chat_templates.parse_day(config.date)  # raises before files are fetched
    multimodal = isinstance(config, configs.MultimodalConfig)
    kind = f"{'multimodal' if multimodal else 'causal language'} model of transformers"
    remedy = (
        "Run the same command with access to the network (a gated model needs HF_TOKEN), or choose a "
        "folder with its files."
    )
    source = pretrained.locate_source(config, "llm", kind, remedy)
    required, optional = (*REQUIRED, *PROCESSOR_REQUIRED), (*OPTIONAL, *PROCESSOR_OPTIONAL)
    other_files = hub.locate_files(source, *((required, optional) if multimodal else (REQUIRED, OPTIONAL)))
    for template in chat_templates.read_templates(other_files.values()):
        chat_templates.refuse_random(template, config.id)
    return LocatedModel(config, other_files, tuple(pretrained.locate_transformers_weights(source)))


def load(source: LocatedModel, device: torch.device) -> Causal | Multimodal:
    """Load a causal or multimodal model; raise `InputError` if its files are of another kind."""
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, AutoProcessor, AutoTokenizer

    config = source.config
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError(
            "trainer.accelerator=gpu: expected a GPU that torch can use, found none. Choose trainer=auto or "
            "trainer=cpu."
        )
    if isinstance(config, configs.CausalConfig):
        model, tokenizer = _load_with(source, AutoModelForCausalLM, AutoTokenizer, config.precision, device)
        return Causal(model, tokenizer, config.batch_size)
    assert isinstance(config, configs.MultimodalConfig)
    model, processor = _load_with(
        source, AutoModelForImageTextToText, AutoProcessor, config.precision, device
    )
    with pretrained.convert_load_errors(config.id):
        if not hasattr(processor, "image_processor"):
            raise ValueError("its processor has no image processor")
    return Multimodal(model, processor, config.batch_size)


def _load_with(
    source: LocatedModel, kind: Any, reader: Any, precision: str, device: torch.device
) -> tuple[Any, Any]:
    """Load a model and its tokenizer or processor by the Auto classes `kind` and `reader` of transformers."""
    from huggingface_hub.errors import StrictDataclassError
    from transformers import GenerationConfig

    logging.getLogger("transformers").setLevel(logging.ERROR)
    # Never run code of a repository.
    local = {"local_files_only": True, "trust_remote_code": False}
    files = {**source.other_files, **{path.name: path for path in source.weights}}
    with pretrained.convert_load_errors(source.config.id), pretrained.link_files(files) as folder:
        try:
            model, loading_info = kind.from_pretrained(
                folder, dtype=DTYPES[precision], weights_only=True, output_loading_info=True, **local
            )
        except StrictDataclassError as error:  # a config.json that contradicts itself
            raise ValueError(" ".join(str(error).split())) from None
        pretrained.check_complete(loading_info)
        preprocessor = reader.from_pretrained(folder, **local)
        preprocessor.chat_template = chat_templates.pin(
            preprocessor.chat_template, chat_templates.parse_day(source.config.date)
        )
    # Only the end token is taken from the repository's options for `generate`, not a repetition penalty.
    make: Any = GenerationConfig
    model.generation_config = make(eos_token_id=model.generation_config.eos_token_id)
    model.requires_grad_(False)
    return model.to(device).eval(), preprocessor
