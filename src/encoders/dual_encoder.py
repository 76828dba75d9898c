"""Adapt a dual encoder of transformers to the protocol of encoders."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from PIL import Image
from torch import Tensor, nn

from src.encoders.precision import TRANSFORMERS_LAYERS, Float32, convert_weights, encode_unit_vectors
from src.encoders.preprocessing import SplitPreprocessing, split_transformers
from src.encoders.unread import find_unread
from src.errors import InputError

# Types of models trained on texts that are padded to the full length, with attention to the padding.
FULL_LENGTH = {"siglip", "siglip2"}
# Types of models whose `pooler_output` has all tokens; training compares the first ones of both towers.
FIRST_TOKEN = {"flava"}
# Names of the last layer of the image tower, and of the text tower, in different classes; of each, the first
# existing one is used.
LAST_LAYERS = (
    ("visual_projection", "image_projection", "vision_model.head", "vision_model.pooler"),
    ("text_projection", "text_model.head"),
)
# Our token id of padding that attention ignores. It is not the tokenizer's: CLIP's padding token also ends a
# text.
IGNORED = -1

REMEDY = "Embed pictures and texts with its own code, and use model=precomputed (docs/data.md)."


class DualEncoder(nn.Module):
    """A model of transformers with `get_image_features` and `get_text_features`.

    `precision` applies to the towers; projections and normalisation are float32.
    """

    def __init__(self, model: Any, processor: Any, tokenizer: Any, name: str, precision: str) -> None:
        super().__init__()
        self.model = model
        self._processor, self._tokenizer, self._name, self._precision = processor, tokenizer, name, precision
        self._is_full_length = model.config.model_type in FULL_LENGTH
        self._must_lower_case = must_lower_case(model.config, tokenizer)
        self._context = find_context(model.config, tokenizer)
        if precision != "fp32":
            keep_last_layers_float32(model)
            convert_weights(model, precision, TRANSFORMERS_LAYERS)

    def transform(self, picture: Image.Image) -> Tensor:
        """Return the input pixels of a picture: [3, H, W], or packed patches (`_pack_patches`)."""
        inputs = self._processor(picture, return_tensors="pt")
        pixels: Tensor = _pack_patches(inputs) if "spatial_shapes" in inputs else inputs["pixel_values"][0]
        return pixels

    def split_preprocessing(self) -> SplitPreprocessing | None:
        """Split `transform` into resizing to bytes and normalising; None if it has other steps."""
        return split_transformers(self._processor)

    def tokenize(self, sentences: Sequence[str]) -> Int[Tensor, "n context"]:
        """Return token ids, padded with `IGNORED`, or as in training (`FULL_LENGTH`).

        Raise `InputError` if a sentence exceeds the context.
        """
        texts = [sentence.lower() if self._must_lower_case else sentence for sentence in sentences]
        token_ids = self._tokenizer(texts)["input_ids"]
        for sentence, ids in zip(sentences, token_ids, strict=True):
            if len(ids) > self._context:
                raise InputError(
                    f"{self._name}: {sentence!r} needs {len(ids)} tokens, the context holds {self._context}. "
                    "Shorten the sentence or drop its word."
                )
        length = self._context if self._is_full_length else max(map(len, token_ids))
        padding = self._tokenizer.pad_token_id if self._is_full_length else IGNORED
        return torch.tensor([ids + [padding] * (length - len(ids)) for ids in token_ids])

    def count_relevant_tokens(self, tokens: Int[Tensor, "n context"]) -> Int[Tensor, " n"]:
        """Return the number of tokens that affect each sentence's vector."""
        return (tokens != IGNORED).sum(dim=1)

    def encode_images(self, pixels: Float[Tensor, "n *shape"]) -> Float[Tensor, "n width"]:
        """Return unit vectors of images, float32."""
        return encode_unit_vectors(self._project_images, pixels, self._precision)

    def encode_texts(self, tokens: Int[Tensor, "n context"]) -> Float[Tensor, "n width"]:
        """Return unit vectors of texts, float32."""
        return encode_unit_vectors(self._project_texts, tokens, self._precision)

    def _project_images(self, pixels: Tensor) -> Tensor:
        is_packed = pixels.dim() == 3  # [n, patches, values], not [n, 3, H, W]
        inputs = _unpack_patches(pixels) if is_packed else {"pixel_values": pixels}
        return self._pool(self.model.get_image_features(**inputs))

    def _project_texts(self, tokens: Tensor) -> Tensor:
        mask = tokens != IGNORED
        ids = tokens.where(mask, self._tokenizer.pad_token_id or 0)
        return self._pool(self.model.get_text_features(input_ids=ids, attention_mask=mask.long()))

    def _pool(self, output: Any) -> Float[Tensor, "n width"]:
        """Return the vectors in the output of a tower; raise `InputError` unless there is one per item."""
        vectors = getattr(output, "pooler_output", None)
        has_tokens = self.model.config.model_type in FIRST_TOKEN
        if not isinstance(vectors, Tensor) or vectors.dim() != 2 + has_tokens:
            shape = [*vectors.shape] if isinstance(vectors, Tensor) else type(vectors).__name__
            raise InputError(
                f"{self._name}: expected a vector per item in `pooler_output` of "
                f"{type(self.model).__name__}, got {shape}. {REMEDY}"
            )
        return vectors[:, 0] if has_tokens else vectors


def must_lower_case(config: Any, tokenizer: Any) -> bool:
    """Return whether the texts of a model have to be brought into lower case before its tokenizer.

    SigLIP's own tokenizer lower-cases texts itself; SigLIP 2 has Gemma's, which keeps upper case.
    """
    return config.model_type in FULL_LENGTH and type(tokenizer).__name__ != "SiglipTokenizer"


def find_context(config: Any, tokenizer: Any) -> int:
    """Return the number of tokens that the context of a model's text tower holds."""
    positions = int(config.get_text_config().max_position_embeddings)
    return positions if config.model_type in FULL_LENGTH else min(positions, tokenizer.model_max_length)


def find_unread_texts(config: Any, tokenizer: Any, texts: Sequence[str]) -> dict[int, str]:
    """Find texts that a model does not read whole by its config and tokenizer (see `unread.find_unread`)."""
    if must_lower_case(config, tokenizer):
        texts = [text.lower() for text in texts]
    return find_unread(tokenizer, texts, find_context(config, tokenizer))


def keep_last_layers_float32(model: nn.Module) -> None:
    """Make the last layer of each tower compute in float32; raise `ValueError` if it is unknown."""
    modules = {name for name, _ in model.named_modules()}
    for names in LAST_LAYERS:
        name = next((name for name in names if name in modules), None)
        if name is None:
            raise ValueError(f"expected a layer {' or '.join(names)}, got none: use model.precision=fp32")
        model.set_submodule(name, Float32(model.get_submodule(name)))


def _pack_patches(inputs: Mapping[str, Tensor]) -> Float[Tensor, "patches values"]:
    """Concatenate patches with their mask and the picture's numbers of rows and columns of patches."""
    patches, mask = inputs["pixel_values"][0], inputs["pixel_attention_mask"][0]
    return torch.cat([patches, mask[:, None], inputs["spatial_shapes"].expand(len(patches), 2)], dim=1)


def _unpack_patches(packed: Float[Tensor, "n patches values"]) -> dict[str, Tensor]:
    """Return the arguments of `get_image_features` that `_pack_patches` packed."""
    return {
        "pixel_values": packed[..., :-3],
        "pixel_attention_mask": packed[..., -3].int(),
        "spatial_shapes": packed[:, 0, -2:].long(),
    }
