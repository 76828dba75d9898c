"""Define the findings of a sweep: what its report is written from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

# Table next to analyses.csv -> its columns that jobs of older versions lack (docs/architecture.md,
# "Formats").
LATER_COLUMNS = {
    "targets": ("valence",),
    "draws": ("stratum", "kind", "draw", "rho"),
    "level_draws": ("stratum", "draw", "level"),
    "retrieved": ("stratum", "item", "outcome", "share", "reference", "against", "contribution"),
}
# Columns that make up a specification: the settings besides model and experiment. An instruction that is not
# the model's own is part of the protocol's name.
SPECIFICATION = ("protocol", "seed", "debias", "perturb")
Specification = tuple[str, int, str, str]


@dataclass(frozen=True)
class Findings:
    """The results of a sweep over one dataset."""

    dataset: str
    sweep: str  # id of the parent run
    status: str  # status of the parent run: RUNNING, FINISHED, FAILED or KILLED
    started: str  # start time, ISO 8601, UTC
    frames: Mapping[str, pd.DataFrame]  # study -> analyses.csv of all its jobs, as the study combines them
    folders: Mapping[str, Path]  # `config` of a job -> the folder `results/` with its files
    # One row per job that ended: the first columns of analyses.csv, `status`, `run`, `reason`, `overrides`.
    jobs: pd.DataFrame
    missing: Sequence[str]  # overrides of the requested jobs that did not end
    # One row per model: `model`, `parameters_millions`, `gflops_image`, `zero_shot` (accuracy on ImageNet in
    # [0, 1]), `pairs_seen` in training; NaN where unknown; `pretraining`, the data that it was trained on,
    # and their `filter`, "unknown" where unknown; `family`, the same for models of one architecture and
    # training data; `verified`, whether it agreed with the scores of its publisher (empty for models without
    # published scores, such as toys).
    models: pd.DataFrame
    # Origin of the numbers: `git.commit`, `git.dirty`, `command`, versions of libraries, hashes of inputs.
    provenance: Mapping[str, str]

    def read(self, config: str, name: str) -> pd.DataFrame:
        """Read a table of a job, such as `targets` or `draws`.

        A table or column that the job's version did not write is empty or NaN, with `LATER_COLUMNS`.
        """
        columns = LATER_COLUMNS.get(name, ())
        if not self.has(config, name):
            return pd.DataFrame(columns=list(columns))
        table: pd.DataFrame = pd.read_parquet(self.folders[config] / f"{name}.parquet")
        return table.reindex(columns=[*table.columns, *(set(columns) - set(table.columns))])

    def has(self, config: str, name: str) -> bool:
        """Return whether a job has a table; some options write none if they are off."""
        return config in self.folders and (self.folders[config] / f"{name}.parquet").is_file()

    def of(self, study: str) -> pd.DataFrame:
        """Return the analyses of a study, all specifications; an empty table if the sweep has none."""
        return self.frames.get(study, pd.DataFrame())

    def with_frame(self, study: str, frame: pd.DataFrame) -> Findings:
        """Return the same findings with another table of a study."""
        return replace(self, frames={**self.frames, study: frame})


def list_specifications(analyses: pd.DataFrame) -> list[Specification]:
    """List the specifications of analyses, those closest to the paper's first.

    The paper's protocol precedes others, no debiasing or perturbation precedes any, short names precede long
    ones.
    """
    if analyses.empty:
        return []
    specifications = analyses[list(SPECIFICATION)].drop_duplicates()
    protocol = specifications["protocol"].astype(str)
    # `paper+k=60`, for instance, is the paper's protocol for a small set of stimuli.
    ordered = specifications.assign(
        not_paper=protocol.str.split("+").str[0] != "paper",
        length=protocol.str.len(),
        treated=specifications["debias"] != "none",
        perturbed=specifications["perturb"] != "none",
    ).sort_values(
        ["not_paper", "treated", "perturbed", "length", "debias", "perturb", "seed", "protocol"],
        kind="stable",
    )
    return list(ordered[list(SPECIFICATION)].itertuples(index=False, name=None))


def first_specification(analyses: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the first specification, which figures and pages show; none if empty."""
    specifications = list_specifications(analyses)
    return select_specification(analyses, specifications[0]) if specifications else analyses


def select_specification(analyses: pd.DataFrame, specification: Specification) -> pd.DataFrame:
    """Return the rows of one specification."""
    return analyses[(analyses[list(SPECIFICATION)] == specification).all(axis=1)]
