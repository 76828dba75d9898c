"""Compare differences between languages with what is planted in the built-in world in two languages.

python -m validation.truth.languages --seeds 0,1,2 model=toy_s
"""

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from src.errors import replace_unprintable, run_entry
from validation.truth.languages_claims import claims, describe_intervals
from validation.truth.languages_experiments import run_languages
from validation.truth.languages_scores import score_differences, score_placement
from validation.truth.output import build_page, compare, parse, write

MODULE = "validation.truth.languages"


def main(arguments: list[str] | None = None) -> int:
    """Train toys on captions in one and in two languages, write and print the results.

    Return 1 if a claim does not hold, or holds on shuffled vectors as well.
    """
    replace_unprintable()
    options = parse(MODULE, __doc__, arguments)
    return run_entry(lambda: _main(options))


def _main(options: argparse.Namespace) -> int:
    with TemporaryDirectory() as temporary:
        of_toys, of_shuffled = (
            run_languages(options.seeds, options.overrides, Path(temporary) / name, shuffled=shuffled)
            for name, shuffled in (("toys", False), ("shuffled", True))
        )
    scores, on_shuffled = (
        (score_differences(rows, options.overrides), score_placement(rows)) for rows in (of_toys, of_shuffled)
    )
    checks = compare(claims(*scores), claims(*on_shuffled))
    table = pd.concat(scores, ignore_index=True)
    table.to_csv(options.output / "languages.csv", index=False)
    command = " ".join([MODULE, *options.overrides])
    page = build_page(checks, command, "Planted and measured: two languages", describe_intervals(scores[0]))
    return write(checks, options.output, ("languages.json", "languages.md"), page)


if __name__ == "__main__":
    sys.exit(main())
