"""Run the eight experiments on toys by the project's command line, and again on changed vectors."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy import stats
from torch import Tensor
from torch.nn.functional import normalize

from src import configs, stimuli
from src.embeddings import load_embeddings
from src.jobs.identity import Job
from src.stimuli import CARRIES, Table
from src.studies.propagation.attributes import corpus_of
from validation import sweeps

COLUMNS = ["exp", "stratum", "level", "level_p", "rho", "placebo_q95"]
EXPERIMENTS = "glob(*_to_*)"
# Experiments in which groups retrieve valence: A and B, which are measured, need not lie on a second path.
SECOND_PATH_EXPERIMENTS = ("faces_to_words", "labels_to_scenes")
# Length of the vectors' component along the second path, per SD of valence, and at the largest planted bias.
SECOND_PATH = 0.5
Toy = tuple[float, int]  # bias and seed
Change = Callable[[configs.RunConfig, Table, Tensor, int], Tensor]


class Runs(NamedTuple):
    """Results of the experiments on all toys; each table has columns `bias`, `seed` and `exp`.

    Attributes:
        analyses: `stratum`, `level`, `level_p`, `rho`, `placebo_q95`.
        draws: `stratum`, `draw` (0: observed), `level`.
        interventions: `left`, `left_p`, `reason`.
    """

    analyses: pd.DataFrame
    draws: pd.DataFrame
    interventions: pd.DataFrame


def toy_overrides(toy: Toy) -> list[str]:
    """Return the overrides that choose a toy."""
    return [f"demo.bias={toy[0]:g}", f"model.seed={toy[1]}"]


def run_toys(toys: Sequence[Toy], overrides: list[str], folder: Path) -> Runs:
    """Train toys, in the order of a sweep, and run the experiments."""
    biases, seeds = (",".join(map(str, dict.fromkeys(values))) for values in zip(*toys, strict=True))
    return _run(
        toys, [*overrides, f"demo.bias={biases}", f"model.seed={seeds}", f"exp={EXPERIMENTS}"], folder
    )


def run_shuffled(toys: Sequence[Toy], overrides: list[str], folder: Path) -> Runs:
    """Run the experiments on shuffled vectors of the same toys."""
    return _run_changed(toys, overrides, folder, lambda _, *vectors: shuffle(*vectors), EXPERIMENTS)


def run_second_path(toys: Sequence[Toy], overrides: list[str], folder: Path) -> Runs:
    """Run `SECOND_PATH_EXPERIMENTS` on vectors of the same toys to which a path is added."""
    return _run_changed(toys, overrides, folder, add_path, ",".join(SECOND_PATH_EXPERIMENTS))


def shuffle(table: Table, vectors: Tensor, seed: int) -> Tensor:
    """Move the vectors of each item to another at random; the sentences of a text stay together."""
    column = "word" if "word" in table.frame.columns else "id"
    item = pd.factorize(table.frame[column])[0]
    rows_of_item = np.argsort(item, kind="stable").reshape(item.max() + 1, -1)
    taken = np.random.default_rng(seed).permutation(len(rows_of_item))
    shuffled = torch.empty_like(vectors)
    shuffled[rows_of_item.reshape(-1)] = vectors[rows_of_item[taken].reshape(-1)]
    return shuffled


def add_path(cfg: configs.RunConfig, table: Table, vectors: Tensor, _: int) -> Tensor:
    """Append a component along which groups retrieve valence, and which A and B lack.

    It is proportional to the valence of a corpus's items, in SDs, and to the planted valence of a group.
    Returns unit vectors, [N, D + 1].
    """
    if CARRIES[table.role] == "valence":
        component = stats.zscore(table.frame["valence"].to_numpy())
        for pool in corpus_of(table, cfg.protocol, cfg.seed).pools:
            component[pool.rows[pool.attributes]] = 0
    else:
        component = table.frame["group"].map(cfg.demo.planted).to_numpy()
        component = component / np.abs(component).max()
    added = SECOND_PATH * torch.from_numpy(component).to(vectors.dtype)[:, None]
    return normalize(torch.cat([normalize(vectors, dim=1), added], dim=1), dim=1)


def _run_changed(
    toys: Sequence[Toy], overrides: list[str], folder: Path, change: Change, experiments: str
) -> Runs:
    """Run experiments on the vectors that `change` makes of each toy's, with the toy's number as seed."""
    paths: list[str] = []
    for toy in toys:
        path = folder / "bias={:g} seed={}".format(*toy)
        path.mkdir(parents=True)
        cfg = Job.of(*configs.compose([*overrides, *toy_overrides(toy)]), "").cfg
        table = partial(stimuli.load, cfg)
        for role in stimuli.ROLES:
            vectors = load_embeddings(cfg, role, table).vectors
            sweeps.write(table(role), change(cfg, table(role), vectors, len(paths)), path)
        paths.append(str(path))
    # Options of toys have no meaning for vectors.
    others = [override for override in overrides if not override.startswith(("model", "demo."))]
    listed = ",".join(f"'{path}'" for path in paths)
    return _run(toys, [*others, "model=precomputed", f"model.path={listed}", f"exp={experiments}"], folder)


def _run(toys: Sequence[Toy], overrides: list[str], folder: Path) -> Runs:
    jobs = sweeps.run([*overrides, "exp.intervene=true"], folder)
    per_toy = len(jobs) // len(toys)
    tables: list[list[pd.DataFrame]] = []
    for number, job in enumerate(jobs):
        analyses = pd.read_csv(job / "analyses.csv", dtype={"stratum": str})[COLUMNS]
        levels = pd.read_parquet(job / "level_draws.parquet")
        intervention = pd.read_parquet(job / "intervention_summary.parquet")[["left", "left_p", "reason"]]
        about = dict(zip(("bias", "seed"), toys[number // per_toy], strict=True))
        about["exp"] = analyses["exp"].iloc[0]
        tables.append([table.assign(**about) for table in (analyses, levels, intervention)])
    return Runs(*(pd.concat(of_jobs, ignore_index=True) for of_jobs in zip(*tables, strict=True)))
