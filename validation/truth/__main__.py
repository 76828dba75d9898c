"""Compare measured bias with the bias planted in the built-in world, and with that of shuffled vectors.

python -m validation.truth --seeds 0,1,2 --biases 0,0.25,0.5,1 model=toy_m
"""

import argparse
import itertools
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from rich.console import Console

from src import configs
from src.errors import replace_unprintable, run_entry
from src.report.drawing import save_png, style_of
from src.report.tables import build_table
from validation.truth.claims import Results, claims
from validation.truth.experiments import run_second_path, run_shuffled, run_toys, toy_overrides
from validation.truth.toy_scores import measure, tabulate


def main(arguments: list[str] | None = None) -> int:
    """Measure the bias of toys, write and print the results.

    Return 1 if a claim does not hold, or holds on shuffled vectors as well.
    """
    replace_unprintable()
    options = _parse(arguments)
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
    checks, shuffled = (
        pd.DataFrame(map(vars, claims(Results(planted, scores[0], *run, second))))
        for scores, run in zip(tables, runs, strict=True)
    )
    checks = checks.assign(shuffled=shuffled["measured"], refuted=~shuffled["holds"])
    options.output.mkdir(parents=True, exist_ok=True)
    for table, name in zip((*tables[0], runs[0][0]), ("toys", "groups", "words", "analyses"), strict=True):
        table.to_csv(options.output / f"{name}.csv", index=False)
    records = json.dumps(checks.to_dict("records"), indent=2, ensure_ascii=False)
    (options.output / "claims.json").write_text(f"{records}\n", "utf-8")
    save_png(*plot_planted(tables[0][1]), options.output / "planted.png")
    (options.output / "README.md").write_text(page(checks, overrides), "utf-8")
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(build_table(checks, "What was planted, and what is measured"))
    print(f"Written to {options.output}")
    return int(not checks[["holds", "refuted"]].all(axis=None))


def page(checks: pd.DataFrame, overrides: list[str]) -> str:
    """Write a page of the claims, with what was measured on the toys and on their shuffled vectors.

    `checks` has the fields of `Claim`, and `shuffled` and `refuted`.
    """
    verdicts = {"holds": {True: "yes", False: "no"}, "refuted": {True: "no", False: "yes"}}
    cells = checks.assign(**{name: checks[name].map(words) for name, words in verdicts.items()})
    cells = cells.rename(columns={"refuted": "holds on them", "shuffled": "on shuffled vectors"})
    cells = cells.map(lambda text: str(text).replace("|", "\\|"))
    lines = [
        "# Planted and measured bias",
        f"Made by `python -m validation.truth {' '.join(overrides)}`; [what is claimed](../trust.md).",
        cells.to_markdown(index=False, disable_numparse=True),
        "![Scores of each group's faces against its planted valence, by strength of the bias.](planted.png)",
    ]
    return "\n\n".join(lines) + "\n"


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


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m validation.truth", description=__doc__)
    parser.add_argument("--seeds", type=_numbers(int), default=[0, 1, 2], help="seeds of the toys")
    parser.add_argument("--biases", type=_numbers(float), default=[0, 0.25, 0.5, 1], help="planted biases")
    parser.add_argument("--output", type=Path, default=configs.CHECKOUT / "outputs" / "truth")
    parser.add_argument("overrides", nargs="*", help="overrides as for src.run")
    return parser.parse_args(arguments)


def _numbers(kind: type) -> Any:
    """Return a parser of distinct numbers that are separated by commas."""

    def parse(text: str) -> list[Any]:
        return sorted({kind(number) for number in text.split(",")})

    return parse


if __name__ == "__main__":
    sys.exit(main())
