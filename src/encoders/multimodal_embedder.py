"""Adapt a multimodal embedder of sentence-transformers to the protocol of encoders."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from PIL import Image
from torch import Tensor, nn

from src.encoders.dual_encoder import (
    FULL_LENGTH,
    IGNORED,
    REMEDY,
    find_context,
    keep_last_layers_float32,
    must_lower_case,
)
from src.encoders.precision import TRANSFORMERS_LAYERS, Float32, convert_weights, encode_unit_vectors
from src.encoders.preprocessing import SplitPreprocessing
from src.errors import InputError

# Sizes of the two pictures that tell whether a model resizes all pictures to the same number of pixels.
SIZES = ((64, 48), (96, 120))
# Inputs of a text that are made of its tokens alone.
TOKEN_INPUTS = ("input_ids", "attention_mask")


class MultimodalEmbedder(nn.Module):
    """A `SentenceTransformer` that embeds pictures and texts, with an instruction before each of them.

    Sentences are not padded, as padding moves the vectors of some models: batches have sentences of the same
    number of tokens. Only those of `FULL_LENGTH` are padded, to the full length, as in their training.
    `precision` applies to the towers; what follows them is float32.

    Attributes:
        max_pictures: maximum number of pictures per batch: 1 for models whose input depends on the size of
            the picture; None: any.
    """

    def __init__(
        self, model: Any, name: str, prompt: str, truncate_dim: int | None = None, precision: str = "fp32"
    ) -> None:
        super().__init__()
        self.model = model
        self._name, self._prompt, self._precision = name, prompt, precision
        self._truncate_dim = truncate_dim
        self._is_full_length = model.config.model_type in FULL_LENGTH
        self._must_lower_case = must_lower_case(model.config, model.tokenizer)
        self._context = find_context(model.config, model.tokenizer)
        self.max_pictures = None if self._resizes_pictures() else 1
        self._text_inputs = self._preprocess_texts(["a"])
        _check_text_inputs(name, self._text_inputs)
        if precision != "fp32":
            _keep_heads_float32(model)
            convert_weights(model, precision, TRANSFORMERS_LAYERS)

    def transform(self, picture: Image.Image) -> Tensor:
        """Return the input pixels of a picture [3, H, W], or its bytes if these depend on its size."""
        if self.max_pictures is None:
            pixels: Tensor = self._preprocess_picture(picture)["pixel_values"][0]
            return pixels
        return torch.from_numpy(np.array(picture)).permute(2, 0, 1).contiguous()

    def split_preprocessing(self) -> SplitPreprocessing | None:
        """Return None: the library's image processors resize and normalise in the same step."""
        return None

    def tokenize(self, sentences: Sequence[str]) -> Int[Tensor, "n context"]:
        """Return token ids with the instruction and the model's chat template, padded with `IGNORED`.

        Raise `InputError` if a sentence exceeds the context.
        """
        texts = [sentence.lower() if self._must_lower_case else sentence for sentence in sentences]
        inputs = self._preprocess_texts(texts)
        padded = zip(inputs["input_ids"], inputs["attention_mask"].bool(), strict=True)
        rows = [ids[mask] for ids, mask in padded]
        for sentence, ids in zip(sentences, rows, strict=True):
            if len(ids) > self._context:
                raise InputError(
                    f"{self._name}: {sentence!r} needs {len(ids)} tokens with its instruction, the context "
                    f"holds {self._context}. Shorten the sentence or the instruction."
                )
        if not self._is_full_length:
            return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=IGNORED)
        tokens = torch.full((len(rows), self._context), self.model.tokenizer.pad_token_id)
        for target, ids in zip(tokens, rows, strict=True):
            target[: len(ids)] = ids
        return tokens

    def count_relevant_tokens(self, tokens: Int[Tensor, "n context"]) -> Int[Tensor, " n"]:
        """Return the number of tokens of each sentence."""
        return (tokens != IGNORED).sum(dim=1)

    def encode_images(self, pixels: Tensor) -> Float[Tensor, "n width"]:
        """Return unit vectors of images, float32."""
        return encode_unit_vectors(self._embed_pictures, pixels, self._precision)

    def encode_texts(self, tokens: Int[Tensor, "n context"]) -> Float[Tensor, "n width"]:
        """Return unit vectors of texts, float32."""
        return encode_unit_vectors(self._embed_texts, tokens, self._precision)

    def _embed_pictures(self, pixels: Tensor) -> Tensor:
        if self.max_pictures is None:
            return self._embed({"pixel_values": pixels, "modality": "image"})
        return torch.cat([self._embed_bytes(picture) for picture in pixels])

    def _embed_bytes(self, picture: Tensor) -> Tensor:
        inputs = self._preprocess_picture(Image.fromarray(picture.permute(1, 2, 0).cpu().numpy()))
        return self._embed(_move(inputs, picture.device))

    def _embed_texts(self, tokens: Tensor) -> Tensor:
        mask = tokens != IGNORED
        # Other inputs with a value per token, such as the types of tokens, are zero for texts.
        inputs = {
            name: torch.zeros_like(tokens) if isinstance(value, Tensor) else value
            for name, value in self._text_inputs.items()
        }
        return self._embed({**inputs, "input_ids": tokens.where(mask, 0), "attention_mask": mask.long()})

    def _embed(self, inputs: dict[str, Any]) -> Float[Tensor, "n width"]:
        vectors = self.model(inputs).get("sentence_embedding")
        if not isinstance(vectors, Tensor) or vectors.dim() != 2:
            shape = [*vectors.shape] if isinstance(vectors, Tensor) else "none: its modules lack a pooling"
            raise InputError(f"{self._name}: expected a vector per item, got {shape}. {REMEDY}")
        if self._truncate_dim is not None and not 1 <= self._truncate_dim <= vectors.shape[1]:
            raise InputError(
                f"{self._name}: model.truncate_dim={self._truncate_dim}, but its vectors have "
                f"{vectors.shape[1]} dimensions. Choose from 1 to {vectors.shape[1]}."
            )
        return vectors[:, : self._truncate_dim]

    def _preprocess_picture(self, picture: Image.Image) -> dict[str, Any]:
        # The instruction is part of the chat template of a picture, too.
        inputs: dict[str, Any] = self.model.preprocess([picture], prompt=self._prompt)
        return inputs

    def _preprocess_texts(self, sentences: Sequence[str]) -> dict[str, Any]:
        # As dictionaries, since the library takes a text that looks like an address for a picture.
        texts = [{"text": sentence} for sentence in sentences]
        prompt = self._prompt.lower() if self._must_lower_case else self._prompt
        options = {"text": {"truncation": False, "return_attention_mask": True}}
        inputs: dict[str, Any] = self.model.preprocess(texts, prompt=prompt, processing_kwargs=options)
        return inputs

    def _resizes_pictures(self) -> bool:
        """Return whether pictures of any size become pixels of the same shape, and nothing else."""
        inputs = [_select_tensors(self._preprocess_picture(Image.new("RGB", size))) for size in SIZES]
        shapes = {tuple(each[name].shape) for each in inputs for name in each}
        return all({*each} == {"pixel_values"} for each in inputs) and len(shapes) == 1


def _select_tensors(inputs: Mapping[str, Any]) -> dict[str, Tensor]:
    return {name: value for name, value in inputs.items() if isinstance(value, Tensor)}


def _move(inputs: Mapping[str, Any], device: torch.device) -> dict[str, Any]:
    return {**inputs, **{name: value.to(device) for name, value in _select_tensors(inputs).items()}}


def _check_text_inputs(name: str, inputs: Mapping[str, Any]) -> None:
    """Raise `InputError` if the inputs of a text are not made of its tokens alone."""
    others = {key: value for key, value in _select_tensors(inputs).items() if key not in TOKEN_INPUTS}
    unknown = sorted(
        key for key, value in others.items() if value.any() or value.shape != inputs["input_ids"].shape
    )
    if unknown:
        raise InputError(f"{name}: expected token ids of a text, got {', '.join(unknown)} as well. {REMEDY}")


def _keep_heads_float32(model: Any) -> None:
    """Make what follows the towers compute in float32: projections of dual encoders, and dense layers."""
    from sentence_transformers.sentence_transformer.modules import Dense

    if hasattr(model.transformers_model, "get_text_features"):
        keep_last_layers_float32(model.transformers_model)
    for module in model:
        if isinstance(module, Dense):
            module.linear = Float32(module.linear)  # type: ignore[assignment]
