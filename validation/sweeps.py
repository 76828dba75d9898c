"""Run sweeps by the project's command line, also on precomputed vectors."""

import subprocess
import sys
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor
from torch.nn.functional import normalize

from src.configs import CHECKOUT
from src.errors import InputError
from src.stimuli import Table


def write(table: Table, vectors: Tensor, folder: Path) -> None:
    """Write a table and its vectors, divided by their norms, as `model=precomputed` reads them."""
    table.frame.to_parquet(folder / f"{table.role}.parquet")
    save_file({"embedding": normalize(vectors, dim=1)}, folder / f"{table.role}.safetensors")


def run(overrides: list[str], folder: Path) -> list[Path]:
    """Run a sweep without a report into a folder; return the folders `results/` of its jobs, in their order.

    Raises `InputError` if the command fails.
    """
    paths = [f"hydra.sweep.dir={folder / 'sweep'}", f"tracking.uri=sqlite:///{folder / 'mlflow.db'}"]
    command = [sys.executable, "-m", "src.run", "-m", *overrides, "report=false", *paths]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=CHECKOUT)
    if done.returncode:
        raise InputError(f"{' '.join(command)[:300]} … failed:\n{done.stderr[-2000:]}")
    return sorted((folder / "sweep").glob("*/results"), key=lambda path: int(path.parent.name))
