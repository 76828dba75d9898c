"""Remove what is measured from the targets, and measure how much of the level remains.

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
from src.studies.propagation.erased_scores import measured_directions, score
from src.studies.propagation.level import summarise
from src.studies.propagation.measures import extrinsic_of
from src.studies.propagation.null_scores import sample_units
from src.studies.propagation.units import Stratum, Units
from src.studies.shared.spreads import spreads

# Shares of the measured subspace that are removed.
DOSES = (0.0, 0.25, 0.5, 0.75, 1.0)
# Number of random subspaces, and the smallest number of them from which a p is computed.
CONTROLS, MIN_CONTROLS = 100, 50
MEASURED, RANDOM, LEACE = "measured", "random", "leace"  # kinds of removed directions
SIGNIFICANT, TOLERANCE = 0.05, 1e-12
COLUMNS = ("kind", "draw", "alpha", "measured", "level")
TYPES = {"kind": "object", "draw": "int64"} | dict.fromkeys(COLUMNS[2:], "float64")
SUMMARY = (
    *("left", "left_low", "left_high", "dose_slope", "left_random_q05", "left_random_median", "left_p"),
    *("left_leace", "n", "controls", "reason"),
)


class Intervention(NamedTuple):
    """Result of an intervention.

    Attributes:
        rows: `COLUMNS`, a row per eraser: what it removes (`MEASURED`, `RANDOM`, `LEACE`), number of the
            draw, share alpha that it removes, and the shares of measure and level that remain.
        summary: `SUMMARY`, in a single row.
        notes: remarks for readers of the numbers.
    """

    rows: pd.DataFrame
    summary: pd.DataFrame
    notes: list[str]

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Return the tables of the job by name."""
        return {"intervention": self.rows, "intervention_summary": self.summary}


class Removal(NamedTuple):
    """An eraser with its first columns of `COLUMNS`."""

    kind: str
    draw: int
    alpha: float
    eraser: Eraser


def check(protocol: ProtocolConfig) -> None:
    """Raise `NotApplicable` for an outcome that retrieves nothing."""
    if not extrinsic_of(protocol).retrieves:
        raise NotApplicable(
            f"exp.intervene=true: protocol.extrinsic={protocol.extrinsic} retrieves no items, in which "
            "something could remain. Use protocol.extrinsic=top_k, or leave exp.intervene out."
        )


def intervene(
    targets: Table,
    corpus: Corpus,
    units: Units,
    ways: pd.DataFrame,
    strata: Sequence[Stratum],
    vectors: tuple[Tensor, Tensor],
    level_draws: pd.DataFrame,
    max_targets: int,
) -> Intervention:
    """Remove the measured subspace, random subspaces and what the targets are known to carry.

    Args:
        targets: table of the targets.
        corpus: corpus with its attribute sets, which stays as it is.
        units: units of analysis.
        ways: clusters of each unit.
        strata: strata, one per analysis.
        vectors: vectors of the targets and of the corpus, [N, D] or [N, Q, D].
        level_draws: level of each stratum under the placebo's permutations, see `level.Levels`.
        max_targets: maximum number of units of each group of targets, drawn by the seed; 0: all.
    """
    sample = sample_targets(targets, units, max_targets, corpus.seed)
    summary: dict[str, Any] = dict.fromkeys(SUMMARY, math.nan)
    summary |= {"n": len(sample), "controls": 0, "reason": ""}
    notes = [f"intervention on {len(sample):,} of {len(units.frame):,} targets"]
    if not is_any_significant(level_draws):
        return _refused(summary, notes, "nothing to remove: level_p_max is above .05 in every analysis")
    if level_draws.empty:
        notes.append("no level has a p: whether there is something to remove is unknown")
    rows = units.rows[sample]
    sampled = Units(units.frame.iloc[sample].reset_index(drop=True), np.arange(rows.size).reshape(rows.shape))
    x = normalise(vectors[0][torch.from_numpy(rows.reshape(-1))])
    basis = erasure.span(measured_directions(corpus, vectors[1]))
    removals = [*_removals(x, basis, _concept(targets, sampled), corpus.seed)]
    outcome = extrinsic_of(corpus.protocol)
    scores = score(x, vectors[1], [each.eraser for each in removals], corpus, outcome).numpy()
    averages = np.stack([[sampled.average(values) for values in of_eraser] for of_eraser in scores])
    statistics = np.stack([_levels(targets, sampled, stratum, averages) for stratum in strata], axis=1)
    statistics = statistics[:, np.isfinite(statistics[0]).all(axis=1)]
    if not basis.shape[1] or not statistics[0].any(axis=0).all():
        return _refused(summary, notes, "nothing to remove: the measure or the level is 0 or undefined")
    table = pd.DataFrame([each[:3] for each in removals], columns=[*COLUMNS[:3]])
    for column, name in enumerate(COLUMNS[3:]):
        table[name] = erasure.remaining_share(statistics[..., column], statistics[0, :, column])
    summary |= _summarise(table)
    if CARRIES[targets.role] == "group" and len(corpus.properties) == 1:
        interval, reason = _interval(sampled, ways.iloc[sample], averages[[0, len(DOSES) - 1], 1, :, 0])
        summary |= interval | {"reason": "; ".join(filter(None, [summary["reason"], reason]))}
    notes += [f"{summary['controls']} of {CONTROLS} random subspaces", *filter(None, [summary["reason"]])]
    return Intervention(table, pd.DataFrame([summary]), notes)


def _refused(summary: dict[str, Any], notes: list[str], reason: str) -> Intervention:
    row = pd.DataFrame([summary | {"reason": reason}])
    return Intervention(pd.DataFrame(columns=[*COLUMNS]).astype(TYPES), row, [*notes, reason])


def is_any_significant(level_draws: pd.DataFrame) -> bool:
    """Return whether the p of any level, adjusted for all analyses, is at most .05, or none has a p.

    `level_draws` are those of `level.Levels`: `stratum`, `draw`, `level`.
    """
    if level_draws.empty:
        return True
    draws = level_draws.pivot(index="stratum", columns="draw", values="level").to_numpy()
    _, levels = joint.standardise(dict(enumerate(draws)), absolute=True)
    return bool(len(levels) and (joint.adjusted_p(levels) <= SIGNIFICANT).any())


def sample_targets(targets: Table, units: Units, count: int, seed: int) -> np.ndarray:
    """Draw at most `count` units of each group of targets, or of all where they carry a valence; 0: all.

    Returns:
        Positions of the units, ascending.
    """
    groups, everything = units.frame["group"], np.arange(len(units.frame))
    if CARRIES[targets.role] == "group":
        members = [everything[groups == name] for name in targets.groups]
    else:
        members = [everything]
    drawn = [sample_units(units, rows, seed, count) if count else rows for rows in members]
    return np.sort(np.concatenate(drawn))


def _concept(targets: Table, units: Units) -> Tensor:
    """Return what targets are known to carry: an indicator of each group, or the rating, [units, C]."""
    if CARRIES[targets.role] == "group":
        group, _ = pd.factorize(units.frame["group"])
        return torch.nn.functional.one_hot(torch.from_numpy(group)).double()
    return torch.tensor(units.frame["valence"].to_numpy(dtype=float)[:, None])


def _removals(x: Tensor, basis: Tensor, concept: Tensor, seed: int) -> Iterator[Removal]:
    """Yield the doses of the measured subspace, the random subspaces that exist, and LEACE.

    `x` are the vectors of the sampled units, unit by unit, and `concept` has a row per unit.
    """
    vectors = x.reshape(-1, x.shape[-1])
    center = vectors.mean(dim=0)
    for alpha in DOSES:
        yield Removal(MEASURED, 0, alpha, erasure.projection(basis, center, alpha))
    covariance = (vectors - center).T @ (vectors - center) / len(vectors)
    variances, axes = erasure.complement(covariance, basis)
    of_measured = (basis * (covariance @ basis)).sum(dim=0)
    for draw in range(CONTROLS):
        rng = np.random.default_rng([seed, draw])
        subspace = erasure.random_subspace(variances, axes, of_measured, rng)
        if subspace is not None:
            yield Removal(RANDOM, draw, 1.0, erasure.projection(subspace, center))
    copies = len(vectors) // len(concept)
    yield Removal(LEACE, 0, 1.0, erasure.leace(vectors, concept.repeat_interleave(copies, dim=0)))


def _levels(targets: Table, units: Units, stratum: Stratum, scores: np.ndarray) -> np.ndarray:
    """Return measured level and level of a stratum, [erasers, 2], from scores [erasers, 2, units, S]."""
    frame = units.frame
    ratings = frame["valence"].to_numpy(dtype=float) if CARRIES[targets.role] == "valence" else None
    in_group, everything = (frame["group"] == stratum.group).to_numpy(), np.ones((1, len(frame)))
    values = scores[..., stratum.column].swapaxes(1, 2)
    levels = np.concatenate([summarise(ratings, in_group, pairs, everything) for pairs in values])
    return levels[:, [1, 0]]


def _summarise(table: pd.DataFrame) -> dict[str, Any]:
    """Summarise rows of `COLUMNS`: what is left without the measured subspace, and in the controls."""
    measured, random, leace = (table[table["kind"] == kind] for kind in (MEASURED, RANDOM, LEACE))
    left, levels = float(measured["level"].iloc[-1]), random["level"].to_numpy()
    doses = measured[measured["alpha"] > 0]
    row = {
        "left": left,
        "dose_slope": erasure.dose_slope(doses["measured"].to_numpy(), doses["level"].to_numpy()),
        "left_leace": float(leace["level"].iloc[0]),
        "controls": len(levels),
        "reason": "",
    }
    if len(levels):
        low, median = np.quantile(levels, [0.05, 0.5])
        row |= {"left_random_q05": float(low), "left_random_median": float(median)}
    if len(levels) >= MIN_CONTROLS:
        row["left_p"] = (1 + int((levels <= left + TOLERANCE).sum())) / (len(levels) + 1)
    else:
        row["reason"] = f"no left_p: {len(levels)} random subspaces reach the measured variance"
    return row


def _interval(units: Units, ways: pd.DataFrame, outcomes: np.ndarray) -> tuple[dict[str, float], str]:
    """Return the interval of `left` from outcomes [2, units] before and after, or why it has none."""
    columns = {"stratum": units.frame["group"], "id": units.frame["id"]}
    columns |= {"extrinsic_before": outcomes[0], "extrinsic_after": outcomes[1]}
    spread = spreads(ways.reset_index(drop=True).assign(**columns), "extrinsic")
    reason = f"no interval of left, since there is {spread.reason}" if spread.reason else ""
    return {"left_low": spread.ratio.low, "left_high": spread.ratio.high}, reason
