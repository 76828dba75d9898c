"""What debiasing changes over a sweep's models: one number for each measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import pandas as pd

from src.report.findings import readings
from src.studies.debiasing.change import ACCURACY, CLES, INTRINSIC, NOTHING, OUTCOME, RHO, Change
from src.studies.shared.draws import interval

ALL = "all"
# What each measure is called. A spread's change is told in percent: experiments have units of their own.
SC_EAT = "SC-EAT"
NAMES = {
    INTRINSIC: f"the spread of {SC_EAT} between groups",
    OUTCOME: "the spread between groups of what is retrieved",
    CLES: "|CLES − ½|",
    RHO: "ρ",
    ACCURACY: "zero-shot accuracy",
}
RELATIVE = (INTRINSIC, OUTCOME)


@dataclass(frozen=True, eq=False)
class Estimate:
    """A measure's change over comparisons: pairs of jobs of one model and experiment.

    Attributes:
        model: which, or `ALL`.
        debias, measure: of whom.
        value: the mean difference after − before; of a spread the geometric mean of after / before, less 1.
        draws: [R] the same of each bootstrap sample, one sample in all comparisons.
        before, after, chance: means over the comparisons; chance of the job with debiasing.
        lowest, highest: of the comparisons.
        models, experiments, comparisons: how many.
        left: comparisons without a value, which are in none of these.
        at_chance: comparisons whose number after is no larger than chance gives.
    """

    model: str
    debias: str
    measure: str
    value: float
    draws: np.ndarray
    before: float
    after: float
    chance: float
    lowest: float
    highest: float
    models: int
    experiments: int
    comparisons: int
    left: int
    at_chance: int

    @property
    def ends(self) -> tuple[float, float]:
        """95% interval; NaN without draws."""
        return interval(self.draws, np.zeros(len(self.draws)))


def shown(found: Sequence[Change]) -> list[Change]:
    """The changes of one reading, which figure and sentences are of: the paper's or what is nearest to it."""
    there = [one for one in found if not one.pair.reason] or found
    if not there:
        return []
    jobs = pd.DataFrame([{**one.pair.job, "debias": one.pair.debias} for one in there])
    first = readings(jobs)[0][:2]
    return [one for one in found if (one.pair.job["protocol"], one.pair.job["seed"]) == first]


def score(found: Sequence[Change]) -> str:
    """Return what the intrinsic score is called.

    Args:
        found: changes of one reading.
    """
    frames = [rows for change in found for rows in change.pair.rows if "intrinsic_label" in rows]
    names = [name for rows in frames for name in rows["intrinsic_label"].dropna()]
    return str(names[0]) if names else SC_EAT


def estimates(found: Sequence[Change]) -> list[Estimate]:
    """Over all models, and of each where there are several; methods in their order, `NAMES` in theirs.

    Where each group's own faces or labels look for it, a spread says how unequally well groups are told
    apart, not how differently they are treated: such experiments are in none of the spreads here.

    Args:
        found: changes of one reading.
    """
    result = []
    found = [one for one in found if not (one.measure in RELATIVE and _own_targets(one))]
    for method in dict.fromkeys(one.pair.debias for one in found):
        for measure in NAMES:
            own = [one for one in found if (one.pair.debias, one.measure) == (method, measure)]
            every = _comparisons(own)
            models = [*dict.fromkeys(one.model for one in every)]
            parts = {ALL: every} | {
                model: [one for one in every if one.model == model] for model in models if len(models) > 1
            }
            result += [_estimate(name, method, measure, part) for name, part in parts.items() if part]
    return result


def _own_targets(one: Change) -> bool:
    """Whether each group has targets of its own, beside the reading over all of them."""
    rows = one.pair.rows[0]
    return bool({"group", "n_all"} <= {*rows} and (rows["group"].notna() & rows["n_all"].notna()).any())


@dataclass(frozen=True, eq=False)
class _Comparison:
    model: str
    exp: str
    values: np.ndarray
    draws: np.ndarray
    chance: np.ndarray

    def changed(self, relative: bool) -> float:
        return float(_over(self.values[None, :, None], relative)[0])


def _comparisons(own: Sequence[Change]) -> list[_Comparison]:
    """One for each pair of jobs; of an audit the means over its attributes.

    An attribute that is itself the mean of the others leaves that mean as it is.
    """
    by_job: dict[tuple[str, str, str], list[Change]] = {}
    for one in own:
        key = (str(one.pair.job["model"]), str(one.pair.job["exp"]), one.pair.after)
        by_job.setdefault(key, []).append(one)
    return [
        _Comparison(
            model,
            exp,
            np.mean([one.values for one in parts], axis=0),
            np.mean([one.draws for one in parts], axis=0) if _alike(parts) else NOTHING,
            np.mean([one.chance for one in parts], axis=0),
        )
        for (model, exp, _), parts in by_job.items()
    ]


def _alike(parts: Sequence[Change | _Comparison]) -> bool:
    return len({one.draws.shape for one in parts}) == 1


def _estimate(model: str, method: str, measure: str, every: Sequence[_Comparison]) -> Estimate:
    relative = measure in RELATIVE
    known = [one for one in every if np.isfinite(one.changed(relative))]
    values = np.array([one.values for one in known]).reshape(-1, 2)
    chance = np.array([one.chance[1] for one in known])
    each = [one.changed(relative) for one in known] or [np.nan]
    drawn = np.stack([one.draws for one in known]) if _alike(known) else NOTHING[None]
    return Estimate(
        model=model,
        debias=method,
        measure=measure,
        value=float(_over(values[..., None], relative)[0]) if known else np.nan,
        draws=_over(drawn, relative),
        before=float(values[:, 0].mean()) if known else np.nan,
        after=float(values[:, 1].mean()) if known else np.nan,
        chance=float(chance.mean()) if known else np.nan,
        lowest=min(each),
        highest=max(each),
        models=len({one.model for one in known}),
        experiments=len({one.exp for one in known}),
        comparisons=len(known),
        left=len(every) - len(known),
        at_chance=int((values[:, 1] <= chance).sum()),
    )


def _over(values: np.ndarray, relative: bool) -> np.ndarray:
    """[R] over [comparisons, 2, R]: every comparison counts alike, whatever its unit."""
    before, after = values[:, 0], values[:, 1]
    if not relative:
        found: np.ndarray = (after - before).mean(axis=0)
        return found
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio: np.ndarray = np.expm1(np.log(after / before).mean(axis=0))
    # Nothing can be said of a spread that was none.
    return np.where(np.isposinf(ratio), np.nan, ratio)


def table(found: Sequence[Estimate]) -> pd.DataFrame:
    """The estimates, one row each: the fields of `Estimate`, and `ci_low` and `ci_high` for its draws."""
    names = [field.name for field in fields(Estimate)]
    place = names.index("draws")
    columns = [*names[:place], "ci_low", "ci_high", *names[place + 1 :]]
    rows = [vars(one) | dict(zip(("ci_low", "ci_high"), one.ends, strict=True)) for one in found]
    return pd.DataFrame(rows).reindex(columns=columns)


def further(found: Sequence[Estimate], method: str) -> tuple[float, float, float]:
    """How many points less what is retrieved came down than what is measured, with its interval.

    The relative change of the one spread less that of the other, draw by draw; NaN where they are not of the
    same comparisons.
    """
    both = [
        [one for one in found if (one.model, one.debias, one.measure) == (ALL, method, measure)]
        for measure in (OUTCOME, INTRINSIC)
    ]
    if not all(both) or both[0][0].comparisons != both[1][0].comparisons:
        return np.nan, np.nan, np.nan
    outcome, intrinsic = both[0][0], both[1][0]
    return (outcome.value - intrinsic.value, *interval(outcome.draws, intrinsic.draws))
