"""What a sweep found, as its report shows it."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

# Tables beside analyses.csv and their columns, but for those that every version wrote
# (docs/architecture.md, "Formats").
TABLES = {
    "targets": ("valence",),
    "draws": ("stratum", "kind", "draw", "rho"),
    "retrieved": ("stratum", "item", "outcome", "share", "reference", "against", "contribution"),
}
# What was chosen besides model and experiment.
READING = ("protocol", "seed", "debias")
Reading = tuple[str, int, str]


@dataclass(frozen=True)
class Findings:
    """A sweep over one dataset.

    Attributes:
        dataset: which.
        sweep: id of the parent run.
        status: of the parent run: RUNNING, FINISHED, FAILED or KILLED.
        started: when, ISO 8601, UTC.
        frames: study -> analyses.csv of all its jobs, as the study combines them.
        folders: `config` of a job -> the folder `results/` with its files.
        jobs: one row per job that ended: the first columns of analyses.csv, `status`, `run`, `reason`,
            `overrides`.
        missing: overrides of the jobs that were asked for and have no outcome.
        models: one row per model: `model`, `parameters_millions`, `gflops_image`, `zero_shot` (accuracy
            on ImageNet in [0, 1]); NaN where unknown; `pretraining`, the data that it was trained on.
        provenance: what the numbers come from, by name: `git.commit`, `git.dirty`, `command`, libraries'
            versions, inputs' hashes.
    """

    dataset: str
    sweep: str
    status: str
    started: str
    frames: Mapping[str, pd.DataFrame]
    folders: Mapping[str, Path]
    jobs: pd.DataFrame
    missing: Sequence[str]
    models: pd.DataFrame
    provenance: Mapping[str, str]

    def read(self, config: str, name: str) -> pd.DataFrame:
        """A table of a job: `targets`, `attributes`, `draws` or `retrieved`.

        Jobs of older versions have no `draws`, no `retrieved` and no valence of their targets: such a table
        is empty, such a column NaN.
        """
        columns = TABLES.get(name, ())
        if not self.has(config, name):
            return pd.DataFrame(columns=list(columns))
        found: pd.DataFrame = pd.read_parquet(self.folders[config] / f"{name}.parquet")
        return found.reindex(columns=[*found.columns, *(set(columns) - set(found.columns))])

    def has(self, config: str, name: str) -> bool:
        """Whether a job left a table: what is switched off leaves none."""
        return config in self.folders and (self.folders[config] / f"{name}.parquet").is_file()

    def of(self, study: str) -> pd.DataFrame:
        """Analyses of a study, every reading; an empty table if the sweep has none."""
        return self.frames.get(study, pd.DataFrame())

    def with_frame(self, study: str, frame: pd.DataFrame) -> Findings:
        """Same findings with another table of a study."""
        return replace(self, frames={**self.frames, study: frame})


def readings(analyses: pd.DataFrame) -> list[Reading]:
    """Each `protocol`, `seed` and `debias` of analyses: the paper's first, then what is nearest to it.

    Args:
        analyses: rows of analyses.csv of any number of jobs.
    """
    if analyses.empty:
        return []
    found = analyses[list(READING)].drop_duplicates()
    protocol = found["protocol"].astype(str)
    # `paper+k=60` is the paper's protocol on a smaller world.
    ordered = found.assign(
        far=protocol.str.split("+").str[0] != "paper",
        told=protocol.str.len(),
        treated=found["debias"] != "none",
    ).sort_values(["far", "treated", "told", "debias", "seed", "protocol"], kind="stable")
    return list(ordered[list(READING)].itertuples(index=False, name=None))


def first_reading(analyses: pd.DataFrame) -> pd.DataFrame:
    """Rows of the first reading, which figures and pages show; all of them if there are none."""
    every = readings(analyses)
    return of_reading(analyses, every[0]) if every else analyses


def of_reading(analyses: pd.DataFrame, reading: Reading) -> pd.DataFrame:
    """The rows of one reading."""
    same = (analyses[name] == value for name, value in zip(READING, reading, strict=True))
    return analyses[functools.reduce(operator.and_, same)]
