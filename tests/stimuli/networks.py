"""Small networks of StyleGAN2-ADA's interface, with random weights."""

from pathlib import Path

import torch
from torch import Tensor, nn


class Mapping(nn.Module):
    def __init__(self, z_dim: int, w_dim: int, num_ws: int) -> None:
        super().__init__()
        self.num_ws = num_ws
        self.layers = nn.Sequential(nn.Linear(z_dim, w_dim), nn.LeakyReLU(0.2), nn.Linear(w_dim, w_dim))

    def forward(self, z: Tensor, c: Tensor) -> Tensor:
        return 5 * self.layers(z).unsqueeze(1).repeat(1, self.num_ws, 1)


class Synthesis(nn.Module):
    def __init__(self, w_dim: int, resolution: int) -> None:
        super().__init__()
        self.start = nn.Linear(w_dim, 8 * 4 * 4)
        self.grow = nn.Upsample(size=(resolution, resolution), mode="bilinear")
        self.colour = nn.Conv2d(8, 3, 3, padding=1)

    def forward(self, ws: Tensor, noise_mode: str = "random") -> Tensor:
        assert noise_mode == "const"
        features = self.grow(self.start(ws.mean(dim=1)).view(-1, 8, 4, 4))
        return torch.tanh(4 * self.colour(features))


class Generator(nn.Module):
    def __init__(self, resolution: int = 32) -> None:
        super().__init__()
        self.z_dim, self.w_dim, self.num_ws, self.img_resolution = 16, 12, 3, resolution
        self.mapping = Mapping(self.z_dim, self.w_dim, self.num_ws)
        self.synthesis = Synthesis(self.w_dim, resolution)

    def forward(self, z: Tensor, c: Tensor) -> Tensor:
        return self.synthesis(self.mapping(z, c), noise_mode="const")


class Perceptual(nn.Module):
    """Network that is called like StyleGAN2's vgg16.pt."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 6, 5, stride=2)

    def forward(self, pixels: Tensor, resize_images: bool = True, return_lpips: bool = False) -> Tensor:
        assert return_lpips
        assert not resize_images
        features = torch.relu(self.layer(pixels / 127.5 - 1)).flatten(1)
        return features / features.shape[1] ** 0.5


def saved(network: nn.Module, path: Path) -> Path:
    """Write a network as a TorchScript archive."""
    torch.jit.script(network.eval()).save(str(path))
    return path


def seeded(make, seed: int = 0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make()
