"""Compute towers in half precision, and projections and norms in float32; check that a CPU supports this."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from src.errors import InputError

log = logging.getLogger(__name__)

# Program that times layers in half precision.
PROGRAM = Path(__file__).with_name("half_layer.py")
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
# Layers whose weights autocast converts to half precision. Towers of transformers take the type of the sums
# of all their blocks from the convolution of patches, which hence stays in float32.
TRANSFORMERS_LAYERS = (nn.Linear, nn.MultiheadAttention)
LAYERS = (*TRANSFORMERS_LAYERS, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def encode_unit_vectors(encode: Callable[[Tensor], Tensor], inputs: Tensor, precision: str) -> Tensor:
    """Encode pixels or tokens into float32 unit vectors [..., D], with towers in a given precision.

    For half precision, first make the projections compute in float32, by `keep_projections_float32` for
    models of open_clip, else by wrapping them in `Float32`; then call `convert_weights`.
    """
    if precision == "fp32":
        vectors = encode(inputs)
    else:
        with torch.autocast(inputs.device.type, DTYPES[precision]):
            vectors = encode(inputs)
    return nn.functional.normalize(vectors.float(), dim=-1)


def convert_weights(model: nn.Module, precision: str, layers: tuple[type[nn.Module], ...] = LAYERS) -> None:
    """Store the weights of layers in half precision; autocast would convert them in every call.

    Layers that compute in float32 (`keep_projections_float32`, `Float32`) stay in float32, and so do weights
    that a layer shares with others, such as an embedding of tokens.
    """
    converted: list[nn.Parameter] = []
    float32_ids: set[int] = set()
    for module in model.modules():
        if isinstance(module, layers) and not isinstance(module, _Linear):
            converted += module.parameters(recurse=False)
        else:
            of_float32 = isinstance(module, Float32)
            float32_ids |= {id(parameter) for parameter in module.parameters(recurse=of_float32)}
    for parameter in converted:
        if id(parameter) not in float32_ids:
            parameter.data = parameter.data.to(DTYPES[precision])


def keep_projections_float32(model: nn.Module) -> None:
    """Make the projections of open_clip's `CLIP`, `CustomTextCLIP` or `CoCa` compute in float32."""
    visual: Any = model.visual
    text: Any = model.text if isinstance(getattr(model, "text", None), nn.Module) else model
    if isinstance(getattr(visual, "proj", None), nn.Parameter):
        visual.projection, visual.proj = visual.proj, None
        visual.register_forward_hook(_project)
    elif hasattr(visual, "attnpool"):
        visual.attnpool = Float32(visual.attnpool)
    elif hasattr(visual, "trunk"):
        _keep_timm_projection_float32(visual)
    if isinstance(getattr(text, "proj", None), nn.Module):
        text.proj = Float32(text.proj)
    projection = getattr(text, "text_projection", None)
    if projection is not None:
        del text.text_projection  # a module cannot replace a parameter
        text.text_projection = _Linear.of(projection)


class Float32(nn.Module):
    """A module that computes in float32 even within autocast."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.inner = module

    def forward(self, x: Tensor, *others: Tensor) -> Tensor:
        """Return the output of the module for x; others, such as a mask, are passed on."""
        with torch.autocast(x.device.type, enabled=False):
            output: Tensor = self.inner(x.float(), *others)
        return output


class _Linear(nn.Linear):
    """Linear text projection in float32; open_clip would treat a module of another class as a matrix."""

    @classmethod
    def of(cls, projection: nn.Linear | Tensor) -> _Linear:
        weight = projection.weight if isinstance(projection, nn.Linear) else projection.T
        bias = projection.bias if isinstance(projection, nn.Linear) else None
        linear = cls(weight.shape[1], weight.shape[0], bias=bias is not None)
        linear.weight = nn.Parameter(weight.detach().contiguous())
        if bias is not None:
            linear.bias = nn.Parameter(bias.detach())
        return linear

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            return super().forward(x.float())


def _project(visual: Any, _: Any, output: Any) -> Any:
    """Project the pooled output of an image tower, as a forward hook; the tower may also return tokens."""
    pooled, *tokens = output if isinstance(output, tuple) else (output,)
    with torch.autocast(pooled.device.type, enabled=False):
        projected = pooled.float() @ visual.projection
    return (projected, *tokens) if tokens else projected


def _keep_timm_projection_float32(visual: Any) -> None:
    if len(list(visual.head.children())):
        visual.head = Float32(visual.head)
        return
    # The trunk's classifier is the projection.
    classifier = visual.trunk.get_classifier()
    for name, module in visual.trunk.named_modules():
        if module is classifier and isinstance(module, nn.Linear):
            visual.trunk.set_submodule(name, Float32(module))
            return
    # Towers such as SigLIP's have no projection; their last step is attention pooling.
    if not isinstance(getattr(visual.trunk, "attn_pool", None), nn.Module):
        raise ValueError("the image tower has no known projection: use model.precision=fp32")
    visual.trunk.attn_pool = Float32(visual.trunk.attn_pool)


@cache
def check_precision(setting: str, precision: str, accelerator: str) -> None:
    """Raise `InputError` if this CPU cannot compute in a setting's precision; warn once if it is slow.

    To find out, a layer is computed in a separate process. The processor's instructions
    (`torch.cpu.get_capabilities`) do not tell, as torch and its libraries may not use them, and some
    operations of torch are slow even with all of them.
    """
    on_cpu = accelerator == "cpu" or (accelerator == "auto" and not torch.accelerator.is_available())
    if precision == "fp32" or not on_cpu:
        return
    command = [sys.executable, "-P", str(PROGRAM), precision, str(torch.get_num_threads())]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    if completed.returncode:
        failure = f"failed ({completed.stdout.strip() or f'exit status {completed.returncode}'})"
        if completed.returncode < 0:
            failure = f"ended its process by {signal.Signals(-completed.returncode).name}"
        raise InputError(
            f"{setting}={precision}: expected a CPU that computes in {precision}, but a layer in it "
            f"{failure} on this one. Choose {setting}=fp32, or a GPU."
        )
    layer, convolution = map(float, completed.stdout.split())
    if max(layer, convolution) > 1.5:
        log.warning(
            "%s=%s: slow on this CPU. A transformer layer takes %.1f times as long as in "
            "fp32, a convolution %.1f times. Choose %s=fp32, or a GPU.",
            *(setting, precision, layer, convolution, setting),
        )
