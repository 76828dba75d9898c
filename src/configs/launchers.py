"""Schema of hydra/launcher: where the jobs of a sweep are run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

# Hydra takes launchers of a package of this name alone.
PACKAGE = "hydra_plugins.carryover"


@dataclass
class HereConf:
    """This process, one job after another."""

    _target_: str = f"{PACKAGE}.Here"


@dataclass
class JoblibConf:
    """`n_jobs`: processes at once; -1: one per core."""

    _target_: str = f"{PACKAGE}.Joblib"
    n_jobs: int = -1


@dataclass
class SlurmConf:
    """What a batch of jobs asks SLURM for, in submitit's words; null: whatever the cluster does by itself.

    Attributes:
        timeout_min: minutes that a batch may take.
        max_num_timeout: how many times a batch whose time is up is put into the queue again.
        signal_delay_s: seconds before the end at which it is told to stop.
        array_parallelism: batches at once.
        setup: lines of shell before the batch starts.
        additional_parameters: any other option of sbatch, by its name.
    """

    _target_: str = f"{PACKAGE}.Slurm"
    partition: str | None = None
    timeout_min: int = 240
    mem_gb: float | None = None
    cpus_per_task: int = 4
    gpus_per_node: int | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    max_num_timeout: int = 3
    signal_delay_s: int = 90
    array_parallelism: int = 256
    setup: list[str] | None = None
    additional_parameters: dict[str, Any] = field(default_factory=dict)


LAUNCHERS = {"here": HereConf, "joblib": JoblibConf, "slurm": SlurmConf}
