"""Generative models that others trained: from the hub, from its cache, or from a folder."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from src.configs import CausalConfig, MultimodalConfig, WeightsConfig
from src.encoders import hub, pretrained, transformers_files
from src.generators import chat_templates
from src.generators.causal import Causal
from src.generators.multimodal import Multimodal

CONFIGS = (("config.json",), ("tokenizer.json", "tokenizer.model", "vocab.json"))
TOO = (
    *("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "merges.txt"),
    *("chat_template.jinja", "generation_config.json"),
)
# Of a multimodal model, beside those; older repositories have the chat template in a JSON.
PROCESSOR = (("processor_config.json", "preprocessor_config.json"),)
PROCESSOR_TOO = ("preprocessor_config.json", "chat_template.json")
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Published:
    """A model whose files are there.

    Attributes:
        config: which.
        described: its files but for the weights, by name.
        weights: their files.
    """

    config: WeightsConfig
    described: Mapping[str, Path]
    weights: tuple[Path, ...]

    def said(self) -> dict[str, str]:
        """Revision and hash of the weights, and the day of a chat template that asks for one.

        Raises:
            InputError: a file was cut or changed since it was fetched, or `llm.sha256` asks for others.
        """
        return pretrained.verified(self.config, self.weights, "llm") | self._date()

    def _date(self) -> dict[str, str]:
        templates = chat_templates.stored(self.described.values())
        dated = any(map(chat_templates.reads_clock, templates))
        return {"chat_date": chat_templates.day(self.config.date).isoformat()} if dated else {}

    def files(self) -> dict[str, str]:
        """Hash of each file but for the weights."""
        return {name: hub.sha256([path]) for name, path in self.described.items()}


def find(config: WeightsConfig) -> Published:
    """A model's files, fetched where they are not cached.

    Raises:
        InputError: they are neither there nor to be had, or their chat template draws by lot.
        NotStored: within `artifacts.dry`, where they would have to be fetched.
    """
    chat_templates.day(config.date)
    sees = isinstance(config, MultimodalConfig)
    kind = f"{'multimodal' if sees else 'causal language'} model of transformers"
    remedy = (
        "Run the same command where there is a network (a gated model needs HF_TOKEN), or name a folder "
        "that holds its files."
    )
    place = transformers_files.place(config, "llm", kind, remedy)
    described = hub.files(
        place, (*CONFIGS, *(PROCESSOR if sees else ())), (*TOO, *(PROCESSOR_TOO if sees else ()))
    )
    for template in chat_templates.stored(described.values()):
        chat_templates.refuse_random(template, config.id)
    return Published(config, described, tuple(transformers_files.files(place)))


def load(found: Published, device: torch.device) -> Causal | Multimodal:
    """Read a causal language model, or a multimodal one, as its config says.

    Raises:
        InputError: its files are cut, or belong to another kind of model.
    """
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, AutoProcessor, AutoTokenizer

    config = found.config
    if isinstance(config, CausalConfig):
        model, tokenizer = _read(found, AutoModelForCausalLM, AutoTokenizer, config.precision, device)
        return Causal(model, tokenizer, config.batch_size)
    assert isinstance(config, MultimodalConfig)
    model, processor = _read(found, AutoModelForImageTextToText, AutoProcessor, config.precision, device)
    with pretrained.strict(config.id):
        if not hasattr(processor, "image_processor"):
            raise ValueError("its processor reads no pictures")
    return Multimodal(model, processor, config.batch_size)


def _read(found: Published, kind: Any, reader: Any, precision: str, device: torch.device) -> tuple[Any, Any]:
    """A model and what makes tokens for it, by Auto classes of transformers."""
    from huggingface_hub.errors import StrictDataclassError
    from transformers import GenerationConfig

    logging.getLogger("transformers").setLevel(logging.ERROR)
    # Code that a repository brings along is never run.
    local = {"local_files_only": True, "trust_remote_code": False}
    with (
        pretrained.strict(found.config.id),
        transformers_files.linked([*found.described.values(), *found.weights]) as folder,
    ):
        try:
            model, said = kind.from_pretrained(
                folder, dtype=DTYPES[precision], weights_only=True, output_loading_info=True, **local
            )
        except StrictDataclassError as error:  # a config.json that contradicts itself
            raise ValueError(" ".join(str(error).split())) from None
        transformers_files.complete(said)
        made = reader.from_pretrained(folder, **local)
        made.chat_template = chat_templates.pinned(made.chat_template, chat_templates.day(found.config.date))
    # `generate` fills what it is not told from a repository's defaults, such as a penalty for repetition.
    make: Any = GenerationConfig
    model.generation_config = make(eos_token_id=model.generation_config.eos_token_id)
    model.requires_grad_(False)
    return model.to(device).eval(), made
