"""Morphs by a generator: both faces are projected into its latent space, the midpoint is drawn.

The projection is StyleGAN2's (Karras et al. 2020, appendix D) with 125 steps and without its optimisation of
the noise maps, which a TorchScript archive does not hand out: from the mean of W, by Adam, with noise on w
that fades out and a learning rate that rises and falls. A generator draws faces as it was
shown them: FFHQ's were aligned by eyes and mouth; parents that are not come out less like themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

SAMPLES = 10_000
LEARNING_RATE = 0.1
RISE, FALL = 0.05, 0.25  # shares of the steps
NOISE, NOISE_SHARE = 0.05, 0.75
VGG_EDGE = 256

Features = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Space:
    """Where a generator's w lie: their mean, [1, 1, w_dim], and their distance from it (RMS)."""

    mean: Tensor
    spread: float


def space(generator: Any) -> Space:
    """Mean and spread of 10,000 mapped samples, the same on every call."""
    device = _device(generator)
    z = torch.from_numpy(np.random.RandomState(123).randn(SAMPLES, generator.z_dim)).float()
    with torch.no_grad():
        parts = [
            generator.mapping(part.to(device), torch.zeros(len(part), 0, device=device))[:, :1]
            for part in torch.split(z, 1000)
        ]
    w = torch.cat(parts).float()
    mean = w.mean(dim=0, keepdim=True)
    return Space(mean, float(((w - mean) ** 2).sum().div(SAMPLES).sqrt()))


def project(
    generator: Any, within: Space, features: Features, picture: np.ndarray, *, steps: int, seed: int
) -> np.ndarray:
    """The w whose picture is most like a given one.

    Args:
        generator: StyleGAN2-ADA's interface.
        within: where its w lie.
        features: [1, 3, R, R] in [-1, 1] -> vector, whose squared distance is the perceptual loss; the
            pixels' mean squared difference is added.
        picture: [R, R, 3] uint8, R the generator's resolution.
        steps: of Adam.
        seed: of the noise on w.

    Returns:
        [w_dim] float32.
    """
    device = _device(generator)
    target = torch.from_numpy(picture.copy()).to(device).permute(2, 0, 1)[None].float() / 127.5 - 1
    with torch.no_grad():
        wanted = features(target)
    w = within.mean.clone().requires_grad_(True)
    adam = torch.optim.Adam([w], betas=(0.9, 0.999), lr=LEARNING_RATE)
    noise = torch.Generator().manual_seed(seed)
    for step in range(steps):
        rate, shake = ramps(step / steps)
        adam.param_groups[0]["lr"] = LEARNING_RATE * rate
        shaken = w + torch.randn(w.shape, generator=noise).to(device) * (within.spread * NOISE * shake)
        drawn = _drawn(generator, shaken)
        loss = (features(drawn) - wanted).square().sum() + (drawn - target).square().mean()
        adam.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        adam.step()
    result: np.ndarray = w.detach().flatten().float().cpu().numpy()
    return result


def ramps(done: float) -> tuple[float, float]:
    """Learning rate and noise at a share of the steps, each relative to its peak."""
    rate = 0.5 - 0.5 * np.cos(min(1.0, (1 - done) / FALL) * np.pi)
    return float(rate * min(1.0, done / RISE)), max(0.0, 1 - done / NOISE_SHARE) ** 2


def midpoint(generator: Any, a: np.ndarray, b: np.ndarray, size: int) -> np.ndarray:
    """The picture of the mean of two w ([w_dim] each), as [size, size, 3] uint8."""
    w = torch.from_numpy((a + b) / 2).to(_device(generator))[None, None]
    with torch.no_grad():
        drawn = _drawn(generator, w)[0].permute(1, 2, 0)
    pixels = (drawn * 127.5 + 128).clamp(0, 255).to(torch.uint8).cpu().numpy()
    if len(pixels) == size:
        return np.ascontiguousarray(pixels)
    return np.asarray(Image.fromarray(pixels).resize((size, size), Image.Resampling.LANCZOS))


def vgg(network: Any) -> Features:
    """Features of StyleGAN2's `vgg16.pt`: their squared distance is LPIPS."""

    def features(pictures: Tensor) -> Tensor:
        pixels = (pictures + 1) * 127.5
        if pixels.shape[-1] > VGG_EDGE:
            pixels = functional.interpolate(pixels, size=(VGG_EDGE, VGG_EDGE), mode="area")
        found: Tensor = network(pixels, resize_images=False, return_lpips=True)
        return found

    return features


def pyramid(pictures: Tensor) -> Tensor:
    """Laplacian pyramid: details of each scale, every scale weighing the same."""
    parts, rest = [], pictures
    while rest.shape[-1] >= 8:
        coarse = functional.avg_pool2d(rest, 2)
        up = functional.interpolate(coarse, size=rest.shape[-2:], mode="bilinear", align_corners=False)
        detail = rest - up
        parts.append(detail.flatten() / detail.numel() ** 0.5)
        rest = coarse
    parts.append(rest.flatten() / rest.numel() ** 0.5)
    return torch.cat(parts)


def _drawn(generator: Any, w: Tensor) -> Tensor:
    pictures: Tensor = generator.synthesis(w.repeat(1, generator.num_ws, 1), noise_mode="const")
    return pictures.float()


def _device(generator: Any) -> torch.device:
    return next((parameter.device for parameter in generator.parameters()), torch.device("cpu"))
