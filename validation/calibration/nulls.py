"""Measure how often level and rho are significant in worlds whose property is unrelated to their vectors."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd

from src.studies.propagation import experiment
from validation.calibration import bounds, worlds
from validation.calibration.worlds import Kind

POOLED = "all kinds"


class Analysis(NamedTuple):
    """Level and rho of an analysis, with the p of each."""

    level: float
    level_p: float
    rho: float
    p_placebo: float


def analyse(kind: Kind, number: int) -> Analysis:
    """Run the experiment of a world; consecutive worlds give the analyses of different groups."""
    analyses = experiment.run(*vars(worlds.experiment(kind, number)).values()).analyses
    row = analyses.iloc[number % len(analyses)]
    return Analysis(*(float(row[name]) for name in Analysis._fields))


def tabulate(measured: Sequence[tuple[str, str, Sequence[Analysis]]]) -> pd.DataFrame:
    """Summarise by kind the shares of worlds with p at most 5%, and whether they are inside their bounds.

    A share counts the worlds whose p is defined: `undefined` have no p of rho. With held-out sets, the mean
    rho must be 0 as well. The last row pools all kinds.

    Args:
        measured: names of the kinds of worlds, `protocol.attributes`, and the analyses of the worlds.
    """
    rows = [_summarise(*kind) for kind in measured]
    pooled = [analysis for _, _, analyses in measured for analysis in analyses]
    pooled_row = _summarise(POOLED, "both", pooled) | {"mean_rho": math.nan, "se_rho": math.nan}
    return pd.DataFrame([*rows, pooled_row])


def _summarise(name: str, attributes: str, analyses: Sequence[Analysis]) -> dict[str, Any]:
    frame = pd.DataFrame(analyses, columns=Analysis._fields)
    rhos = frame["rho"].dropna().to_numpy()
    row = {"world": name, "attributes": attributes, "worlds": len(frame), "undefined": len(frame) - len(rhos)}
    row["low"], row["high"] = bounds.of_level(len(frame))
    holds = []
    p_values = {"level": frame["level_p"].dropna(), "rho": frame.loc[frame["rho"].notna(), "p_placebo"]}
    for statistic, p in p_values.items():
        share = float((p <= bounds.ALPHA).mean())
        low, high = bounds.of_level(len(p))
        row[f"share_{statistic}"] = share
        holds.append(low <= share <= high)
    row |= {"mean_rho": float(rhos.mean()), "se_rho": float(rhos.std(ddof=1) / math.sqrt(len(rhos)))}
    if attributes == "held_out":
        holds.append(bounds.is_null_mean(rhos))
    return row | {"holds": all(holds)}
