"""Run the eight experiments on toys by the project's command line, and again on their shuffled vectors."""

import itertools
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from src import configs, stimuli
from src.embeddings import embeddings
from src.jobs.identity import Job
from src.stimuli import Table
from validation.calibration.command_line import write

COLUMNS = ["exp", "stratum", "level", "level_p", "rho", "placebo_q95"]
Toy = tuple[float, int]  # bias and seed


def toys_of(biases: Sequence[float], seeds: Sequence[int]) -> list[Toy]:
    """Return all combinations, in the order of a sweep."""
    return list(itertools.product(biases, seeds))


def run_toys(
    biases: Sequence[float], seeds: Sequence[int], overrides: list[str], folder: Path
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Train toys and run the experiments; return their analyses and the draws of their levels."""
    sweep = [f"demo.bias={','.join(map(str, biases))}", f"model.seed={','.join(map(str, seeds))}"]
    return _run(toys_of(biases, seeds), [*overrides, *sweep], folder)


def run_shuffled(
    biases: Sequence[float], seeds: Sequence[int], overrides: list[str], folder: Path
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Run the experiments on shuffled vectors of the same toys."""
    paths: list[str] = []
    for bias, seed in toys_of(biases, seeds):
        path = folder / f"bias={bias:g} seed={seed}"
        path.mkdir(parents=True)
        cfg = Job.of(*configs.compose([*overrides, f"demo.bias={bias}", f"model.seed={seed}"]), "").cfg
        table = partial(stimuli.load, cfg)
        for role in stimuli.ROLES:
            write(table(role), shuffle(table(role), embeddings(cfg, role, table).vectors, len(paths)), path)
        paths.append(str(path))
    # Options of toys have no meaning for vectors.
    others = [override for override in overrides if not override.startswith(("model", "demo."))]
    listed = ",".join(f"'{path}'" for path in paths)
    return _run(toys_of(biases, seeds), [*others, "model=precomputed", f"model.path={listed}"], folder)


def shuffle(table: Table, vectors: Tensor, seed: int) -> Tensor:
    """Move the vectors of each item to another at random; the sentences of a text stay together."""
    column = "word" if "word" in table.frame.columns else "id"
    item = pd.factorize(table.frame[column])[0]
    rows_of_item = np.argsort(item, kind="stable").reshape(item.max() + 1, -1)
    taken = np.random.default_rng(seed).permutation(len(rows_of_item))
    shuffled = torch.empty_like(vectors)
    shuffled[rows_of_item.reshape(-1)] = vectors[rows_of_item[taken].reshape(-1)]
    return shuffled


def _run(toys: list[Toy], overrides: list[str], folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    output = folder / "sweep"
    tracking = f"tracking.uri=sqlite:///{folder / 'mlflow.db'}"
    options = ["exp=glob(*_to_*)", "report=false", tracking, f"hydra.sweep.dir={output}"]
    command = [sys.executable, "-m", "src.run", "-m", *overrides, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=configs.CHECKOUT)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)[:300]} … failed:\n{done.stderr[-2000:]}")
    jobs = sorted((path.parent for path in output.glob("*/results")), key=lambda path: int(path.name))
    per_toy = len(jobs) // len(toys)
    analyses, draws = [], []
    for number, job in enumerate(jobs):
        bias, seed = toys[number // per_toy]
        about: dict[str, Any] = {"bias": bias, "seed": seed}
        rows = pd.read_csv(job / "results" / "analyses.csv", dtype={"stratum": str})[COLUMNS]
        analyses.append(rows.assign(**about))
        levels = pd.read_parquet(job / "results" / "level_draws.parquet")
        draws.append(levels.assign(**about, exp=rows["exp"].iloc[0]))
    return pd.concat(analyses, ignore_index=True), pd.concat(draws, ignore_index=True)
