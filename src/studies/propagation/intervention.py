"""Remove the measured directions from targets, and compute how much of the level remains.

See docs/methods.md, section 6.17.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from src.configs import ProtocolConfig
from src.errors import NotApplicable
from src.metrics import erasure, normalise
from src.metrics.erasure import Eraser
from src.stimuli import CARRIES, Table
from src.studies.propagation import joint
from src.studies.propagation.attributes import Corpus
from src.studies.propagation.erased_scores import compute_measured_directions, score_erased
from src.studies.propagation.level import compute_level_statistics
from src.studies.propagation.measures import extrinsic_of
from src.studies.propagation.null_scores import sample_units
from src.studies.propagation.units import Stratum, Units
from src.studies.shared.spreads import estimate_spreads

# Shares alpha of the measured subspace to remove.
DOSES = (0.0, 0.25, 0.5, 0.75, 1.0)
# Number of random subspaces to draw, and minimum number of them for a p.
CONTROLS, MIN_CONTROLS = 100, 50
MEASURED, RANDOM, LEACE = "measured", "random", "leace"  # kinds of removals
SIGNIFICANT = 0.05  # largest adjusted p of a level that counts as significant
TOLERANCE = 1e-12  # rounding tolerance of a remaining share
COLUMNS = ("kind", "draw", "alpha", "measured", "level")
DTYPES = {"kind": "object", "draw": "int64"} | dict.fromkeys(COLUMNS[2:], "float64")
SUMMARY_COLUMNS = (
    *("left", "left_low", "left_high", "dose_slope", "left_random_q05", "left_random_median", "left_p"),
    *("left_leace", "n", "controls", "reason"),
)


class Intervention(NamedTuple):
    """Result of an intervention.

    Attributes:
        rows: table with a row per removal: `kind` (`MEASURED`, `RANDOM` or `LEACE`), index of the `draw`,
            removed share `alpha`, remaining shares of the measure (`measured`) and of the `level`.
        summary: table with a single row, columns `SUMMARY_COLUMNS`.
        notes: remarks for readers of the numbers.
    """

    rows: pd.DataFrame
    summary: pd.DataFrame
    notes: list[str]

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Return both tables by name."""
        return {"intervention": self.rows, "intervention_summary": self.summary}


class Removal(NamedTuple):
    """An eraser, with the first three of `COLUMNS`."""

    kind: str
    draw: int
    alpha: float
    eraser: Eraser


def check(protocol: ProtocolConfig) -> None:
    """Check that the outcome retrieves items; raise `NotApplicable` otherwise."""
    if not extrinsic_of(protocol).retrieves:
        raise NotApplicable(
            "exp.intervene=true: expected an outcome that retrieves items, got protocol.extrinsic="
            f"{protocol.extrinsic}. Use protocol.extrinsic=top_k or exp.intervene=false."
        )


def intervene(
    targets: Table,
    corpus: Corpus,
    units: Units,
    unit_clusters: pd.DataFrame,
    strata: Sequence[Stratum],
    vectors: tuple[Tensor, Tensor],
    level_draws: pd.DataFrame,
    max_targets: int,
) -> Intervention:
    """Compute how much of the level remains without the measured subspace, and without the controls.

    Args:
        targets: table of the targets.
        corpus: corpus with its attribute sets; nothing is removed from it.
        units: units of analysis.
        unit_clusters: clusters of each unit.
        strata: strata, one per analysis.
        vectors: vectors of the targets and of the corpus, [N, D] or [N, Q, D].
        level_draws: level of each stratum under the placebo's permutations, see `level.Levels`.
        max_targets: maximum number of units per group of targets, drawn by the seed; 0: all.
    """
    sample = sample_targets(targets, units, max_targets, corpus.seed)
    summary: dict[str, Any] = dict.fromkeys(SUMMARY_COLUMNS, math.nan)
    summary |= {"n": len(sample), "controls": 0, "reason": ""}
    notes = [f"intervention on {len(sample):,} of {len(units.frame):,} targets"]
    if not is_any_significant(level_draws):
        return _refuse(summary, notes, "nothing to remove: level_p_max is above .05 in every analysis")
    if level_draws.empty:
        notes.append("no level has a p: the intervention may remove nothing of interest")
    rows = units.rows[sample]
    sampled = Units(units.frame.iloc[sample].reset_index(drop=True), np.arange(rows.size).reshape(rows.shape))
    x = normalise(vectors[0][torch.from_numpy(rows.reshape(-1))])
    basis = erasure.span(compute_measured_directions(corpus, vectors[1]))
    removals = [*_yield_removals(x, basis, _build_concept(targets, sampled), corpus.seed)]
    outcome = extrinsic_of(corpus.protocol)
    scores = score_erased(x, vectors[1], [removal.eraser for removal in removals], corpus, outcome).numpy()
    # [erasers, 2, units, S]: difference of mean cosines and outcome.
    averages = np.stack([[sampled.average(values) for values in both_scores] for both_scores in scores])
    statistics = np.stack(
        [_compute_levels(targets, sampled, stratum, averages) for stratum in strata], axis=1
    )
    # [erasers, strata, 2]: measured level and level, of strata with both before any removal.
    statistics = statistics[:, np.isfinite(statistics[0]).all(axis=1)]
    if not basis.shape[1] or not statistics[0].any(axis=0).all():
        return _refuse(summary, notes, "nothing to remove: the measure or the level is 0 or undefined")
    table = pd.DataFrame([removal[:3] for removal in removals], columns=[*COLUMNS[:3]])
    for column, name in enumerate(COLUMNS[3:]):
        table[name] = erasure.remaining_share(statistics[..., column], statistics[0, :, column])
    summary |= _summarise(table)
    if CARRIES[targets.role] == "group" and len(corpus.properties) == 1:
        interval, reason = _compute_interval(
            sampled, unit_clusters.iloc[sample], averages[[0, len(DOSES) - 1], 1, :, 0]
        )
        summary |= interval | {"reason": "; ".join(filter(None, [summary["reason"], reason]))}
    notes += [f"{summary['controls']} of {CONTROLS} random subspaces", *filter(None, [summary["reason"]])]
    return Intervention(table, pd.DataFrame([summary]), notes)


def _refuse(summary: dict[str, Any], notes: list[str], reason: str) -> Intervention:
    """Return an intervention without rows, with the reason of the refusal."""
    row = pd.DataFrame([summary | {"reason": reason}])
    return Intervention(pd.DataFrame(columns=[*COLUMNS]).astype(DTYPES), row, [*notes, reason])


def is_any_significant(level_draws: pd.DataFrame) -> bool:
    """Return whether any level has an adjusted p of at most .05; true if no level has a p.

    `level_draws` is `level.Levels.draws`.
    """
    if level_draws.empty:
        return True
    draws = level_draws.pivot(index="stratum", columns="draw", values="level").to_numpy()
    _, levels = joint.standardise(dict(enumerate(draws)), absolute=True)
    return bool(len(levels) and (joint.adjust_p(levels) <= SIGNIFICANT).any())


def sample_targets(targets: Table, units: Units, count: int, seed: int) -> np.ndarray:
    """Draw at most `count` units of each group of targets, or of all targets with a valence; 0: all units.

    Returns:
        Positions of the units, ascending.
    """
    groups, everything = units.frame["group"], np.arange(len(units.frame))
    if CARRIES[targets.role] == "group":
        members = [everything[groups == name] for name in targets.groups]
    else:
        members = [everything]
    samples = [sample_units(units, rows, seed, count) if count else rows for rows in members]
    return np.sort(np.concatenate(samples))


def _build_concept(targets: Table, units: Units) -> Tensor:
    """Build the targets' property for LEACE: an indicator of each group, or the rating, [units, C]."""
    if CARRIES[targets.role] == "group":
        group, _ = pd.factorize(units.frame["group"])
        return torch.nn.functional.one_hot(torch.from_numpy(group)).double()
    return torch.tensor(units.frame["valence"].to_numpy(dtype=float)[:, None])


def _yield_removals(x: Tensor, basis: Tensor, concept: Tensor, seed: int) -> Iterator[Removal]:
    """Yield removals: the doses of the measured subspace, random subspaces of equal variance, and LEACE.

    Args:
        x: vectors of the sampled targets, unit by unit, [N, D] or [N, Q, D].
        basis: orthonormal basis of the measured subspace, [D, r].
        concept: property of the units, [units, C].
        seed: seed of the random subspaces; those that cannot have the measured variances are left out.
    """
    vectors = x.reshape(-1, x.shape[-1])
    center = vectors.mean(dim=0)
    for alpha in DOSES:
        yield Removal(MEASURED, 0, alpha, erasure.projection(basis, center, alpha))
    covariance = (vectors - center).T @ (vectors - center) / len(vectors)
    variances, axes = erasure.complement(covariance, basis)
    measured_variances = (basis * (covariance @ basis)).sum(dim=0)
    for draw in range(CONTROLS):
        rng = np.random.default_rng([seed, draw])
        subspace = erasure.random_subspace(variances, axes, measured_variances, rng)
        if subspace is not None:
            yield Removal(RANDOM, draw, 1.0, erasure.projection(subspace, center))
    copies = len(vectors) // len(concept)
    yield Removal(LEACE, 0, 1.0, erasure.leace(vectors, concept.repeat_interleave(copies, dim=0)))


def _compute_levels(targets: Table, units: Units, stratum: Stratum, scores: np.ndarray) -> np.ndarray:
    """Compute measured level and level of a stratum, [erasers, 2], from scores [erasers, 2, units, S]."""
    frame = units.frame
    ratings = frame["valence"].to_numpy(dtype=float) if CARRIES[targets.role] == "valence" else None
    in_group, everything = (frame["group"] == stratum.group).to_numpy(), np.ones((1, len(frame)))
    values = scores[..., stratum.column].swapaxes(1, 2)
    levels = np.concatenate(
        [compute_level_statistics(ratings, in_group, pairs, everything) for pairs in values]
    )
    return levels[:, [1, 0]]


def _summarise(table: pd.DataFrame) -> dict[str, Any]:
    """Summarise the table of an intervention in columns of `SUMMARY_COLUMNS`."""
    measured, random, leace = (table[table["kind"] == kind] for kind in (MEASURED, RANDOM, LEACE))
    left, random_levels = float(measured["level"].iloc[-1]), random["level"].to_numpy()
    doses = measured[measured["alpha"] > 0]
    row = {
        "left": left,
        "dose_slope": erasure.dose_slope(doses["measured"].to_numpy(), doses["level"].to_numpy()),
        "left_leace": float(leace["level"].iloc[0]),
        "controls": len(random_levels),
        "reason": "",
    }
    if len(random_levels):
        low, median = np.quantile(random_levels, [0.05, 0.5])
        row |= {"left_random_q05": float(low), "left_random_median": float(median)}
    if len(random_levels) >= MIN_CONTROLS:
        n_as_low = int((random_levels <= left + TOLERANCE).sum())
        row["left_p"] = (1 + n_as_low) / (len(random_levels) + 1)
    else:
        row["reason"] = f"no left_p: {len(random_levels)} random subspaces have the measured variance"
    return row


def _compute_interval(
    units: Units, unit_clusters: pd.DataFrame, outcomes: np.ndarray
) -> tuple[dict[str, float], str]:
    """Return the interval of `left`, from outcomes before and after [2, units], or the reason why not."""
    columns = {"stratum": units.frame["group"], "id": units.frame["id"]}
    columns |= {"extrinsic_before": outcomes[0], "extrinsic_after": outcomes[1]}
    spread = estimate_spreads(unit_clusters.reset_index(drop=True).assign(**columns), "extrinsic")
    reason = f"no interval of left ({spread.reason})" if spread.reason else ""
    return {"left_low": spread.ratio.low, "left_high": spread.ratio.high}, reason
