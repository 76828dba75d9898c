"""The answer in words: computed, and true whatever the signs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from src.report.format import number
from src.studies.debiasing.answer import ALL, NAMES, RELATIVE, SC_EAT, Estimate, further
from src.studies.debiasing.change import ACCURACY, CLES, OUTCOME

# Digits after the point.
DIGITS = {CLES: 3}


def sentence(found: Sequence[Estimate], method: str, score: str = SC_EAT) -> str:
    """What a method changed over all models: one sentence, and which measures it says nothing of.

    Args:
        found: the estimates of one reading.
        method: the way of debiasing.
        score: what the intrinsic score is called.
    """
    own = {one.measure: one for one in found if (one.model, one.debias) == (ALL, method)}
    own = {measure: one for measure, one in own.items() if one.comparisons}
    lacking = [NAMES[measure] for measure in NAMES if measure not in own]
    if not own:
        return f"{method}: nothing to compare it with."
    models = max(one.models for one in own.values())
    gap, *ends = further(found, method)
    beside = "" if math.isnan(gap) else f"{points(gap)} points from the former, {_between(ends, points)}"
    parts = [_part(own[one], models, beside * (one == OUTCOME)) for one in NAMES if one in own]
    text = f"Over {models} model{'s' * (models > 1)}, {method} changed {_listed(parts)}."
    text += f" Nothing here says what it does to {_listed(lacking)}." if lacking else ""
    return text.replace(SC_EAT, score)


def percent(value: float) -> str:
    """A relative change.

    >>> percent(-0.617), percent(0.0001), percent(0.2)
    ('−62%', '0%', '+20%')
    """
    return f"{points(value)}%"


def points(value: float) -> str:
    """A difference of relative changes, in points of a percentage."""
    return signed(100 * value, 0)


def signed(value: float, digits: int = 2) -> str:
    """A difference with its sign, which a zero has none of."""
    text = number(value, digits)
    return f"+{text}" if value > 0 and float(text) else text


def change(one: Estimate) -> str:
    """An estimate as people read it."""
    return percent(one.value) if one.measure in RELATIVE else signed(one.value, DIGITS.get(one.measure, 2))


def _part(one: Estimate, models: int, beside: str) -> str:
    digits = DIGITS.get(one.measure, 2)
    said = [_between(one.ends, percent if one.measure in RELATIVE else lambda value: signed(value, digits))]
    if one.measure not in RELATIVE:
        said.append(f"from {number(one.before, digits)} to {number(one.after, digits)}")
    if one.measure == ACCURACY:
        said.append(f"chance {number(one.chance)}")
    if one.comparisons > one.models:
        said.append(f"{one.comparisons} comparisons")
    if one.measure in RELATIVE and one.at_chance:
        said.append(f"{one.at_chance} end no wider than alike groups would")
    if one.models != models:
        said.append(f"{one.models} model{'s' * (one.models > 1)}")
    return f"{NAMES[one.measure]} by {change(one)} ({'; '.join([*said, beside] if beside else said)})"


def _between(ends: Sequence[float], told: Callable[[float], str]) -> str:
    return "no interval" if math.isnan(ends[0]) else f"95% interval {told(ends[0])} to {told(ends[1])}"


def _listed(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
