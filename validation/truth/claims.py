"""State the claims that hold if the measures find the planted bias, and that fail on shuffled vectors."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from validation.truth.caption_associations import AXES

# Experiments in which groups are retrieved for valence or valence for groups, and the baselines, in which a
# property is retrieved for itself.
GROUP_EXPERIMENTS = ("faces_to_words", "labels_to_scenes", "scenes_to_labels", "words_to_faces")
BASELINES = ("scenes_to_words", "words_to_scenes", "faces_to_labels", "labels_to_faces")
# Minimum correlations and AUC, all above what random ranks give in 99%; largest p without bias; largest p and
# smallest share of analyses at half the bias.
PEARSON, SPEARMAN, AUC, P_WITHOUT, P_HALF, SHARE_HALF = 0.9, 0.8, 0.95, 0.01, 0.05, 0.8
# Largest share of the level and largest p where what is measured is removed.
MAX_LEFT, P_LEFT = 0.3, 0.05
# Smallest |CLES - ½| at full bias: half of the largest. Of random halves of the faces, it is below 0.1.
GAP = 0.25
TOLERANCE = 1e-12


@dataclass(frozen=True)
class Results:
    """Results of toys with each bias and seed."""

    planted: pd.Series  # planted valence of each group
    toys: pd.DataFrame  # table of `toy_scores.tabulate`
    analyses: pd.DataFrame  # this and the next two as in `experiments.Runs`
    draws: pd.DataFrame
    interventions: pd.DataFrame
    second_path: pd.DataFrame  # interventions at the largest bias, with a second path


@dataclass(frozen=True)
class Claim:
    """A claim about results."""

    claim: str  # description of the quantity
    expected: str
    measured: str
    holds: bool


def claims(results: Results) -> Iterator[Claim]:
    """Yield the claims, and whether each holds."""
    yield _without_bias(results)
    yield _planted_levels(results)
    yield _rising_levels(results)
    yield _levels_at_half(results)
    yield _placebo(results)
    yield _left(results)
    yield from _scores(results.toys)
    if results.toys["cles_gap"].notna().all():
        yield _rises("|CLES − ½| of the planted contrast of looks", results.toys, "cles_gap", minimum=GAP)
    aucs = [f"auc_{axis}" for axis in AXES]
    if results.toys[aucs].notna().all(axis=None):
        full = results.toys[results.toys["bias"] == results.toys["bias"].max()][aucs].mean()
        yield Claim(
            "planted words above unplanted ones by |C(c, G)|, full bias: AUC, mean over seeds",
            f"at least {AUC} on every axis",
            ", ".join(f"{axis}: {full[f'auc_{axis}']:.3f}" for axis in AXES),
            bool((full >= AUC).all()),
        )


def _without_bias(results: Results) -> Claim:
    """Compare the largest standardised level of an experiment's strata with that of the permutations."""
    p_max = {}
    for exp in (*GROUP_EXPERIMENTS, *BASELINES):
        levels = _mean_levels(results, exp, results.draws["bias"].min())
        distances = np.abs(levels - levels.mean(axis=1, keepdims=True))
        spreads = levels.std(axis=1, keepdims=True)
        # Constant levels are none.
        largest = np.divide(distances, spreads, out=np.zeros_like(levels), where=spreads > 0).max(axis=0)
        p_max[exp] = float((largest >= largest[0] - TOLERANCE).mean())
    of_groups, of_baselines = ([p_max[exp] for exp in exps] for exps in (GROUP_EXPERIMENTS, BASELINES))
    return Claim(
        "p of the largest level without bias, mean level over seeds",
        f"above {P_WITHOUT} in the group experiments, at most {P_WITHOUT} in the baselines",
        _by_name(p_max),
        min(of_groups) > P_WITHOUT >= max(of_baselines),
    )


def _planted_levels(results: Results) -> Claim:
    measured, holds = {}, True
    for exp in GROUP_EXPERIMENTS:
        levels = _mean_levels(results, exp, results.draws["bias"].max())
        planted = results.planted.sort_index().to_numpy()
        correlations = np.array([stats.pearsonr(planted, column).statistic for column in levels.T])
        measured[exp] = correlations[0]
        holds &= bool(correlations[0] >= max(PEARSON, np.quantile(correlations[1:], 0.99)))
    return Claim(
        "planted valence and level of the groups, full bias, mean level over seeds: Pearson",
        f"at least {PEARSON} and the placebo's 99th percentile in every group experiment",
        _by_name(measured),
        holds,
    )


def _rising_levels(results: Results) -> Claim:
    planted = results.planted.sort_index().to_numpy()
    slopes = {
        exp: [
            stats.linregress(planted, _mean_levels(results, exp, bias)[:, 0]).slope
            for bias in sorted(results.draws["bias"].unique())
        ]
        for exp in GROUP_EXPERIMENTS
    }
    return Claim(
        "slope of the groups' levels on planted valence, mean level over seeds",
        "rises with the bias in every group experiment",
        "; ".join(f"{exp}: {', '.join(f'{slope:.2f}' for slope in row)}" for exp, row in slopes.items()),
        all(np.diff(row).min() > 0 for row in slopes.values()),
    )


def _levels_at_half(results: Results) -> Claim:
    biases = sorted(results.analyses["bias"].unique())
    half = biases[len(biases) // 2]
    of_groups = results.analyses[results.analyses["exp"].isin(GROUP_EXPERIMENTS)]
    significant = of_groups.loc[of_groups["bias"] == half, "level_p"] <= P_HALF
    return Claim(
        f"group analyses with p of level at most {P_HALF}, bias {half:g}",
        f"at least {SHARE_HALF:.0%}",
        f"{significant.mean():.0%} of {len(significant)}",
        bool(significant.mean() >= SHARE_HALF),
    )


def _placebo(results: Results) -> Claim:
    full = results.analyses[results.analyses["bias"] == results.analyses["bias"].max()]
    above = (full["rho"] > full["placebo_q95"]).groupby([full["exp"], full["seed"]]).mean()
    means = above.groupby("exp").mean()
    return Claim(
        "share of analyses whose ρ exceeds its placebo's 95th percentile, full bias, over all seeds",
        "above one half in every experiment",
        _by_name(means.to_dict()),
        bool((means > 0.5).all()),
    )


def _left(results: Results) -> Claim:
    """Compare the level that remains without the measured directions, by one path and by two.

    A job may have no p, if too few random subspaces have a variance as large as that of what is measured.
    """
    interventions = results.interventions
    is_claimed = interventions["bias"] == interventions["bias"].max()
    claimed = interventions[is_claimed & interventions["exp"].isin(GROUP_EXPERIMENTS)]
    by_exp = claimed.groupby("exp")
    left, p = by_exp["left"].mean(), by_exp["left_p"].agg(["max", "count", "size"])
    with_second = results.second_path.groupby("exp")["left"].mean()
    measured = []
    for exp in left.index:
        text = f"{exp}: {left[exp]:.3f}, p in {p.loc[exp, 'count']:.0f} of {p.loc[exp, 'size']:.0f} jobs"
        measured.append(text + (f", at most {p.loc[exp, 'max']:.2g}" if p.loc[exp, "count"] else ""))
    measured += [f"{exp} with a second path: {share:.3f}" for exp, share in with_second.items()]
    is_small = claimed["left"].notna().all() and (left <= MAX_LEFT).all()
    is_below_chance = (p["max"].dropna() <= P_LEFT).all() and p.loc[with_second.index, "count"].all()
    return Claim(
        "share of the level that remains without the measured directions, full bias, mean over seeds",
        f"at most {MAX_LEFT} in every group experiment, p at most {P_LEFT} wherever it is defined: "
        "in at least one job for each corpus with valence; with a second path, more remains",
        "; ".join(measured),
        bool(is_small and is_below_chance and (with_second > left.reindex(with_second.index)).all()),
    )


def _scores(toys: pd.DataFrame) -> Iterator[Claim]:
    full = toys[toys["bias"] == toys["bias"].max()]["pearson"]
    yield Claim(
        "planted valence and group mean of s(w), full bias: Pearson, mean over seeds",
        f"at least {PEARSON}",
        f"{full.mean():.3f} (n = {len(full)}, {_range(full)})",
        bool(full.mean() >= PEARSON),
    )
    yield _rises("slope of group mean SC-EAT on planted valence", toys, "slope")
    spearman = toys["spearman"]
    yield Claim(
        "a scene's SC-EAT and its own valence: Spearman, minimum over toys",
        f"at least {SPEARMAN}",
        f"{spearman.min():.3f} (n = {len(toys)}, {_range(spearman)})",
        bool(spearman.min() >= SPEARMAN),
    )


def _rises(quantity: str, toys: pd.DataFrame, column: str, minimum: float | None = None) -> Claim:
    means = toys.groupby("bias")[column].mean()
    rises = means.is_monotonic_increasing and means.is_unique
    return Claim(
        f"{quantity}, mean over seeds",
        "rises with the bias" + ("" if minimum is None else f", to at least {minimum}"),
        ", ".join(f"{bias:g}: {mean:.3f}" for bias, mean in means.items()),
        bool(rises and (minimum is None or means.iloc[-1] >= minimum)),
    )


def _mean_levels(results: Results, exp: str, bias: float) -> np.ndarray:
    """Return the levels of an experiment, averaged over seeds, [strata, permutations]; the first is observed.

    All seeds have the same permutations of the corpus.
    """
    rows = results.draws[(results.draws["exp"] == exp) & (results.draws["bias"] == bias)]
    return rows.pivot_table(index="stratum", columns="draw", values="level", dropna=False).to_numpy()


def _by_name(numbers: dict[str, float]) -> str:
    return ", ".join(f"{name}: {number:.3g}" for name, number in numbers.items())


def _range(values: pd.Series) -> str:
    return f"{values.min():.3f} to {values.max():.3f}"
