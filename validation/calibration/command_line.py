"""Run the null worlds by the project's command line, on precomputed vectors."""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
from safetensors.torch import save_file
from torch import Tensor
from torch.nn.functional import normalize

from src.stimuli import Table
from validation.calibration import worlds
from validation.calibration.nulls import Analysis
from validation.calibration.worlds import ATTRIBUTES, PROTOCOL, Kind

# Number of worlds in a sweep; its number is the seed of the method in these worlds.
SWEEP_SIZE = 50
# Fields of the protocol that differ from those of protocol=paper.
FIELDS = ("targets", "placebo", "bootstrap", "attribute_draws", "property_draws")


def sweeps(count: int) -> list[range]:
    """Split the worlds from 0 to `count` into those of each sweep."""
    return [range(start, min(start + SWEEP_SIZE, count)) for start in range(0, count, SWEEP_SIZE)]


def analyse(kind: Kind, numbers: range) -> dict[str, list[Analysis]]:
    """Run the experiments of worlds in one sweep, with sets A and B in the corpus, and held out.

    Args:
        kind: kind of the experiments.
        numbers: numbers of the worlds; consecutive ones give the analyses of different groups.

    Returns:
        An analysis of each world, by `worlds.ATTRIBUTES`.

    Raises:
        RuntimeError: the command failed.
    """
    with TemporaryDirectory() as name:
        folder = Path(name)
        for number in numbers:
            _write(kind, number, folder / f"{number:04d}")
        _run(kind, numbers, folder)
        paths = sorted((folder / "sweep").glob("*/results/analyses.csv"))
        analyses = pd.concat(
            [pd.read_csv(path, dtype={"model": str, "group": str, "stratum": str}) for path in paths]
        )
    if len(paths) != len(numbers) * len(ATTRIBUTES):
        raise RuntimeError(
            f"{kind.name}: {len(paths)} of {len(numbers) * len(ATTRIBUTES)} jobs have results."
        )
    with_other_sets = analyses["protocol"].str.startswith("held_out")
    by_attributes = dict(
        zip(ATTRIBUTES, (analyses[~with_other_sets], analyses[with_other_sets]), strict=True)
    )
    return {
        attributes: [_select(frame[frame["model"] == f"{number:04d}"], number) for number in numbers]
        for attributes, frame in by_attributes.items()
    }


def _select(analyses: pd.DataFrame, number: int) -> Analysis:
    row = analyses.iloc[number % len(analyses)]
    return Analysis(*(float(row[name]) for name in Analysis._fields))


def _run(kind: Kind, numbers: range, folder: Path) -> None:
    paths = ",".join(str(folder / f"{number:04d}") for number in numbers)
    overrides = [
        "model=precomputed",
        f"model.path={paths}",
        f"exp={kind.targets}_to_{kind.corpus}",
        "protocol=paper,held_out",
        f"protocol.k={kind.k}",
        *(f"protocol.{field}={getattr(PROTOCOL, field)}" for field in FIELDS),
        f"seed={numbers.start // SWEEP_SIZE}",
        "report=false",
        f"hydra.sweep.dir={folder / 'sweep'}",
        f"tracking.uri=sqlite:///{folder / 'mlflow.db'}",
    ]
    command = [sys.executable, "-m", "src.run", "-m", *overrides]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{kind.name}: {' '.join(command)[:200]} … failed:\n{done.stderr[-2000:]}")


def _write(kind: Kind, number: int, folder: Path) -> None:
    experiment = worlds.experiment(kind, number)
    folder.mkdir()
    write(experiment.targets, experiment.target_vectors, folder)
    write(experiment.corpus, experiment.corpus_vectors, folder)


def write(table: Table, vectors: Tensor, folder: Path) -> None:
    """Write a table and its vectors, divided by their norms, as `model=precomputed` reads them."""
    table.frame.to_parquet(folder / f"{table.role}.parquet")
    save_file({"embedding": normalize(vectors, dim=1)}, folder / f"{table.role}.safetensors")
