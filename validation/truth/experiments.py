"""Run the eight experiments on toys by the project's command line, and again on their shuffled vectors."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from src import configs, stimuli
from src.embeddings import load_embeddings
from src.jobs.identity import Job
from src.stimuli import Table
from validation import sweeps

COLUMNS = ["exp", "stratum", "level", "level_p", "rho", "placebo_q95"]
Toy = tuple[float, int]  # bias and seed


def toy_overrides(toy: Toy) -> list[str]:
    """Return the overrides that choose a toy."""
    return [f"demo.bias={toy[0]:g}", f"model.seed={toy[1]}"]


def run_toys(toys: list[Toy], overrides: list[str], folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Train toys, in the order of a sweep; run the experiments; return analyses and draws of levels."""
    biases, seeds = (",".join(map(str, dict.fromkeys(values))) for values in zip(*toys, strict=True))
    return _run(toys, [*overrides, f"demo.bias={biases}", f"model.seed={seeds}"], folder)


def run_shuffled(toys: list[Toy], overrides: list[str], folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Run the experiments on shuffled vectors of the same toys."""
    paths: list[str] = []
    for toy in toys:
        path = folder / "bias={:g} seed={}".format(*toy)
        path.mkdir(parents=True)
        cfg = Job.of(*configs.compose([*overrides, *toy_overrides(toy)]), "").cfg
        table = partial(stimuli.load, cfg)
        for role in stimuli.ROLES:
            vectors = shuffle(table(role), load_embeddings(cfg, role, table).vectors, len(paths))
            sweeps.write(table(role), vectors, path)
        paths.append(str(path))
    # Options of toys have no meaning for vectors.
    others = [override for override in overrides if not override.startswith(("model", "demo."))]
    listed = ",".join(f"'{path}'" for path in paths)
    return _run(toys, [*others, "model=precomputed", f"model.path={listed}"], folder)


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
    jobs = sweeps.run([*overrides, "exp=glob(*_to_*)"], folder)
    per_toy = len(jobs) // len(toys)
    analyses, draws = [], []
    for number, job in enumerate(jobs):
        bias, seed = toys[number // per_toy]
        about: dict[str, Any] = {"bias": bias, "seed": seed}
        rows = pd.read_csv(job / "analyses.csv", dtype={"stratum": str})[COLUMNS]
        analyses.append(rows.assign(**about))
        levels = pd.read_parquet(job / "level_draws.parquet")
        draws.append(levels.assign(**about, exp=rows["exp"].iloc[0]))
    return pd.concat(analyses, ignore_index=True), pd.concat(draws, ignore_index=True)
