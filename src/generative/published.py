"""Causal language models that others trained: from the hub, from its cache, or from a folder."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from src.configs import HfConfig
from src.encoders import checkpoints, hub, published
from src.errors import InputError
from src.generative.causal import Causal

CONFIGS = (("config.json",), ("tokenizer.json", "tokenizer.model", "vocab.json"))
TOO = (
    *("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "merges.txt"),
    *("chat_template.jinja", "generation_config.json"),
)
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Published:
    """A model whose files are there.

    Attributes:
        config: which.
        described: its files but for the weights, by name.
        weights: their files.
    """

    config: HfConfig
    described: Mapping[str, Path]
    weights: tuple[Path, ...]

    def said(self) -> dict[str, str]:
        """Revision and hash of the weights.

        Raises:
            InputError: a file was cut or changed since it was fetched, or `llm.sha256` asks for others.
        """
        digest = hub.sha256(self.weights)
        if self.config.sha256 and self.config.sha256.lower() != digest:
            raise InputError(
                f"{self.config.id}: the weights have SHA-256 {digest}, llm.sha256 asks for "
                f"{self.config.sha256}. Fetch the right ones, or correct llm.sha256 ('' takes any)."
            )
        return {"revision": hub.revision(self.weights[0]), "sha256": digest}

    def files(self) -> dict[str, str]:
        """Hash of each file but for the weights."""
        return {name: hub.sha256([path]) for name, path in self.described.items()}


def find(config: HfConfig) -> Published:
    """A model's files, fetched where they are not cached.

    Raises:
        InputError: they are neither there nor to be had.
        NotStored: within `artifacts.dry`, where they would have to be fetched.
    """
    if not config.id.strip():
        raise InputError("llm.id is empty. Say owner/name on the hub, or a folder.")
    folder = Path(config.id).is_dir()
    if folder and config.revision:
        raise InputError(f"{config.id} is a folder: it has no revision. Leave out llm.revision (say '').")
    remedy = (
        "Put the files of a causal language model of transformers there."
        if folder
        else "Run the same command where there is a network (a gated model needs HF_TOKEN), or name a folder "
        "that holds its files."
    )
    place = hub.Place(config.id, None if folder else config.revision or None, folder, remedy)
    described = hub.files(place, CONFIGS, TOO)
    return Published(config, described, tuple(checkpoints.files(place)))


def load(found: Published, device: torch.device) -> Causal:
    """Read a model.

    Raises:
        InputError: its files are cut, or belong to another kind of model.
    """
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoModelForCausalLM, AutoTokenizer

    config = found.config
    logging.getLogger("transformers").setLevel(logging.ERROR)
    # Code that a repository brings along is never run.
    local = {"local_files_only": True, "trust_remote_code": False}
    with (
        published.strict(config.id),
        checkpoints.linked([*found.described.values(), *found.weights]) as folder,
    ):
        try:
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                folder, dtype=DTYPES[config.precision], weights_only=True, output_loading_info=True, **local
            )
        except StrictDataclassError as error:  # a config.json that contradicts itself
            raise ValueError(" ".join(str(error).split())) from None
        model, said = loaded
        lacking = sorted(map(str, [*said["missing_keys"], *said["mismatched_keys"]]))
        if lacking:
            raise ValueError(f"{len(lacking)} tensors lack or misfit, first {lacking[0]}")
        make: Any = AutoTokenizer.from_pretrained
        tokenizer = make(folder, **local)
    model.requires_grad_(False)
    return Causal(model.to(device).eval(), tokenizer, config.batch_size)
