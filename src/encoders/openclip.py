"""Adapt open_clip's CLIP to the protocol of encoders, with a faster text tower."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from open_clip.transformer import ResidualAttentionBlock
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional

from src.encoders.precision import keep_projections, unit
from src.encoders.preprocessing import Halves, split_torchvision
from src.errors import InputError


class OpenClip(nn.Module):
    """A CLIP of open_clip with its preprocessing (picture -> pixels [3, H, W]) and tokenizer.

    The precision (fp32, bf16 or fp16) is that of the towers; projection and normalisation are float32.
    """

    def __init__(
        self, model: Any, transform: Any, tokenizer: Any, name: str, precision: str = "fp32"
    ) -> None:
        super().__init__()
        self.model = model
        self._precision = precision
        if precision != "fp32":
            keep_projections(model)
        self._packed = Packed.of(model)
        self._transform, self._tokenizer, self._name = transform, tokenizer, name

    def transform(self, picture: Image.Image) -> Float[Tensor, "3 height width"]:
        """Return the input pixels of a picture."""
        pixels: Tensor = self._transform(picture)
        return pixels

    def halves(self) -> Halves | None:
        """Split `transform` into resizing to bytes and normalising; None if it has other steps."""
        return split_torchvision(self._transform)

    def tokenize(self, sentences: Sequence[str]) -> Int[Tensor, "n context"]:
        """Return token ids; raise `InputError` if a sentence exceeds the context length.

        Truncation would remove the end-of-text token, whose vector represents the sentence.
        """
        tokens: Tensor = self._tokenizer(list(sentences))
        for row, needed in self._needed_tokens(sentences, tokens):
            if needed > tokens.shape[1]:
                raise InputError(
                    f"{self._name}: {sentences[row]!r} needs {needed} tokens, the context holds "
                    f"{tokens.shape[1]}. Shorten or leave out the word."
                )
        return tokens

    def _needed_tokens(self, sentences: Sequence[str], tokens: Tensor) -> Iterator[tuple[int, int]]:
        """Yield rows that may have been truncated, and the number of tokens that each needs."""
        inner = getattr(self._tokenizer, "tokenizer", None)  # tokenizer of transformers, if any
        if inner is None:
            # CLIP's tokenizer: a row that ends in padding was not truncated. Add start and end of text.
            for row in tokens[:, -1].nonzero().flatten().tolist():
                yield row, len(self._tokenizer.encode(sentences[row])) + 2
            return
        # With others the last token is not conclusive: some pad with the end of text, some drop it.
        # In the mode "clips", open_clip adds three tokens itself: start, end and class.
        clips = self._tokenizer.tokenizer_mode == "clips"
        cleaned = [self._tokenizer.clean_fn(sentence) for sentence in sentences]
        for row, ids in enumerate(inner(cleaned, add_special_tokens=not clips).input_ids):
            yield row, len(ids) + 3 * clips

    def encode_images(self, pixels: Float[Tensor, "n 3 height width"]) -> Float[Tensor, "n width"]:
        """Return unit vectors of images, float32."""
        return unit(self.model.encode_image, pixels, self._precision)

    def lengths(self, tokens: Int[Tensor, "n context"]) -> Int[Tensor, " n"]:
        """Return how many tokens of each sentence affect its vector; all unless the text tower is causal."""
        if self._packed is None:
            return torch.full((len(tokens),), tokens.shape[1])
        return self._packed.ends(tokens) + 1

    def encode_texts(self, tokens: Int[Tensor, "n context"]) -> Float[Tensor, "n width"]:
        """Return unit vectors of texts, float32."""
        return unit(self._packed or self.model.encode_text, tokens, self._precision)


@dataclass(frozen=True)
class Packed:
    """A causal text tower of open_clip, without the tokens that do not affect its output.

    In a causal tower tokens do not attend to later ones, and only the end of text is pooled. Three shortcuts
    therefore change vectors only by rounding, and save nearly all work on sentences of a template: tokens
    after the end of text are omitted, a common prefix of all sentences of a batch is computed once, and the
    last layer is computed for the end of text only.
    """

    tower: Any  # open_clip's `CLIP` or `TextTransformer`
    pool: str  # "argmax" (the token with the highest id is pooled) or "eos"
    end: int  # id of the end of text, for the pool "eos"

    @classmethod
    def of(cls, model: nn.Module) -> Packed | None:
        """Return the packed text tower of an open_clip model; None if it is not causal or not supported."""
        text = getattr(model, "text", None)
        tower: Any = text if isinstance(text, nn.Module) else model
        pool = getattr(tower, "pool_type", getattr(tower, "text_pool_type", None))
        blocks = getattr(getattr(tower, "transformer", None), "resblocks", [None])
        standard = all(type(block) is ResidualAttentionBlock and block.attn.batch_first for block in blocks)
        causal = getattr(tower, "attn_mask", None) is not None
        unsupported = getattr(tower, "cls_emb", None) is not None or getattr(tower, "use_pad_mask", False)
        if not standard or not causal or unsupported or pool not in ("argmax", "eos"):
            return None
        return cls(tower, pool, getattr(tower, "eos_id", getattr(tower, "text_eos_id", None)) or 0)

    def ends(self, tokens: Int[Tensor, "n context"]) -> Int[Tensor, " n"]:
        """Return the position of the pooled token of each sentence."""
        scores = tokens if self.pool == "argmax" else (tokens == self.end).int()
        return scores.argmax(dim=-1)

    def __call__(self, tokens: Int[Tensor, "n context"]) -> Float[Tensor, "n width"]:
        """Compute the output of `encode_text`.

        The longer the common prefix of the sentences, and the closer their lengths, the less work is needed.
        """
        tower, ends = self.tower, self.ends(tokens)
        # The common prefix of all rows ends before the first pooled position.
        differs = (tokens != tokens[:1])[:, : int(ends.min())].any(dim=0).tolist()
        prefix_length, length = [*differs, True].index(True), int(ends.max()) + 1
        cast = tower.transformer.get_cast_dtype()
        positions = tower.positional_embedding[:length].to(cast)
        prefix = tower.token_embedding(tokens[:1, :prefix_length]).to(cast) + positions[:prefix_length]
        suffix = tower.token_embedding(tokens[:, prefix_length:length]).to(cast) + positions[prefix_length:]
        mask = torch.ones(length, length, dtype=torch.bool, device=tokens.device).tril()
        *blocks, last = tower.transformer.resblocks
        for block in blocks:
            prefix_qkv = _qkv(block, prefix)
            suffix = _block(block, suffix, _qkv(block, suffix), mask[prefix_length:], prefix_qkv)
            prefix = _block(block, prefix, prefix_qkv, mask[:prefix_length, :prefix_length])
        # The last block is computed for one token per text only, at the pooled positions.
        rows, pooled = torch.arange(len(suffix), device=tokens.device), ends - prefix_length
        queries, keys, values = _qkv(last, suffix)
        qkv = queries[rows, :, pooled].unsqueeze(2), keys, values
        token = suffix[rows, pooled].unsqueeze(1)
        states = _block(last, token, qkv, mask[ends][:, None, None], _qkv(last, prefix)).squeeze(1)
        vectors: Tensor = tower.ln_final(states)
        projection = tower.text_projection
        if projection is not None:
            vectors = projection(vectors) if isinstance(projection, nn.Linear) else vectors @ projection
        return vectors


# Queries, keys and values of tokens: each [texts, heads, tokens, width of a head].
QKV = tuple[Tensor, Tensor, Tensor]


def _qkv(block: Any, x: Tensor) -> QKV:
    projected = functional.linear(block.ln_1(x), block.attn.in_proj_weight, block.attn.in_proj_bias)
    heads = block.attn.num_heads
    stacked = projected.view(*x.shape[:2], 3, heads, x.shape[-1] // heads)
    queries, keys, values = stacked.permute(2, 0, 3, 1, 4)
    return queries, keys, values


def _block(block: Any, x: Tensor, qkv: QKV, mask: Tensor, prefix_qkv: QKV | None = None) -> Tensor:
    """Compute a block for tokens that attend, by a mask, to each other and to the prefix of all texts."""
    queries, keys, values = qkv
    if prefix_qkv is not None:
        keys, values = (
            torch.cat([early.expand(len(late), -1, -1, -1), late], dim=2)
            for early, late in zip(prefix_qkv[1:], (keys, values), strict=True)
        )
    attended = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
    x = x + block.ls_1(block.attn.out_proj(attended.transpose(1, 2).flatten(2)))
    output: Tensor = x + block.ls_2(block.mlp(block.ln_2(x)))
    return output
