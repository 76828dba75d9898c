"""Entry: does what is said of a rho hold where the truth is known?

python -m validation.calibration [--quick] [--output docs/calibration]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from src.configs import CHECKOUT
from src.errors import InputError, answered, replace_unprintable

COVERAGE = """\
## Coverage of the interval

A world is a population of targets; {worlds} samples are drawn of each, words and parents anew as well, with
{draws} draws of the bootstrap each. Asked: in 92 to 98% of them the percentile interval, nominally 95%,
holds the population's ρ. Beside it two others: the bootstrap of single units, and the analytic interval of
Fisher's z. The last three worlds are known to give too wide intervals: of them only the lower bound is asked.
"""
PLACEBO = """\
## Size of the placebo

Small experiments in which the corpus's property has nothing to do with its vectors: these are noise, or they
hold groups, valence and words, and the property is then exchanged once by the placebo's own units. {worlds}
of each kind, {permutations} permutations. Asked: the share of them with p_placebo ≤ .05 is inside the 99%
band of 5%.
"""


@dataclass(frozen=True)
class Size:
    """How much is simulated.

    Attributes:
        worlds, draws: samples of each population, and draws of each bootstrap.
        population: units that stand for all.
        nulls: experiments of each kind.
        quick: few of each, so that only what is plainly wrong is found.
    """

    worlds: int = 1000
    draws: int = 500
    population: int = 2_000_000
    nulls: int = 1000
    quick: bool = False


QUICK = Size(worlds=40, draws=100, population=200_000, nulls=6, quick=True)


def measure(size: Size) -> dict[str, pd.DataFrame]:
    """Simulate everything, on all cores.

    Returns:
        `coverage`, see `coverage.tabulate`, and `placebo`, see `nulls.tabulate`.
    """
    from validation.calibration import coverage, nulls
    from validation.calibration.populations import worlds

    held, kinds = list(worlds()), list(nulls.nulls())
    truths = _parallel(coverage.truth_of, [(world, size.population) for world in held])
    studies = []
    for world, truth in zip(held, truths, strict=True):
        print(world.name, flush=True)
        asked = [(world, truth, number, size.draws) for number in range(size.worlds)]
        studies.append((world, truth, _parallel(coverage.sampled, asked)))
    values = []
    for kind in kinds:
        print(f"{kind.targets}_to_{kind.corpus}", flush=True)
        values.append((kind, _parallel(nulls.p_value, [(kind, number) for number in range(size.nulls)])))
    return {
        "coverage": coverage.tabulate(studies, size.quick),
        "placebo": nulls.tabulate(values, size.quick),
    }


def _parallel(function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[Any]:
    import joblib

    found: list[Any] = joblib.Parallel(n_jobs=-1)(joblib.delayed(function)(*call) for call in calls)
    return found


def page(found: dict[str, pd.DataFrame], size: Size) -> str:
    """Both tables in Markdown, with what they say."""
    from validation.calibration import nulls

    parts = [
        "# Calibration",
        "Made by `python -m validation.calibration`; each number is a share of simulated worlds.\n",
    ]
    parts += [COVERAGE.format(worlds=f"{size.worlds:,}", draws=size.draws), _rows(found["coverage"])]
    parts += [PLACEBO.format(worlds=f"{size.nulls:,}", permutations=nulls.PROTOCOL.placebo)]
    return "\n".join([*parts, _rows(found["placebo"])])


def _rows(table: pd.DataFrame) -> str:
    shown = table.copy()
    shown["low"] = [f"{low:.1%} to {high:.1%}" for low, high in table[["low", "high"]].to_numpy()]
    shown = shown.rename(columns={"low": "asked"}).drop(columns="high")
    shown["holds"] = shown["holds"].map({True: "yes", False: "**no**"})
    for column in shown.columns:
        if column.startswith(("coverage", "share")):
            shown[column] = shown[column].map("{:.1%}".format)
        elif shown[column].dtype == float:
            shown[column] = shown[column].map("{:.3f}".format)
    lines = [
        list(map(str, shown.columns)),
        ["---"] * len(shown.columns),
        *shown.astype(str).to_numpy().tolist(),
    ]
    return "\n".join(f"| {' | '.join(name.replace('_', ' ') for name in line)} |" for line in lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Simulate, write, show; returns 1 where a claim does not hold."""
    replace_unprintable()
    parser = argparse.ArgumentParser(prog="python -m validation.calibration", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few worlds: finds what is plainly wrong")
    parser.add_argument("--output", type=Path, default=CHECKOUT / "docs" / "calibration")
    asked = parser.parse_args(arguments)
    return answered(lambda: _main(QUICK if asked.quick else Size(), asked.output))


def _main(size: Size, output: Path) -> int:
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--output {output}: no folder can be made there ({error.strerror}).") from None
    found = measure(size)
    for name, table in found.items():
        table.to_csv(output / f"{name}.csv", index=False, float_format="%.4f")
    text = page(found, size)
    (output / "README.md").write_text(text, "utf-8")
    print(text)
    print(f"Written to {output}")
    return int(not all(table["holds"].all() for table in found.values()))


if __name__ == "__main__":
    sys.exit(main())
