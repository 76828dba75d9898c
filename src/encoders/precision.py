"""Half precision for the towers, float32 for what comes after them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def unit(encode: Callable[[Tensor], Tensor], shown: Tensor, precision: str) -> Tensor:
    """Unit vectors [..., D] in float32 of what an encoder sees, its towers in a precision.

    Args:
        encode: the encoder; where the precision is not fp32, its projection is in float32
            (`keep_projections`).
        shown: pixels or tokens.
        precision: fp32, bf16 or fp16.
    """
    if precision == "fp32":
        vectors = encode(shown)
    else:
        with torch.autocast(shown.device.type, DTYPES[precision]):
            vectors = encode(shown)
    return nn.functional.normalize(vectors.float(), dim=-1)


def keep_projections(model: nn.Module) -> None:
    """Make the projections of an open_clip model compute in float32 within autocast.

    Args:
        model: `CLIP`, `CustomTextCLIP` or `CoCa` of open_clip.
    """
    visual: Any = model.visual
    text: Any = model.text if isinstance(getattr(model, "text", None), nn.Module) else model
    if isinstance(getattr(visual, "proj", None), nn.Parameter):
        visual.projection, visual.proj = visual.proj, None
        visual.register_forward_hook(_project)
    elif hasattr(visual, "attnpool"):
        visual.attnpool = Float32(visual.attnpool)
    elif hasattr(visual, "trunk"):
        _timm(visual)
    if isinstance(getattr(text, "proj", None), nn.Module):
        text.proj = Float32(text.proj)
    projection = getattr(text, "text_projection", None)
    if projection is not None:
        del text.text_projection  # a parameter's name takes no module
        text.text_projection = _Linear.of(projection)


class Float32(nn.Module):
    """A module whose inputs and arithmetic are float32, whatever surrounds it."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        """What the module gives for x."""
        with torch.autocast(x.device.type, enabled=False):
            found: Tensor = self.inner(x.float())
        return found


class _Linear(nn.Linear):
    """open_clip asks whether a text projection is an `nn.Linear` or a matrix."""

    @classmethod
    def of(cls, projection: nn.Linear | Tensor) -> _Linear:
        weight = projection.weight if isinstance(projection, nn.Linear) else projection.T
        bias = projection.bias if isinstance(projection, nn.Linear) else None
        made = cls(weight.shape[1], weight.shape[0], bias=bias is not None)
        made.weight = nn.Parameter(weight.detach().contiguous())
        if bias is not None:
            made.bias = nn.Parameter(bias.detach())
        return made

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            return super().forward(x.float())


def _project(visual: Any, _: Any, output: Any) -> Any:
    pooled, *tokens = output if isinstance(output, tuple) else (output,)
    with torch.autocast(pooled.device.type, enabled=False):
        projected = pooled.float() @ visual.projection
    return (projected, *tokens) if tokens else projected


def _timm(visual: Any) -> None:
    if len(list(visual.head.children())):
        visual.head = Float32(visual.head)
        return
    # The trunk's own classifier is the projection.
    classifier = visual.trunk.get_classifier()
    for name, module in visual.trunk.named_modules():
        if module is classifier and isinstance(module, nn.Linear):
            visual.trunk.set_submodule(name, Float32(module))
            return
    # SigLIP's kind projects nothing: the pooling by attention comes last.
    if not isinstance(getattr(visual.trunk, "attn_pool", None), nn.Module):
        raise ValueError("no projection is known of its image tower: use model.precision=fp32")
    visual.trunk.attn_pool = Float32(visual.trunk.attn_pool)
