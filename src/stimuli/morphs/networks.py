"""Network files of the user: TorchScript archives, which are read without running Python code.

The published `.pkl` of StyleGAN2 and StyleGAN2-ADA is a pickle: to open it is to run whatever it says, so
it is refused. Where its publisher is trusted, it is exported once, on the CPU, in a checkout of
https://github.com/NVlabs/stylegan2-ada-pytorch (code and networks are for research, not for commerce):

    import legacy, torch

    class MapOnly(torch.nn.Module):
        def __init__(self, G):
            super().__init__()
            self.net = G.mapping

        def forward(self, z):
            return self.net(z, None)

    class DrawOnly(torch.nn.Module):
        def __init__(self, G):
            super().__init__()
            self.net = G.synthesis

        def forward(self, ws):
            return self.net(ws, noise_mode="const", force_fp32=True)

    class Mapping(torch.nn.Module):
        def __init__(self, traced):
            super().__init__()
            self.traced = traced

        def forward(self, z: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
            return self.traced(z)

    class Synthesis(torch.nn.Module):
        def __init__(self, traced):
            super().__init__()
            self.traced = traced

        def forward(self, ws: torch.Tensor, noise_mode: str = "const") -> torch.Tensor:
            return self.traced(ws)

    class Generator(torch.nn.Module):
        def __init__(self, G):
            super().__init__()
            self.z_dim, self.w_dim, self.num_ws = G.z_dim, G.w_dim, G.num_ws
            self.img_resolution = G.img_resolution
            z = torch.zeros(1, G.z_dim)
            self.mapping = Mapping(torch.jit.trace(MapOnly(G), z))
            self.synthesis = Synthesis(torch.jit.trace(DrawOnly(G), G.mapping(z, None)))

        def forward(self, z: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
            return self.synthesis(self.mapping(z, c))

    with open("ffhq.pkl", "rb") as file:
        G = legacy.load_network_pkl(file)["G_ema"].eval().requires_grad_(False)
    torch.jit.script(Generator(G)).save("ffhq.pt")

The perceptual network that StyleGAN2-ADA uses, `vgg16.pt`, is a TorchScript archive as published. An
archive runs no Python, yet it is a program: take it from whom you trust. Its hash is in the entry's manifest.
"""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path
from typing import Any

from src.errors import InputError

GENERATOR = ("mapping", "synthesis", "z_dim", "w_dim", "num_ws", "img_resolution")
EXPORT = "src/stimuli/morphs/networks.py says how a StyleGAN2 .pkl is exported to TorchScript."


def examined(path: Path, setting: str) -> Path:
    """Refuse what is no TorchScript archive, by its list of files, before anything of it is read.

    Args:
        path: the file.
        setting: that names it, for messages.

    Raises:
        InputError: the file is missing or of another form.
    """
    if not path.is_file():
        raise InputError(f"{setting}={path}: no such file. {EXPORT}")
    names = zipfile.ZipFile(path).namelist() if zipfile.is_zipfile(path) else []
    if not any("/code/" in name for name in names):
        raise InputError(
            f"{setting}={path}: not a TorchScript archive. A pickle (.pkl, or what torch.save writes) runs "
            f"code when it is opened: it is not. {EXPORT}"
        )
    return path


def opened(path: Path, setting: str, needed: tuple[str, ...] = ()) -> Any:
    """Load a network for use, not for training, onto the GPU where there is one.

    Args:
        path: a TorchScript archive.
        setting: that names it, for messages.
        needed: attributes that it must have.

    Raises:
        InputError: it is damaged, or lacks an attribute.
    """
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        with warnings.catch_warnings():
            # Deprecated in favour of torch.export; the torch that is locked reads it, and vgg16.pt is one.
            warnings.simplefilter("ignore", FutureWarning)
            network = torch.jit.load(str(path), map_location=device).eval()  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        raise InputError(f"{setting}={path}: cannot be loaded ({str(error).splitlines()[0]}).") from None
    missing = [name for name in needed if not hasattr(network, name)]
    if missing:
        raise InputError(f"{setting}={path}: has no {', '.join(missing)}. {EXPORT}")
    for parameter in network.parameters():
        parameter.requires_grad_(False)
    return network
