"""Compute the text tower of a causal CLIP without the tokens that do not affect its output.

In a causal tower tokens do not attend to later ones, and only the end of text is pooled. Three shortcuts
therefore change vectors only by rounding, and save nearly all work on sentences of a template: tokens after
the end of text are omitted, a common prefix of all sentences of a batch is computed once, and the last layer
is computed for the end of text only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from open_clip.transformer import ResidualAttentionBlock
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Packed:
    """A causal text tower of open_clip."""

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
        prefix_length, length = _prefix_length(tokens, int(ends.min())), int(ends.max()) + 1
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
        pooled_states = _last_block(last, suffix, ends - prefix_length, mask[ends], _qkv(last, prefix))
        vectors: Tensor = tower.ln_final(pooled_states)
        projection = tower.text_projection
        if projection is not None:
            vectors = projection(vectors) if isinstance(projection, nn.Linear) else vectors @ projection
        return vectors


# Queries, keys and values of tokens: each [texts, heads, tokens, width of a head].
QKV = tuple[Tensor, Tensor, Tensor]


def _prefix_length(tokens: Tensor, limit: int) -> int:
    """Return the length of the common prefix of all rows, at most `limit`, the first pooled position."""
    differs = (tokens[:, :limit] != tokens[:1, :limit]).any(dim=0)
    return int(differs.int().argmax()) if bool(differs.any()) else limit


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


def _last_block(block: Any, x: Tensor, pooled: Tensor, mask: Tensor, prefix_qkv: QKV) -> Tensor:
    """Compute a block for one token per text only, at the positions `pooled`, [texts]."""
    queries, keys, values = _qkv(block, x)
    rows = torch.arange(len(x), device=x.device)
    pooled_queries = queries[rows, :, pooled].unsqueeze(2)
    token, qkv = x[rows, pooled].unsqueeze(1), (pooled_queries, keys, values)
    return _block(block, token, qkv, mask[:, None, None], prefix_qkv).squeeze(1)
