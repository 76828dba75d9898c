"""The text tower of a causal CLIP, computed where it decides something.

In a causal tower no token sees those behind it, and only the end of text is read off. So three things
change no number but for rounding, and save nearly all work on sentences of a template: tokens behind the
end of text are left out, tokens that all sentences of a batch begin with are computed once, and of the last
layer the end of text alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from open_clip.transformer import ResidualAttentionBlock
from torch import Tensor, nn
from torch.nn import functional

# Which token is read off, by the tower's name for it.
POOLED = ("argmax", "eos")


@dataclass(frozen=True)
class Packed:
    """A causal text tower of open_clip.

    Attributes:
        tower: open_clip's `CLIP` or `TextTransformer`.
        pool: "argmax" (the highest id is read off) or "eos".
        end: id of the end of text, where the pool is "eos".
    """

    tower: Any
    pool: str
    end: int

    @classmethod
    def of(cls, model: nn.Module) -> Packed | None:
        """The text tower of open_clip's model; None where it is not causal, or of another make."""
        text = getattr(model, "text", None)
        tower: Any = text if isinstance(text, nn.Module) else model
        pool = getattr(tower, "pool_type", getattr(tower, "text_pool_type", None))
        blocks = getattr(getattr(tower, "transformer", None), "resblocks", [None])
        plain = all(type(block) is ResidualAttentionBlock and block.attn.batch_first for block in blocks)
        causal = getattr(tower, "attn_mask", None) is not None
        more = getattr(tower, "cls_emb", None) is not None or getattr(tower, "use_pad_mask", False)
        if not plain or not causal or more or pool not in POOLED:
            return None
        return cls(tower, pool, getattr(tower, "eos_id", getattr(tower, "text_eos_id", None)) or 0)

    def ends(self, tokens: Int[Tensor, "n context"]) -> Int[Tensor, " n"]:
        """Place of the token that is read off."""
        marked = tokens if self.pool == "argmax" else (tokens == self.end).int()
        return marked.argmax(dim=-1)

    def __call__(self, tokens: Int[Tensor, "n context"]) -> Float[Tensor, "n width"]:
        """What `encode_text` gives.

        Args:
            tokens: of sentences; the more they have in common at their beginning, and the closer their
                lengths, the less is to be done.
        """
        tower, ends = self.tower, self.ends(tokens)
        shared, longest = _shared(tokens, int(ends.min())), int(ends.max()) + 1
        cast = tower.transformer.get_cast_dtype()
        places = tower.positional_embedding[:longest].to(cast)
        first = tower.token_embedding(tokens[:1, :shared]).to(cast) + places[:shared]
        rest = tower.token_embedding(tokens[:, shared:longest]).to(cast) + places[shared:]
        seen = torch.ones(longest, longest, dtype=torch.bool, device=tokens.device).tril()
        *blocks, last = tower.transformer.resblocks
        for block in blocks:
            said = _said(block, first)
            rest = _block(block, rest, _said(block, rest), seen[shared:], said)
            first = _block(block, first, said, seen[:shared, :shared])
        read = ends - shared
        found: Tensor = tower.ln_final(_last(last, rest, read, seen[ends], _said(last, first)))
        projection = tower.text_projection
        if projection is not None:
            found = projection(found) if isinstance(projection, nn.Linear) else found @ projection
        return found


# Queries, keys and values of tokens: each [texts, heads, tokens, width of a head].
Said = tuple[Tensor, Tensor, Tensor]


def _shared(tokens: Tensor, most: int) -> int:
    """How many tokens all rows begin with; the one that is read off is not among them."""
    differ = (tokens[:, :most] != tokens[:1, :most]).any(dim=0)
    return int(differ.int().argmax()) if bool(differ.any()) else most


def _said(block: Any, x: Tensor) -> Said:
    found = functional.linear(block.ln_1(x), block.attn.in_proj_weight, block.attn.in_proj_bias)
    heads = block.attn.num_heads
    parts = found.view(*x.shape[:2], 3, heads, x.shape[-1] // heads)
    queries, keys, values = parts.permute(2, 0, 3, 1, 4)
    return queries, keys, values


def _block(block: Any, x: Tensor, own: Said, seen: Tensor, before: Said | None = None) -> Tensor:
    """What a block makes of tokens that see `before`, which stands once for all texts, and themselves."""
    queries, keys, values = own
    if before is not None:
        keys, values = (
            torch.cat([early.expand(len(late), -1, -1, -1), late], dim=2)
            for early, late in zip(before[1:], (keys, values), strict=True)
        )
    found = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=seen)
    x = x + block.ls_1(block.attn.out_proj(found.transpose(1, 2).flatten(2)))
    made: Tensor = x + block.ls_2(block.mlp(block.ln_2(x)))
    return made


def _last(block: Any, x: Tensor, read: Tensor, seen: Tensor, before: Said) -> Tensor:
    """The same of one token of each text."""
    queries, keys, values = _said(block, x)
    rows = torch.arange(len(x), device=x.device)
    own = queries[rows, :, read].unsqueeze(2)
    return _block(
        block, x[rows, read].unsqueeze(1), (own, keys, values), seen[:, None, None], before
    ).squeeze(1)
