"""Compare measured bias with the bias planted in the built-in world, and with that of shuffled vectors.

python -m validation.truth --seeds 0,1,2 --biases 0,0.25,0.5,1 model=toy_m
"""

import argparse
import itertools
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
from matplotlib.figure import Figure

from src.errors import replace_unprintable, run_entry
from src.report.drawing import save_png, style_of
from validation.truth.claims import Results, claims
from validation.truth.experiments import run_second_path, run_shuffled, run_toys, toy_overrides
from validation.truth.output import build_page, compare, parse, write
from validation.truth.toy_scores import measure, tabulate

PICTURE = "![Scores of each group's faces against its planted valence, by strength of the bias.](planted.png)"


def main(arguments: list[str] | None = None) -> int:
    """Measure the bias of toys, write and print the results.

    Return 1 if a claim does not hold, or holds on shuffled vectors as well.
    """
    replace_unprintable()
    options = parse("validation.truth", __doc__, arguments, [0, 0.25, 0.5, 1])
    return run_entry(lambda: _main(options))


def _main(options: argparse.Namespace) -> int:
    toys, overrides = [*itertools.product(options.biases, options.seeds)], options.overrides
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        runs = run_toys(toys, overrides, folder / "toys"), run_shuffled(toys, overrides, folder / "shuffled")
        fully_biased = [toy for toy in toys if toy[0] == max(options.biases)]
        second = run_second_path(fully_biased, overrides, folder / "second path").interventions
    jobs = [[*overrides, *toy_overrides(toy)] for toy in toys]
    tables = [tabulate([measure(job, shuffled=shuffled) for job in jobs]) for shuffled in (False, True)]
    planted = tables[0][1].groupby("group")["planted"].first()
    checks = compare(
        *(claims(Results(planted, scores[0], *run, second)) for scores, run in zip(tables, runs, strict=True))
    )
    for table, name in zip((*tables[0], runs[0][0]), ("toys", "groups", "words", "analyses"), strict=True):
        table.to_csv(options.output / f"{name}.csv", index=False)
    save_png(*plot_planted(tables[0][1]), options.output / "planted.png")
    command = " ".join(["validation.truth", *overrides])
    page = build_page(checks, command, "Planted and measured bias", PICTURE)
    return write(checks, options.output, ("claims.json", "README.md"), page)


def plot_planted(groups: pd.DataFrame) -> tuple[Figure, str]:
    """Plot the measured association of each group against its planted valence.

    `groups` has columns `bias`, `seed`, `planted`, `s` and `sc_eat`, and one row per group and toy. Returns
    the figure and its alt text.
    """
    figure = Figure(figsize=(9, 4), layout="constrained")
    panels = figure.subplots(1, 2, sharex=True)
    labels = {"s": "mean s(w) of the group's faces", "sc_eat": "mean SC-EAT of the group's faces"}
    sentences = []
    for axes, (column, label) in zip(panels, labels.items(), strict=True):
        for number, (bias, rows) in enumerate(groups.groupby("bias")):
            point_style = style_of(number)
            axes.scatter(rows["planted"], rows[column], s=14, alpha=0.5, linewidths=0, **point_style)
            means = rows.groupby("planted")[column].mean()
            axes.plot(means.index, means, label=f"bias {bias:g}", markersize=6, **point_style)
            ends = f"{means.iloc[0]:.2g} to {means.iloc[-1]:.2g}"
            sentences.append(f"{label}, bias {bias:g}: {ends} from least to most planted valence")
        axes.axhline(0, color="#888888", linewidth=0.8)
        axes.set(xlabel="planted valence of the group at bias 1", ylabel=label)
        axes.grid(alpha=0.25)
    seeds = groups["seed"].nunique()
    panels[0].legend(frameon=False, fontsize=9, title=f"mean and each of {seeds} seeds", title_fontsize=9)
    return figure, "Line plots of measured against planted valence. " + "; ".join(sentences) + "."


if __name__ == "__main__":
    sys.exit(main())
