"""Adapt open_clip's CLIP to the protocol of encoders, with a faster text tower."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from open_clip.transformer import ResidualAttentionBlock
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional

from src.encoders.precision import convert_weights, encode_unit_vectors, keep_projections_float32
from src.encoders.preprocessing import SplitPreprocessing, split_torchvision
from src.encoders.unread import find_too_long, find_unread
from src.errors import InputError

# Number of tokens that open_clip adds to a text in the mode "clips".
CLIPS_TOKENS = 3


class OpenClip(nn.Module):
    """A CLIP of open_clip with its preprocessing (picture -> pixels [3, H, W]) and tokenizer.

    `precision` (fp32, bf16 or fp16) applies to the towers; projection and normalisation are float32.
    """

    def __init__(
        self, model: Any, transform: Any, tokenizer: Any, name: str, precision: str = "fp32"
    ) -> None:
        super().__init__()
        self.model = model
        self._precision = precision
        if precision != "fp32":
            keep_projections_float32(model)
            convert_weights(model, precision)
        self._packed_tower = PackedTextTower.from_model(model)
        self._transform, self._tokenizer, self._name = transform, tokenizer, name

    def transform(self, picture: Image.Image) -> Float[Tensor, "3 height width"]:
        """Return the input pixels of a picture."""
        pixels: Tensor = self._transform(picture)
        return pixels

    def split_preprocessing(self) -> SplitPreprocessing | None:
        """Split `transform` into resizing to bytes and normalising; None if it has other steps."""
        return split_torchvision(self._transform)

    def tokenize(self, sentences: Sequence[str]) -> Int[Tensor, "n context"]:
        """Return token ids; raise `InputError` if a sentence exceeds the context length.

        Truncation would remove the end-of-text token, whose vector represents the sentence.
        """
        tokens: Tensor = self._tokenizer(list(sentences))
        for row, n_needed in count_needed_tokens(self._tokenizer, sentences, tokens).items():
            if n_needed > tokens.shape[1]:
                raise InputError(
                    f"{self._name}: {sentences[row]!r} needs {n_needed} tokens, the context has "
                    f"{tokens.shape[1]}. Shorten the sentence or drop its word."
                )
        return tokens

    def encode_images(self, pixels: Float[Tensor, "n 3 height width"]) -> Float[Tensor, "n width"]:
        """Return unit vectors of images, float32."""
        return encode_unit_vectors(self.model.encode_image, pixels, self._precision)

    def count_relevant_tokens(self, tokens: Int[Tensor, "n context"]) -> Int[Tensor, " n"]:
        """Return the number of tokens that affect each sentence's vector: all unless the tower is causal."""
        if self._packed_tower is None:
            return torch.full((len(tokens),), tokens.shape[1])
        return self._packed_tower.pooled_positions(tokens) + 1

    def encode_texts(self, tokens: Int[Tensor, "n context"]) -> Float[Tensor, "n width"]:
        """Return unit vectors of texts, float32."""
        return encode_unit_vectors(self._packed_tower or self.model.encode_text, tokens, self._precision)


@dataclass(frozen=True)
class PackedTextTower:
    """Causal text tower of open_clip that skips padding and computes a common prefix once.

    In a causal tower, tokens do not attend to later tokens, and only the end of text is pooled. Therefore,
    three shortcuts change vectors only by rounding, and save most of the work on sentences of a template:
    tokens after the end of text are skipped, the common prefix of all sentences of a batch is computed once,
    and the last layer is computed only for the pooled tokens.
    """

    tower: Any  # open_clip's `CLIP` or `TextTransformer`
    pool: str  # "argmax" (the token with the highest id is pooled) or "eos"
    eos_id: int  # id of the end-of-text token, for the pool "eos"

    @classmethod
    def from_model(cls, model: nn.Module) -> PackedTextTower | None:
        """Adapt the text tower of an open_clip model; return None if it is not causal or not supported."""
        text = getattr(model, "text", None)
        tower: Any = text if isinstance(text, nn.Module) else model
        pool = getattr(tower, "pool_type", getattr(tower, "text_pool_type", None))
        blocks = getattr(getattr(tower, "transformer", None), "resblocks", [None])
        has_standard_blocks = all(
            type(block) is ResidualAttentionBlock and block.attn.batch_first for block in blocks
        )
        is_causal = getattr(tower, "attn_mask", None) is not None
        has_other_tokens = getattr(tower, "cls_emb", None) is not None or getattr(
            tower, "use_pad_mask", False
        )
        if not has_standard_blocks or not is_causal or has_other_tokens or pool not in ("argmax", "eos"):
            return None
        return cls(tower, pool, getattr(tower, "eos_id", getattr(tower, "text_eos_id", None)) or 0)

    def pooled_positions(self, tokens: Int[Tensor, "n context"]) -> Int[Tensor, " n"]:
        """Return the position of the pooled token of each sentence."""
        ids = tokens if self.pool == "argmax" else (tokens == self.eos_id).int()
        return ids.argmax(dim=-1)

    def __call__(self, tokens: Int[Tensor, "n context"]) -> Float[Tensor, "n width"]:
        """Compute the output of the tower's `encode_text`.

        Sentences with a long common prefix and similar lengths take the least time.
        """
        tower, pooled_positions = self.tower, self.pooled_positions(tokens)
        # The common prefix of all rows ends before the first pooled position.
        differs = (tokens != tokens[:1])[:, : int(pooled_positions.min())].any(dim=0).tolist()
        prefix_length, length = [*differs, True].index(True), int(pooled_positions.max()) + 1
        # As of the tokens: float32 even if the weights of layers are stored in half precision.
        dtype = tower.token_embedding.weight.dtype
        positional = tower.positional_embedding[:length].to(dtype)
        prefix = tower.token_embedding(tokens[:1, :prefix_length]).to(dtype) + positional[:prefix_length]
        suffix = tower.token_embedding(tokens[:, prefix_length:length]).to(dtype) + positional[prefix_length:]
        mask = torch.ones(length, length, dtype=torch.bool, device=tokens.device).tril()
        *blocks, last_block = tower.transformer.resblocks
        for block in blocks:
            prefix_qkv = _compute_qkv(block, prefix)
            suffix = _apply_block(
                block, suffix, _compute_qkv(block, suffix), mask[prefix_length:], prefix_qkv
            )
            prefix = _apply_block(block, prefix, prefix_qkv, mask[:prefix_length, :prefix_length])
        # In the last block, only the pooled token of each text is computed.
        rows, pooled = torch.arange(len(suffix), device=tokens.device), pooled_positions - prefix_length
        queries, keys, values = _compute_qkv(last_block, suffix)
        qkv = queries[rows, :, pooled].unsqueeze(2), keys, values
        token = suffix[rows, pooled].unsqueeze(1)
        states = _apply_block(
            last_block, token, qkv, mask[pooled_positions][:, None, None], _compute_qkv(last_block, prefix)
        ).squeeze(1)
        vectors: Tensor = tower.ln_final(states)
        projection = tower.text_projection
        if projection is not None:
            vectors = projection(vectors) if isinstance(projection, nn.Linear) else vectors @ projection
        return vectors


def count_needed_tokens(
    tokenizer: Any, sentences: Sequence[str], tokens: Int[Tensor, "n context"]
) -> dict[int, int]:
    """Count the tokens that sentences need: index of each sentence that may be truncated -> number.

    `tokens` are those that open_clip's tokenizer returns.
    """
    transformers_tokenizer = getattr(tokenizer, "tokenizer", None)
    if transformers_tokenizer is None:
        # With CLIP's tokenizer, a row that ends in padding was not truncated. + 2: start and end of text.
        rows = tokens[:, -1].nonzero().flatten().tolist()
        return {row: len(tokenizer.encode(sentences[row])) + 2 for row in rows}
    # With other tokenizers, the last token does not show whether a row was truncated: some pad with the
    # end of text, some drop it. In the mode "clips", open_clip itself adds start, end and class tokens.
    is_clips = tokenizer.tokenizer_mode == "clips"
    cleaned = [tokenizer.clean_fn(sentence) for sentence in sentences]
    rows = transformers_tokenizer(cleaned, add_special_tokens=not is_clips).input_ids
    return {row: len(ids) + CLIPS_TOKENS * is_clips for row, ids in enumerate(rows)}


def find_unread_texts(tokenizer: Any, texts: Sequence[str]) -> dict[int, str]:
    """Find texts that one of open_clip's tokenizers does not read whole (see `unread.find_unread`).

    CLIP's own has tokens for all bytes, so no text has an unknown one.
    """
    transformers_tokenizer = getattr(tokenizer, "tokenizer", None)
    if transformers_tokenizer is None:
        tokens = tokenizer(list(texts))
        return find_too_long(count_needed_tokens(tokenizer, texts, tokens), tokens.shape[1])
    n_added = CLIPS_TOKENS if tokenizer.tokenizer_mode == "clips" else None
    cleaned = [tokenizer.clean_fn(text) for text in texts]
    return find_unread(transformers_tokenizer, cleaned, tokenizer.context_length, n_added)


# Queries, keys and values of tokens: each [texts, heads, tokens, width of a head].
QKV = tuple[Tensor, Tensor, Tensor]


def _compute_qkv(block: Any, x: Tensor) -> QKV:
    projected = functional.linear(block.ln_1(x), block.attn.in_proj_weight, block.attn.in_proj_bias)
    heads = block.attn.num_heads
    stacked = projected.view(*x.shape[:2], 3, heads, x.shape[-1] // heads)
    queries, keys, values = stacked.permute(2, 0, 3, 1, 4)
    return queries, keys, values


def _apply_block(block: Any, x: Tensor, qkv: QKV, mask: Tensor, prefix_qkv: QKV | None = None) -> Tensor:
    """Compute a block for tokens that attend to the common prefix and to each other, within a mask."""
    queries, keys, values = qkv
    if prefix_qkv is not None:
        keys, values = (
            torch.cat([of_prefix.expand(len(of_suffix), -1, -1, -1), of_suffix], dim=2)
            for of_prefix, of_suffix in zip(prefix_qkv[1:], (keys, values), strict=True)
        )
    attended = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
    x = x + block.ls_1(block.attn.out_proj(attended.transpose(1, 2).flatten(2)))
    output: Tensor = x + block.ls_2(block.mlp(block.ln_2(x)))
    return output
