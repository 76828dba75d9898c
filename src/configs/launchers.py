"""Define the schema of hydra/launcher: where the jobs of a sweep run."""

from dataclasses import dataclass, field
from typing import Any

# Hydra accepts launchers only from packages below `hydra_plugins`.
PACKAGE = "hydra_plugins.carryover"


@dataclass
class LocalConf:
    """Settings to run jobs in this process, one after another."""

    _target_: str = f"{PACKAGE}.LocalLauncher"


@dataclass
class JoblibConf:
    """Settings to run jobs in concurrent processes of this machine."""

    _target_: str = f"{PACKAGE}.Joblib"
    n_jobs: int = -1  # number of processes; -1: one per core


@dataclass
class SlurmConf:
    """Resources of a batch of jobs on SLURM, under submitit's names; null: the cluster's default."""

    _target_: str = f"{PACKAGE}.Slurm"
    partition: str | None = None  # partition of the cluster
    timeout_min: int = 240  # time limit of a batch in minutes
    mem_gb: float | None = None  # memory of a batch in GB
    cpus_per_task: int = 4  # cores of a batch
    gpus_per_node: int | None = None  # GPUs of a batch
    account: str | None = None  # account to charge
    qos: str | None = None  # quality of service
    constraint: str | None = None  # features that a node must have
    max_num_timeout: int = 3  # number of times that a batch may be requeued at its time limit
    signal_delay_s: int = 90  # seconds between the signal to stop and the time limit
    array_parallelism: int = 256  # maximum number of concurrent batches
    setup: list[str] | None = None  # shell commands to run before the batch
    additional_parameters: dict[str, Any] = field(default_factory=dict)  # other options of sbatch, by name


LAUNCHERS = {"here": LocalConf, "joblib": JoblibConf, "slurm": SlurmConf}
