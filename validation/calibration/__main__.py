"""Check the claims about the interval and the p-value of rho in simulations whose truth is known.

python -m validation.calibration [--quick] [--output docs/calibration]
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from src.configs import CHECKOUT
from src.errors import InputError, exit_status, replace_unprintable

COVERAGE = """\
## Coverage of the interval

A world is a population of targets. {worlds} samples are drawn from each, including new words and parents, and
each sample is bootstrapped with {draws} draws. Asked: in 92 to 98% of the samples the percentile interval,
nominally 95%, holds the population's ρ. For comparison, the last columns show two other intervals: the
bootstrap of single units, which ignores shared words and parents, and the analytic interval of Fisher's z.
Intervals of the last three worlds are known to be too wide: there only the lower bound is asked.
"""
PLACEBO = """\
## Size of the placebo

A world is a small experiment in which the corpus's property is unrelated to its vectors: the vectors are
noise, or they carry groups, valence and words, and the property is then permuted once among the placebo's own
units. There are {worlds} worlds of each kind, with {permutations} permutations each. Asked: the share of
worlds with p_placebo ≤ .05 is inside the 99% band of 5%.
"""


@dataclass(frozen=True)
class Size:
    """Size of the simulation.

    Attributes:
        worlds: number of samples of each population.
        draws: number of draws of each bootstrap.
        population: number of units from which the true rho of a population is computed.
        nulls: number of experiments of each kind.
        quick: whether these numbers are small, so that only gross errors are found.
    """

    worlds: int = 1000
    draws: int = 500
    population: int = 2_000_000
    nulls: int = 1000
    quick: bool = False


QUICK = Size(worlds=40, draws=100, population=200_000, nulls=6, quick=True)


def measure(size: Size) -> dict[str, pd.DataFrame]:
    """Simulate all populations and null experiments, on all cores.

    Returns:
        `coverage`, see `coverage.tabulate`, and `placebo`, see `nulls.tabulate`.
    """
    from validation.calibration import coverage, nulls
    from validation.calibration.populations import populations

    all_populations, kinds = list(populations()), list(nulls.nulls())
    truths = _parallel(coverage.truth_of, [(population, size.population) for population in all_populations])
    studies = []
    for population, truth in zip(all_populations, truths, strict=True):
        print(population.name, flush=True)
        calls = [(population, truth, number, size.draws) for number in range(size.worlds)]
        studies.append((population, truth, _parallel(coverage.simulate_study, calls)))
    values = []
    for kind in kinds:
        print(f"{kind.targets}_to_{kind.corpus}", flush=True)
        values.append((kind, _parallel(nulls.p_value, [(kind, number) for number in range(size.nulls)])))
    return {"coverage": coverage.tabulate(studies, size.quick), "placebo": nulls.tabulate(values, size.quick)}


def _parallel(function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[Any]:
    import joblib

    results: list[Any] = joblib.Parallel(n_jobs=-1)(joblib.delayed(function)(*call) for call in calls)
    return results


def page(tables: dict[str, pd.DataFrame], size: Size) -> str:
    """Format both tables as Markdown, with explanations."""
    from validation.calibration import nulls

    sections = [
        "# Calibration",
        "Made by `python -m validation.calibration`; each number is a share of simulated worlds.\n",
    ]
    sections += [COVERAGE.format(worlds=f"{size.worlds:,}", draws=size.draws), _rows(tables["coverage"])]
    sections += [PLACEBO.format(worlds=f"{size.nulls:,}", permutations=nulls.PROTOCOL.placebo)]
    return "\n".join([*sections, _rows(tables["placebo"])])


def _rows(table: pd.DataFrame) -> str:
    cells = table.copy()
    cells["low"] = [f"{low:.1%} to {high:.1%}" for low, high in table[["low", "high"]].to_numpy()]
    cells = cells.rename(columns={"low": "asked"}).drop(columns="high")
    cells["holds"] = cells["holds"].map({True: "yes", False: "**no**"})
    for column in cells.columns:
        if column.startswith(("coverage", "share")):
            cells[column] = cells[column].map("{:.1%}".format)
        elif cells[column].dtype == float:
            cells[column] = cells[column].map("{:.3f}".format)
    cells.columns = cells.columns.str.replace("_", " ")
    return cells.to_markdown(index=False, disable_numparse=True) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Simulate, write and print the tables; return 1 if a claim does not hold."""
    replace_unprintable()
    parser = argparse.ArgumentParser(prog="python -m validation.calibration", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="simulate few worlds: finds gross errors only")
    parser.add_argument("--output", type=Path, default=CHECKOUT / "docs" / "calibration")
    options = parser.parse_args(arguments)
    return exit_status(lambda: _main(QUICK if options.quick else Size(), options.output))


def _main(size: Size, output: Path) -> int:
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--output {output}: cannot create the folder ({error.strerror}).") from None
    tables = measure(size)
    for name, table in tables.items():
        table.to_csv(output / f"{name}.csv", index=False, float_format="%.4f")
    text = page(tables, size)
    (output / "README.md").write_text(text, "utf-8")
    print(text)
    print(f"Written to {output}")
    return int(not all(table["holds"].all() for table in tables.values()))


if __name__ == "__main__":
    sys.exit(main())
