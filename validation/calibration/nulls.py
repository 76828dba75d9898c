"""Measure how often level and rho are significant in worlds whose property is unrelated to their vectors.

The experiments are run by the project's command line, on precomputed vectors.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pandas as pd

from src.studies.propagation import experiment
from validation import sweeps
from validation.calibration import bounds, worlds
from validation.calibration.worlds import ATTRIBUTES, PROTOCOL, Kind

POOLED = "all kinds"
# Number of worlds in a sweep; its number is the seed of the method in these worlds.
SWEEP_SIZE = 50
# Fields of the protocol that differ from those of protocol=paper.
FIELDS = ("targets", "placebo", "bootstrap", "attribute_draws", "property_draws")


class Analysis(NamedTuple):
    """Level and rho of an analysis, with the p of each."""

    level: float
    level_p: float
    rho: float
    p_placebo: float


def ranges(count: int) -> list[range]:
    """Split the worlds from 0 to `count` into those of each sweep."""
    return [range(start, min(start + SWEEP_SIZE, count)) for start in range(0, count, SWEEP_SIZE)]


def analyse_in_sweep(kind: Kind, numbers: range) -> dict[str, list[Analysis]]:
    """Run the experiments of worlds in one sweep, with sets A and B in the corpus, and held out.

    Returns an analysis of each world, by `worlds.ATTRIBUTES`; worlds of consecutive numbers give those of
    different groups. Raises `InputError` if the command fails, and `RuntimeError` if jobs lack results.
    """
    with TemporaryDirectory() as name:
        folder = Path(name)
        paths = [folder / f"{number:04d}" for number in numbers]
        for number, path in zip(numbers, paths, strict=True):
            world = worlds.experiment(kind, number)
            path.mkdir()
            sweeps.write(world.targets, world.target_vectors, path)
            sweeps.write(world.corpus, world.corpus_vectors, path)
        overrides = [
            "model=precomputed",
            f"model.path={','.join(map(str, paths))}",
            f"exp={kind.targets}_to_{kind.corpus}",
            "protocol=paper,held_out",
            f"protocol.k={kind.k}",
            *(f"protocol.{field}={getattr(PROTOCOL, field)}" for field in FIELDS),
            f"seed={numbers.start // SWEEP_SIZE}",
        ]
        jobs = sweeps.run(overrides, folder)
        dtypes = dict.fromkeys(("model", "group", "stratum"), str)
        analyses = pd.concat([pd.read_csv(job / "analyses.csv", dtype=dtypes) for job in jobs])
    if len(jobs) != len(numbers) * len(ATTRIBUTES):
        raise RuntimeError(f"{kind.name}: {len(jobs)} of {len(numbers) * len(ATTRIBUTES)} jobs have results.")
    with_other_sets = analyses["protocol"].str.startswith("held_out")
    frames = analyses[~with_other_sets], analyses[with_other_sets]
    return {
        attributes: [_select(frame[frame["model"] == f"{number:04d}"], number) for number in numbers]
        for attributes, frame in zip(ATTRIBUTES, frames, strict=True)
    }


def _select(analyses: pd.DataFrame, number: int) -> Analysis:
    row = analyses.iloc[number % len(analyses)]
    return Analysis(*(float(row[name]) for name in Analysis._fields))


def analyse(kind: Kind, number: int) -> Analysis:
    """Run the experiment of a world; consecutive worlds give the analyses of different groups."""
    return _select(experiment.run(*vars(worlds.experiment(kind, number)).values()).analyses, number)


def tabulate(measured: Sequence[tuple[str, str, Sequence[Analysis]]]) -> pd.DataFrame:
    """Summarise by kind the shares of worlds with p at most 5%, and whether they are inside their bounds.

    A share counts the worlds whose p is defined: `undefined` have no p of rho. With held-out sets, the mean
    rho must be 0 as well. The last row pools all kinds. `measured` has names of the kinds of worlds,
    `protocol.attributes`, and the analyses of the worlds.
    """
    rows = [_summarise(*kind) for kind in measured]
    pooled = [analysis for _, _, analyses in measured for analysis in analyses]
    pooled_row = _summarise(POOLED, "both", pooled) | {"mean_rho": math.nan, "se_rho": math.nan}
    return pd.DataFrame([*rows, pooled_row])


def _summarise(name: str, attributes: str, analyses: Sequence[Analysis]) -> dict[str, Any]:
    frame = pd.DataFrame(analyses, columns=Analysis._fields)
    rhos = frame["rho"].dropna().to_numpy()
    row = {"world": name, "attributes": attributes, "worlds": len(frame), "undefined": len(frame) - len(rhos)}
    row["low"], row["high"] = bounds.of_false_positive_rate(len(frame))
    holds = []
    p_values = {"level": frame["level_p"].dropna(), "rho": frame.loc[frame["rho"].notna(), "p_placebo"]}
    for statistic, p in p_values.items():
        share = float((p <= bounds.ALPHA).mean())
        low, high = bounds.of_false_positive_rate(len(p))
        row[f"share_{statistic}"] = share
        holds.append(low <= share <= high)
    mean, error = float(rhos.mean()), float(rhos.std(ddof=1) / math.sqrt(len(rhos)))
    if attributes == "held_out":
        holds.append(abs(mean) <= 3 * error)
    return row | {"mean_rho": mean, "se_rho": error, "holds": all(holds)}
