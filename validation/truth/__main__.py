"""Entry: is what was planted in the built-in world what is measured?

python -m validation.truth --seeds 0,1,2 --biases 0,0.25,0.5,1 model=toy_m
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd

from src import configs
from src.errors import answered, replace_unprintable
from validation.truth.claims import claims
from validation.truth.toy_scores import measure, tabulate


def main(arguments: list[str] | None = None) -> int:
    """Measure, show, write; returns 1 where a claim does not hold."""
    replace_unprintable()
    asked = _parse(arguments)
    return answered(lambda: _main(asked))


def _main(asked: argparse.Namespace) -> int:
    from rich.console import Console

    from src.report import tables
    from src.report.drawing import save
    from validation.truth.planted_figure import planted

    measured = [
        measure([f"model.seed={seed}", f"demo.bias={bias:g}", *asked.overrides])
        for seed in asked.seeds
        for bias in asked.biases
    ]
    measured += [
        measure([*asked.overrides, f"model.seed={seed}", "model.steps=0"]) for seed in range(asked.untrained)
    ]
    toys, groups, words = tabulate(measured)
    found = list(claims(toys))
    asked.output.mkdir(parents=True, exist_ok=True)
    toys.to_csv(asked.output / "toys.csv", index=False)
    groups.to_csv(asked.output / "groups.csv", index=False)
    words.to_csv(asked.output / "words.csv", index=False)
    (asked.output / "claims.json").write_text(json.dumps([vars(claim) for claim in found], indent=2) + "\n")
    save(*planted(groups[groups["steps"] > 0]), asked.output / "planted.png")
    Console(width=None if sys.stdout.isatty() else 120).print(
        tables.plain(pd.DataFrame(map(vars, found)), "What was planted, and what is measured")
    )
    print(f"Written to {asked.output}")
    return int(not all(claim.holds for claim in found))


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m validation.truth", description=__doc__)
    parser.add_argument("--seeds", type=_numbers(int), default=[0, 1, 2])
    parser.add_argument("--biases", type=_numbers(float), default=[0, 0.25, 0.5, 1])
    parser.add_argument("--untrained", type=int, default=20, help="how many seeds")
    parser.add_argument("--output", type=Path, default=configs.CHECKOUT / "outputs" / "truth")
    parser.add_argument("overrides", nargs="*", help="of the config, as for src.run")
    return parser.parse_args(arguments)


def _numbers(kind: type) -> Any:
    def parse(text: str) -> list[Any]:
        return sorted({kind(part) for part in text.split(",")})

    return parse


if __name__ == "__main__":
    sys.exit(main())
