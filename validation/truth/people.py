"""Compare matched pictures, harms and perturbations with what is planted in variants of the world.

python -m validation.truth.people --seeds 0,1,2 --biases 0,1 model=toy_s
"""

import argparse
import itertools
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from src.errors import replace_unprintable, run_entry
from validation.truth.output import build_page, compare, parse, write
from validation.truth.people_claims import claims
from validation.truth.people_experiments import run_people
from validation.truth.people_scores import tabulate

MODULE = "validation.truth.people"


def main(arguments: list[str] | None = None) -> int:
    """Train toys on the variants of the built-in world, write and print the results.

    Return 1 if a claim does not hold, or holds on shuffled vectors as well.
    """
    replace_unprintable()
    options = parse(MODULE, __doc__, arguments, [0, 1])
    return run_entry(lambda: _main(options))


def _main(options: argparse.Namespace) -> int:
    toys, overrides = [*itertools.product(options.biases, options.seeds)], options.overrides
    with TemporaryDirectory() as temporary:
        of_toys, of_shuffled = (
            tabulate(run_people(toys, overrides, Path(temporary) / name, shuffled=shuffled), overrides)
            for name, shuffled in (("toys", False), ("shuffled", True))
        )
    checks = compare(claims(of_toys), claims(of_shuffled))
    of_toys.to_csv(options.output / "people.csv", index=False)
    command = " ".join([MODULE, *overrides])
    page = build_page(checks, command, "Planted and measured: matched pictures, harms, perturbations")
    return write(checks, options.output, ("people.json", "people.md"), page)


if __name__ == "__main__":
    sys.exit(main())
