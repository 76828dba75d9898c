"""Morph with a generator: project two faces into its latent space W, and synthesise their midpoint.

The projection follows StyleGAN2's (Karras et al. 2020, appendix D): Adam from the mean of W, with decaying
noise on w and a learning rate that ramps up and down. It differs in three points. It takes `faces.steps`
steps (125 by default). The noise maps, which a TorchScript archive does not expose, are not optimised. The
loss has the mean squared difference of pixels in addition to that of features.

A generator synthesises faces that are aligned as its training data are: in FFHQ, by eyes and mouth. Parents
aligned differently are reproduced less faithfully.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

SAMPLES = 10_000  # number of random latents from which the mean and spread of W are estimated
LEARNING_RATE = 0.1  # maximum
RAMP_UP, RAMP_DOWN = 0.05, 0.25  # fractions of the steps in which the learning rate rises and falls
NOISE, NOISE_SHARE = 0.05, 0.75  # initial noise on w, relative to its spread; fraction of steps with noise
VGG_EDGE = 256  # pixels; larger pictures are reduced to this edge

# (pictures [1, 3, R, R] in [-1, 1]) -> vector; squared distances measure how different pictures look.
Features = Callable[[Tensor], Tensor]


# Latent space W of a generator: mean of w, [1, 1, w_dim], and root mean square distance from it.
LatentSpace = tuple[Tensor, float]


def estimate_latent_space(generator: Any) -> LatentSpace:
    """Estimate the mean and spread of the latent space from a fixed random sample."""
    device = _find_device(generator)
    z = torch.from_numpy(np.random.RandomState(123).randn(SAMPLES, generator.z_dim)).float()
    with torch.no_grad():
        latents = [
            generator.mapping(batch.to(device), torch.zeros(len(batch), 0, device=device))[:, :1]
            for batch in torch.split(z, 1000)
        ]
    w = torch.cat(latents).float()
    mean = w.mean(dim=0, keepdim=True)
    return mean, float(((w - mean) ** 2).sum().div(SAMPLES).sqrt())


def project(
    generator: Any, space: LatentSpace, features: Features, picture: np.ndarray, *, steps: int, seed: int
) -> np.ndarray:
    """Find, by optimisation, the latent w, [w_dim], whose picture is most similar to `picture`.

    `picture` is [R, R, 3] uint8. The loss is the squared distance of `features` (perceptual loss) plus the
    mean squared difference of pixels. `seed` is the random seed of the noise on w.
    """
    device, (mean, spread) = _find_device(generator), space
    target = torch.from_numpy(picture.copy()).to(device).permute(2, 0, 1)[None].float() / 127.5 - 1
    with torch.no_grad():
        target_features = features(target)
    w = mean.clone().requires_grad_(True)
    adam = torch.optim.Adam([w], betas=(0.9, 0.999), lr=LEARNING_RATE)
    noise_rng = torch.Generator().manual_seed(seed)
    for step in range(steps):
        rate, noise_level = compute_ramps(step / steps)
        adam.param_groups[0]["lr"] = LEARNING_RATE * rate
        noisy_w = w + torch.randn(w.shape, generator=noise_rng).to(device) * (spread * NOISE * noise_level)
        output = _synthesise(generator, noisy_w)
        loss = (features(output) - target_features).square().sum() + (output - target).square().mean()
        adam.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        adam.step()
    return np.asarray(w.detach().flatten().float().cpu().numpy())


def compute_ramps(progress: float) -> tuple[float, float]:
    """Return the learning rate and the noise, relative to their maxima, after a fraction of the steps."""
    rate = 0.5 - 0.5 * np.cos(min(1.0, (1 - progress) / RAMP_DOWN) * np.pi)
    return float(rate * min(1.0, progress / RAMP_UP)), max(0.0, 1 - progress / NOISE_SHARE) ** 2


def synthesise_midpoint(generator: Any, a: np.ndarray, b: np.ndarray, size: int) -> np.ndarray:
    """Synthesise the picture of the mean of two latents, [w_dim] each, as [size, size, 3] uint8."""
    w = torch.from_numpy((a + b) / 2).to(_find_device(generator))[None, None]
    with torch.no_grad():
        picture = _synthesise(generator, w)[0].permute(1, 2, 0)
    pixels = (picture * 127.5 + 128).clamp(0, 255).to(torch.uint8).cpu().numpy()
    if len(pixels) == size:
        return np.ascontiguousarray(pixels)
    return np.asarray(Image.fromarray(pixels).resize((size, size), Image.Resampling.LANCZOS))


def make_vgg_features(network: Any) -> Features:
    """Return a feature function based on StyleGAN2's `vgg16.pt`.

    Squared distances of its vectors are LPIPS.
    """

    def features(pictures: Tensor) -> Tensor:
        pixels = (pictures + 1) * 127.5
        if pixels.shape[-1] > VGG_EDGE:
            pixels = functional.interpolate(pixels, size=(VGG_EDGE, VGG_EDGE), mode="area")
        vector: Tensor = network(pixels, resize_images=False, return_lpips=True)
        return vector

    return features


def compute_laplacian_pyramid(pictures: Tensor) -> Tensor:
    """Compute the Laplacian pyramid of pictures as a vector: details at each scale, with equal weights."""
    details, level = [], pictures
    while level.shape[-1] >= 8:
        coarse = functional.avg_pool2d(level, 2)
        blurred = functional.interpolate(coarse, size=level.shape[-2:], mode="bilinear", align_corners=False)
        detail = level - blurred
        details.append(detail.flatten() / detail.numel() ** 0.5)
        level = coarse
    details.append(level.flatten() / level.numel() ** 0.5)
    return torch.cat(details)


def _synthesise(generator: Any, w: Tensor) -> Tensor:
    # All layers of the generator get the same w.
    pictures: Tensor = generator.synthesis(w.repeat(1, generator.num_ws, 1), noise_mode="const")
    return pictures.float()


def _find_device(generator: Any) -> torch.device:
    return next((parameter.device for parameter in generator.parameters()), torch.device("cpu"))
