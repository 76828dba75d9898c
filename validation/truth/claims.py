"""State the claims that must hold if the measures find the planted bias."""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd
from scipy import stats

from validation.truth.caption_associations import AXES

# Limits: minimum correlations, maximum standard errors, maximum ratio of no bias to full bias, minimum AUC.
PEARSON, SPEARMAN, STANDARD_ERRORS, RATIO, AUC = 0.9, 0.8, 3.0, 1 / 3, 0.95
AUCS = [f"auc_{axis}" for axis in AXES]


@dataclass(frozen=True)
class Claim:
    """A claim that must hold if the measures find the planted bias."""

    claim: str  # description of the quantity
    expected: str
    measured: str
    holds: bool


def claims(toys: pd.DataFrame) -> Iterator[Claim]:
    """Yield the claims, and whether each holds.

    Args:
        toys: first table of `toy_scores.tabulate`; untrained toys have 0 steps.
    """
    trained, untrained = toys[toys["steps"] > 0], toys[toys["steps"] == 0]
    yield from _valence(trained)
    yield from _scenes(trained, untrained)
    if trained["cles_gap"].notna().all():
        yield _looks(trained.groupby("bias")["cles_gap"].mean())
    if trained[AUCS].notna().all(axis=None):
        yield from _words(trained)


def _valence(trained: pd.DataFrame) -> Iterator[Claim]:
    full = trained[trained["bias"] == trained["bias"].max()]
    pearson = full["pearson"].mean()
    yield Claim(
        "planted valence and group mean of s(w), full bias: Pearson, mean over seeds",
        f"at least {PEARSON}",
        f"{pearson:.3f} (n = {len(full)}, {_range(full['pearson'])})",
        bool(pearson >= PEARSON),
    )
    slopes = trained.groupby("bias")["slope"].mean()
    yield Claim(
        "slope of group mean SC-EAT on planted valence, mean over seeds",
        "grows with the bias",
        ", ".join(f"{bias:g}: {slope:.2f}" for bias, slope in slopes.items()),
        bool(slopes.is_monotonic_increasing and slopes.is_unique),
    )
    first, last = slopes.iloc[0], slopes.iloc[-1]
    yield Claim(
        "slope without bias",
        f"less than a third of the slope at full bias, {last * RATIO:.2f}",
        f"{first:.2f}",
        bool(abs(first) < last * RATIO),
    )


def _scenes(trained: pd.DataFrame, untrained: pd.DataFrame) -> Iterator[Claim]:
    spearman = trained["spearman"].min()
    yield Claim(
        "a scene's SC-EAT and its own valence, trained: Spearman, minimum over toys",
        f"at least {SPEARMAN}",
        f"{spearman:.3f} (n = {len(trained)}, {_range(trained['spearman'])})",
        bool(spearman >= SPEARMAN),
    )
    if len(untrained) > 1:
        mean, error = untrained["spearman"].mean(), stats.sem(untrained["spearman"])
        yield Claim(
            "the same, untrained: mean over seeds",
            f"within {STANDARD_ERRORS:g} standard errors of 0, {STANDARD_ERRORS * error:.3f}",
            f"{mean:.3f} (n = {len(untrained)}, {_range(untrained['spearman'])})",
            bool(abs(mean) <= STANDARD_ERRORS * error),
        )


def _looks(gaps: pd.Series) -> Claim:
    return Claim(
        "|CLES − ½| of the planted contrast of looks without bias, mean over seeds",
        f"less than a third of that at full bias, {gaps.iloc[-1] * RATIO:.3f}",
        f"{gaps.iloc[0]:.3f}",
        bool(gaps.iloc[0] < gaps.iloc[-1] * RATIO),
    )


def _words(trained: pd.DataFrame) -> Iterator[Claim]:
    aucs = trained.groupby("bias")[AUCS].mean()
    without, full = aucs.iloc[0], aucs.iloc[-1]
    yield Claim(
        "planted words above unplanted ones by |C(c, G)|, full bias: AUC, mean over seeds",
        f"at least {AUC} on every axis",
        _by_axis(full),
        bool((full >= AUC).all()),
    )
    # All seeds are tested on the same words: their mean is no more certain than a single seed.
    band = STANDARD_ERRORS * trained["auc_error"].max()
    yield Claim(
        "the same without bias",
        f"within {STANDARD_ERRORS:g} standard errors of random ranks of ½, {band:.3f}",
        _by_axis(without),
        bool(((without - 0.5).abs() <= band).all()),
    )


def _by_axis(aucs: pd.Series) -> str:
    return ", ".join(f"{axis}: {aucs[f'auc_{axis}']:.3f}" for axis in AXES)


def _range(values: pd.Series) -> str:
    return f"{values.min():.3f} to {values.max():.3f}"
