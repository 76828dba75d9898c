"""Check the claims about the level, rho, their p-values and intervals in simulations whose truth is known.

python -m validation.calibration [--quick] [--worlds 1000] [--tables nulls coverage] [--output DIR]
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import pandas as pd

from src.configs import CHECKOUT
from src.errors import InputError, replace_unprintable, run_entry
from validation.calibration import (
    attribute_sets,
    components,
    coverage,
    equality,
    equivalence,
    families,
    harm_shares,
    matched_sets,
    minimum_detectable,
    nulls,
    paths,
    planted,
    reliability,
    studies,
    themed_corpora,
    worlds,
)
from validation.calibration.populations import populations

INTRODUCTION = """\
# Calibration
Made by `python -m validation.calibration{arguments}`. The column `worlds` says of how many simulated
worlds each share is. World number w has the random seed [crc32 of the description of its kind, w]: the
same command gives the same tables. Limits of coverage, equality and property draws hold for 1,000 worlds;
with fewer they are wider (99.9% of binomial draws at the limit are inside), as the column `asked` says.
"""
SECTIONS = {
    "nulls": """\
## Null worlds

A world is a small experiment in which the corpus's property is unrelated to its vectors. Clusters of
the corpus (families of morphs, themes, words of labels, word families) get vectors and property
independently: the null is made by the world, not by permutations. The experiments are run by
`python -m src.run -m model=precomputed`, with {permutations} permutations, and a seed for every
{sweep} worlds. Scenes are OASIS's, with its ratings, if `make data` has fetched them; else they have themes
of its sizes, and random ratings. Asked: the share of worlds with p ≤ .05, of the level (level_p) and of ρ
(p_placebo), is inside the 99.9% band of 5%; with held-out sets the mean ρ is within 3 SE of 0.
""",
    "coverage": """\
## Coverage of intervals

A world is a sample of a population, with new words and parents. Asked: in 89 to 98.5% of the samples of
each kind, and in 93 to 97% on average over kinds, the 95% jackknife interval holds the population's
value: of the ρ and the mean outcome of one group, and of that group's level (but where sampling by
extremes fixes mean and level). For comparison, `coverage single` is that of an interval of ρ that
ignores shared words and parents.
""",
    "equality": """\
## Equality of two models

Two models score the same targets. Asked: models of equal strength differ with p ≤ .05 in at most 7% of
the samples; models with ρ .99 and .80 (of normal scores), of equal range and with 300 persons, in at
least 90%.
""",
    "equivalence": """\
## Equivalence of spreads

Group means have a known spread before debiasing, of which a known ratio is left; in a second direction
differences are added. At .90 and 1.10, the margin's edges, and at .5, the spread is shown to be equivalent
in at most 5% of the samples; at 1 in at least 90%, and the interval is below 1 in at most 2.5%; at .5 in at
least 90%. Fieller's interval holds the ratio in at least 95% of the samples that have a ratio. A weak
spread has a ratio in about half of them; equal groups (spread 0) have none in at least 95%. Asked: that
this holds within the 99.9% band of each share.
""",
    "planted": """\
## Planted strength

Labels as above, with the groups in their vectors: the mean level and ρ, and the shares of worlds with p
≤ .05. Asked: without planting the share of the level is inside the 99.9% band of 5%, and the mean level
rises with each strength. Of ρ nothing is asked: it falls where outcomes reach their ceiling, and is
undefined where all are equal.
""",
    "properties": """\
## Property draws

An ordinary property is a random direction of the vectors plus noise. Asked: its ρ is above the 95th
percentile of {draws} draws (property_q95) in 2 to 8% of the worlds. `refused` worlds have no draws.
""",
    "paths": """\
## Intervention: without the measured directions

Groups of faces retrieve words along one path, which is measured, or along a second one as well, or along one
that is not measured. The measured directions are removed from the faces. Asked: by one path, the mean `left`
is within .1 of 0, and it rises with each second path; without random subspaces of equal variance, the mean
over worlds of the median level is within 10% of 1, after LEACE within .1 of 0. The share is that of worlds
with left_p ≤ .05: at least 90% where a path is measured, inside the 99.9% band of 5% where none is.
""",
    "reliability": """\
## Reliability

Scores without noise, to which clusters of a corpus add noise of known size; and experiments on vectors,
where ρ without noise is that of a corpus with {large} times the clusters. Reliabilities are those of half of
the corpus; shared noise is correlated in both scores. Asked: the mean corrected ρ is within {bias} of the
truth, and at most a third as far from it as mean plain ρ; in 89% of the worlds or more its 95% interval, as
wide as that of one of the 20 splits, contains the truth, although it covers only other targets, and those
of an experiment share the noise of the corpus. For comparison, bias and coverage of plain ρ. `refused`
worlds have no interval: a reliability is below .2, or not positive without a cluster.
""",
    "attribute_sets": """\
## SD over sets A and B

`sd_attributes`, from disjoint halves of the corpus, against the SD over sets from halves of independent
corpora (`true sd`), with the outcome of the world: roots of mean variances. Asked: with held-out attributes
their ratio is between {low} and {high}. If A and B are in the corpus that is retrieved from, the outcome
moves with them and ρ varies less: the ratio is below 1, and must be above that of sets drawn again from the
whole corpus, which overlap (`sd redrawn`, the earlier sd_attributes; `true redrawn`: sets of that size from
independent corpora).
""",
    "studies": """\
## Other studies

Faces, captions and answers whose truth is known. Asked: tests reject a true null hypothesis in a share of
worlds inside the 99.9% band of 5%; 95% intervals hold the truth in 89 to 98.5%.
""",
    "matched": """\
## Matched pictures

Sets show a scene with a picture of each of three people, whose groups differ in nothing, or the first is
nearer to the captions, and to words of high valence, by an effect, in SD of the people; the SD of scenes
is {scene:g} times as large. p is that of the mean share of the first retrieved, of the mean rank within
sets, and of the level of retrieved words within sets. Asked: it is at most 5% in a share of worlds inside
the 99.9% band of 5% without an effect, and in at least 90% at an effect of {strong:g}; without an effect,
95% intervals hold the truth in 89 to 99.5%.
""",
    "harms": """\
## Harmful classes

People of three groups, whose numbers vary, have one picture or up to {pictures}; the outcomes of two pictures
of a person correlate by {correlation:g}. Groups do not differ, or the share of the first is larger by
{effect:g}. p is that of any group, joint over groups, and of the difference between the largest and the
smallest share. Asked: without an effect it is at most 5% in a share of worlds inside the 99.9% band of 5%
(where outcomes are rare: not above it), and with it in at least 90%. Intervals hold the truth: of a share in
93% or more, as exact intervals are wide, of a gap in 89 to 98.5%, of the difference of the two groups that
the data choose in 95% or more.
""",
    "components": """\
## Variance components

Values of 4 experiments, 8 models and 6 groups with planted variances, all cells filled or some missing; in
the last design each model has two checkpoints. Asked: the mean estimate is within the 99.9% bounds of the
planted variance (mean low, mean high). `sd`: SD of a single estimate.
""",
    "families": """\
## Correlations over models

Models of a family are alike, and the size of a model is unrelated to its ρ. Asked: the share of worlds with
p ≤ .05 under permutations of families is inside the 99.9% band of 5%. `share singly` is that of the p that
takes models as independent.
""",
    "minimum_detectable": """\
## Minimum detectable effects

A first sample, like a finished run, states the smallest level, or difference of two models' levels, that is
detected in 80%; it is planted in a second sample. By the placebo: 2.80 SD of the permuted levels are added
to the level of a null world. Asked: p ≤ .05 in 75 to 85%.
""",
}


FULL = 1000  # worlds of each kind, by default


@dataclass(frozen=True)
class Size:
    """Size of the simulation."""

    worlds: int = FULL  # number of worlds of each kind
    population: int = 400_000  # number of units from which the truth of a population is computed
    quick: bool = False  # whether these numbers are small, so that only gross errors are found


QUICK = Size(worlds=4, population=20_000, quick=True)


def measure(size: Size, name: str) -> pd.DataFrame:
    """Simulate the worlds of one of `SECTIONS` on all cores; return their table."""

    def simulate(
        function: Callable[..., Any], kinds: Sequence[Any], numbers: Sequence[Any] = range(size.worlds)
    ) -> list[tuple[Any, list[Any]]]:
        results = []
        for number, kind in enumerate(kinds, start=1):
            calls = (joblib.delayed(function)(kind, each) for each in numbers)
            results.append((kind, joblib.Parallel(n_jobs=-1)(calls)))
            print(f"{function.__name__}: {number} of {len(kinds)}", flush=True)
        return results

    few = size.worlds < FULL  # so few that limits are widened
    if name == "nulls":
        sweeps = simulate(nulls.analyse_in_sweep, worlds.kinds(), nulls.ranges(size.worlds))
        analyses = [
            (kind.name, attributes, [analysis for sweep in of_kind for analysis in sweep[attributes]])
            for kind, of_kind in sweeps
            for attributes in worlds.ATTRIBUTES
        ]
        return nulls.tabulate(analyses)
    if name == "coverage":
        samples = simulate(coverage.intervals_of, [*populations()])
        truths = simulate(coverage.truth_of, [*populations()], [size.population])
        pairs = zip(samples, truths, strict=True)
        return coverage.tabulate([(kind, truth, ends) for (kind, ends), (_, (truth,)) in pairs], few)
    if name == "equality":
        return equality.tabulate(simulate(equality.p_value, equality.pairs()), few)
    if name == "equivalence":
        return equivalence.tabulate(simulate(equivalence.compute_ratio, equivalence.kinds()))
    if name == "planted":
        return planted.tabulate(simulate(nulls.analyse, planted.strengths()))
    if name == "paths":
        return paths.tabulate(simulate(paths.intervene, paths.kinds()), few)
    if name == "reliability":
        corrections = simulate(reliability.correct, reliability.kinds())
        truths = simulate(reliability.truth_of, reliability.kinds(), [size.population])
        pairs = zip(corrections, truths, strict=True)
        return reliability.tabulate([(kind, truth, each) for (kind, each), (_, (truth,)) in pairs], few)
    if name == "attribute_sets":
        return attribute_sets.tabulate(simulate(attribute_sets.spread_of, attribute_sets.kinds()), few)
    if name == "studies":
        return studies.tabulate(simulate(studies.is_hit, studies.kinds()), few)
    if name == "matched":
        return matched_sets.tabulate(simulate(matched_sets.analyse, matched_sets.EFFECTS), few)
    if name == "harms":
        return harm_shares.tabulate(simulate(harm_shares.analyse_world, harm_shares.kinds()), few)
    if name == "components":
        return components.tabulate(simulate(components.estimates_of, components.designs()))
    if name == "families":
        return families.tabulate(simulate(families.p_values, families.DESIGNS))
    if name == "minimum_detectable":
        effects = simulate(minimum_detectable.detect, minimum_detectable.effects())
        return minimum_detectable.tabulate(effects, few)
    compared = simulate(planted.compare_with_draws, planted.CLUSTER_SIZES)
    return planted.tabulate_properties(compared, few)


def page(tables: Mapping[str, pd.DataFrame], arguments: str = "") -> str:
    """Format tables by the name of their section as Markdown, with explanations and the arguments used."""
    numbers: dict[str, float] = {"permutations": worlds.PROTOCOL.placebo, "sweep": nulls.SWEEP_SIZE}
    numbers |= {"draws": planted.PROPERTY_DRAWS, "large": themed_corpora.LARGE, "bias": reliability.MAX_BIAS}
    numbers |= {"low": attribute_sets.MIN_RATIO, "high": attribute_sets.MAX_RATIO}
    numbers |= {"scene": matched_sets.SCENE, "strong": matched_sets.STRONG}
    numbers |= {"pictures": harm_shares.MAX_PICTURES, "correlation": harm_shares.CORRELATION}
    numbers |= {"effect": harm_shares.EFFECT}
    parts = [INTRODUCTION.format(arguments=arguments)]
    for name, table in tables.items():
        parts += [SECTIONS[name].format(**numbers), _rows(table)]
    return "\n".join(parts)


def _rows(table: pd.DataFrame) -> str:
    cells = table.copy()
    if "low" in cells:
        cells["low"] = [f"{low:.1%} to {high:.1%}" for low, high in table[["low", "high"]].to_numpy()]
        cells = cells.rename(columns={"low": "asked"}).drop(columns="high")
    cells["holds"] = cells["holds"].map({True: "yes", False: "**no**"})
    for column in cells.columns:
        if column.startswith(("coverage", "share")):
            cells[column] = cells[column].map("{:.1%}".format).replace("nan%", "")
        elif cells[column].dtype == float:
            cells[column] = cells[column].map("{:.3f}".format).replace("nan", "")
    cells.columns = cells.columns.str.replace("_", " ")
    return cells.to_markdown(index=False, disable_numparse=True) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Simulate, write and print the tables; return 1 if a claim does not hold."""
    replace_unprintable()
    parser = argparse.ArgumentParser(prog="python -m validation.calibration", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="simulate few worlds: finds gross errors only")
    parser.add_argument("--worlds", type=int, default=FULL, help="number of worlds of each kind")
    parser.add_argument("--tables", nargs="+", choices=SECTIONS, default=[*SECTIONS], help="by default: all")
    parser.add_argument("--output", type=Path, default=CHECKOUT / "docs" / "calibration")
    options = parser.parse_args(arguments)
    if options.worlds < 2:
        parser.error(f"--worlds: expected 2 or more, got {options.worlds}.")
    size = QUICK if options.quick else Size(options.worlds)
    return run_entry(lambda: _main(size, options.tables, options.output))


def _main(size: Size, names: Sequence[str], output: Path) -> int:
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--output {output}: cannot create the folder ({error.strerror}).") from None
    for name in names:
        measure(size, name).to_csv(output / f"{name}.csv", index=False, float_format="%.4f")
    # The page shows the tables of earlier commands as well.
    paths = {name: output / f"{name}.csv" for name in SECTIONS}
    tables = {name: pd.read_csv(path) for name, path in paths.items() if path.is_file()}
    arguments = " --quick" if size.quick else f" --worlds {size.worlds}" if size != Size() else ""
    text = page(tables, arguments)
    (output / "README.md").write_text(text, "utf-8")
    print(text)
    print(f"Written to {output}")
    return int(not all(tables[name]["holds"].all() for name in names))


if __name__ == "__main__":
    sys.exit(main())
