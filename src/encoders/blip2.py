"""BLIP-2's image-text contrastive head (Salesforce/blip2-itm-vit-g) behind the project's protocol."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from PIL import Image
from torch import Tensor, nn

from src import configs
from src.encoders import facts, hub, pretrained, transformers_files
from src.encoders.precision import Float32, unit
from src.encoders.preprocessing import Halves, of_transformers
from src.encoders.protocol import Encoder, EncoderFamily
from src.encoders.remedies import fetch_command
from src.errors import InputError
from src.stimuli import IMAGE_ROLES
from src.storage.versions import declared, versions

CONFIGS = (
    ("config.json",),
    ("processor_config.json", "preprocessor_config.json"),
    ("tokenizer.json", "vocab.txt"),
)
TOO = ("preprocessor_config.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
DECISIVE = ("torch", "torchvision", "pillow", "transformers", "tokenizers")
# Sentences are padded to a multiple of so many tokens.
PADDED = 16


class Blip2(nn.Module):
    """BLIP-2 with its contrastive projections.

    Args:
        model: `transformers.Blip2ForImageTextRetrieval`.
        processor: of pictures, transformers'.
        tokenizer: transformers'.
        name: for messages.
        pooling: `max` keeps an image's Q unit vectors, whose largest cosine counts; `mean` makes them one,
            their mean at unit length.
        precision: of vision tower and Q-Former; projections and normalisation are float32.
    """

    def __init__(
        self,
        model: Any,
        processor: Any,
        tokenizer: Any,
        name: str,
        pooling: str = "max",
        precision: str = "fp32",
    ) -> None:
        super().__init__()
        self.model = model
        self._processor, self._tokenizer, self._name = processor, tokenizer, name
        self._pooling, self._precision = pooling, precision
        self._context = model.config.qformer_config.max_position_embeddings
        if precision != "fp32":
            model.vision_projection = Float32(model.vision_projection)
            model.text_projection = Float32(model.text_projection)

    def transform(self, picture: Image.Image) -> Float[Tensor, "3 height width"]:
        """Pixels as the model takes them."""
        pixels: Tensor = self._processor(picture, return_tensors="pt")["pixel_values"][0]
        return pixels

    def halves(self) -> Halves | None:
        """`transform` in two halves."""
        return of_transformers(self._processor)

    def tokenize(self, sentences: Sequence[str]) -> Int[Tensor, "n context"]:
        """Token ids, padded to the longest sentence.

        Raises:
            InputError: a sentence does not fit the context length.
        """
        encoded = self._tokenizer(list(sentences))["input_ids"]
        for sentence, ids in zip(sentences, encoded, strict=True):
            if len(ids) > self._context:
                raise InputError(
                    f"{self._name}: {sentence!r} needs {len(ids)} tokens, the context holds {self._context}. "
                    "Shorten or leave out the word."
                )
        padded = self._tokenizer.pad(
            {"input_ids": encoded}, padding=True, pad_to_multiple_of=PADDED, return_tensors="pt"
        )
        tokens: Tensor = padded["input_ids"][:, : self._context]
        return tokens

    def lengths(self, tokens: Int[Tensor, "n context"]) -> Int[Tensor, " n"]:
        """How many tokens of each sentence decide its vector: padding is not attended to."""
        found: Tensor = (tokens != self._tokenizer.pad_token_id).sum(dim=1)
        return found

    def encode_images(self, pixels: Float[Tensor, "n 3 height width"]) -> Float[Tensor, "n *queries width"]:
        """Unit vectors of images, float32: [N, Q, D], or [N, D] where they are pooled."""
        vectors = unit(self._images, pixels, self._precision)
        return vectors if self._pooling == "max" else nn.functional.normalize(vectors.mean(dim=1), dim=-1)

    def encode_texts(self, tokens: Int[Tensor, "n context"]) -> Float[Tensor, "n width"]:
        """Unit vectors of texts, float32: of the first token."""
        return unit(self._texts, tokens, self._precision)

    def _images(self, pixels: Tensor) -> Tensor:
        seen = self.model.vision_model(pixel_values=pixels).last_hidden_state
        asked = self.model.qformer(
            query_embeds=self.model.query_tokens.expand(len(seen), -1, -1),
            encoder_hidden_states=seen,
            encoder_attention_mask=torch.ones(seen.shape[:-1], dtype=torch.long, device=seen.device),
        )
        vectors: Tensor = self.model.vision_projection(asked.last_hidden_state)
        return vectors

    def _texts(self, tokens: Tensor) -> Tensor:
        read = self.model.qformer(
            query_embeds=self.model.embeddings(input_ids=tokens),
            query_length=0,
            attention_mask=(tokens != self._tokenizer.pad_token_id).long(),
        )
        vectors: Tensor = self.model.text_projection(read.last_hidden_state[:, 0])
        return vectors


def encoder(config: configs.Blip2Config, accelerator: str) -> Encoder:
    """The encoder that a config names; its files are there, its weights not yet read.

    Raises:
        InputError: its files are neither there nor to be had.
        NotStored: within `artifacts.dry`, where they would have to be fetched.
    """
    place = _place(config)
    described = hub.files(place, CONFIGS, TOO)
    identity = {
        "architecture": "transformers.Blip2ForImageTextRetrieval",
        "files": {name: hub.sha256([path]) for name, path in described.items()},
        "pooling": config.pooling,
        "precision": config.precision,
        "accelerator": accelerator,
        "parts": declared("encoders.blip2"),
        "versions": versions(*DECISIVE),
    }
    return Encoder(
        identity,
        lambda: pretrained.weights(config, lambda: transformers_files.files(place)),
        lambda: _load(config, place, described),
    )


def _place(config: configs.Blip2Config) -> hub.Place:
    remedy = f"Fetch it where there is a network: {fetch_command(config)}"
    return transformers_files.place(config, "model", "Blip2ForImageTextRetrieval", remedy)


def _load(config: configs.Blip2Config, place: hub.Place, described: Mapping[str, Path]) -> Blip2:
    from transformers import AutoImageProcessor, AutoTokenizer, Blip2ForImageTextRetrieval
    from transformers import Blip2Config as Architecture

    logging.getLogger("transformers").setLevel(logging.ERROR)
    random = config.weights == "random"
    paths = [] if random else transformers_files.files(place)
    with (
        pretrained.strict(config.id),
        transformers_files.linked([*described.values(), *paths]) as folder,
    ):
        if random:
            architecture = Architecture.from_pretrained(folder, local_files_only=True)
            model: Any = pretrained.seeded(lambda: Blip2ForImageTextRetrieval(architecture))
        else:
            loaded: Any = Blip2ForImageTextRetrieval.from_pretrained(
                folder,
                local_files_only=True,
                use_safetensors=any(path.suffix == ".safetensors" for path in paths),
                weights_only=True,
                dtype=torch.float32,
                output_loading_info=True,
            )
            model, said = loaded
            transformers_files.complete(said)
        if not model.config.qformer_config.use_qformer_text_input:
            raise ValueError("its Q-Former reads no text: it is no model for retrieval")
        # Code that a repository brings along is never run.
        local = {"local_files_only": True, "trust_remote_code": False}
        make: Any = AutoImageProcessor.from_pretrained
        processor = make(folder, backend="pil", **local)
        tokenizer = AutoTokenizer.from_pretrained(folder, **local)
    return Blip2(model, processor, tokenizer, str(config.name), config.pooling, config.precision).eval()


FAMILY = EncoderFamily(
    name="blip2",
    config=configs.Blip2Config,
    encoder=encoder,
    files=lambda config: transformers_files.files(_place(config)),
    pretraining=facts.pretraining,
    facts=facts.facts,
    several=lambda config, role: role in IMAGE_ROLES and config.pooling == "max",
)
