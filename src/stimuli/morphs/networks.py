"""Load networks of users from TorchScript archives, which are read without running Python code.

The published `.pkl` of StyleGAN2 and StyleGAN2-ADA is a pickle, which runs code when it is opened, so it is
refused; docs/data.md, "Export of a StyleGAN2 generator", has the recipe to export it once. `vgg16.pt`, the
perceptual network of StyleGAN2-ADA, is published as a TorchScript archive.
"""

import warnings
import zipfile
from pathlib import Path
from typing import Any

from src.errors import InputError

# Required attributes of a generator.
GENERATOR_ATTRIBUTES = ("mapping", "synthesis", "z_dim", "w_dim", "num_ws", "img_resolution")
REMEDY = "docs/data.md describes how to export a StyleGAN2 .pkl to TorchScript."


def check_archive(path: Path, setting: str) -> Path:
    """Check that a file is a TorchScript archive, by the names of its members, and return its path."""
    if not path.is_file():
        raise InputError(f"{setting}={path}: no such file. {REMEDY}")
    names = zipfile.ZipFile(path).namelist() if zipfile.is_zipfile(path) else []
    if not any("/code/" in name for name in names):
        raise InputError(
            f"{setting}={path}: not a TorchScript archive. A pickle (.pkl, or what torch.save writes) runs "
            f"code when it is opened, so it is refused. {REMEDY}"
        )
    return path


def load_network(path: Path, setting: str, attributes: tuple[str, ...] = ()) -> Any:
    """Load a network for inference, onto the GPU if available; raise `InputError` if it lacks attributes."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        with warnings.catch_warnings():
            # torch.jit is deprecated in favour of torch.export, but vgg16.pt is published as TorchScript.
            warnings.simplefilter("ignore", FutureWarning)
            network = torch.jit.load(str(path), map_location=device).eval()  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        raise InputError(f"{setting}={path}: unreadable ({str(error).splitlines()[0]}). {REMEDY}") from None
    missing = [name for name in attributes if not hasattr(network, name)]
    if missing:
        raise InputError(f"{setting}={path}: has no {', '.join(missing)}. {REMEDY}")
    for parameter in network.parameters():
        parameter.requires_grad_(False)
    return network
