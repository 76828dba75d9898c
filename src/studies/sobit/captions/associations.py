"""Does a model associate a word with the groups that its captions mention it with?"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy import stats

from src.errors import InputError
from src.metrics import interval, spearman, spearman_columns, weighted_spearman
from src.report import load
from src.storage import results
from src.tracking import Past, Tracker, finished

EXPERIMENT = "sobit_association"
# A word that fewer captions mention says little of a ratio.
LEAST = 20
BOOTSTRAP, PERMUTATIONS = 2000, 1000
TOLERANCE = 1e-12
ABOUT = ("run", "model", "dataset", "debias", "protocol", "seed")
KEYS = ["word", "type", "axis", "group"]
LISTED = 10


def chosen(tracker: Tracker, wanted: str) -> Past:
    """The finished job of `sobit_association` whose id begins so.

    Raises:
        InputError: there is none, or more than one.
    """
    there = [run for run in reversed(finished(tracker)) if run.tags.get("exp") == EXPERIMENT]
    found = [run for run in there if run.id.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    problem = (
        f"begins the ids of {len(found)} runs" if found else f"no finished run of {EXPERIMENT} has this id"
    )
    lines = [
        f"  {run.id}  {run.tags.get('model')}  {run.dataset}  {run.started}"
        for run in (found or there)[:LISTED]
    ]
    remedy = "There are, newest first:\n" + "\n".join(lines)
    if not lines:
        remedy = f"There is none: python -m src.run exp={EXPERIMENT} dataset=..."
    raise InputError(f"run={wanted}: {problem}. {remedy}")


def fetched(tracker: Tracker, run: Past) -> pd.DataFrame:
    """The analyses.csv of a run.

    Raises:
        InputError: it is gone.
    """
    with tempfile.TemporaryDirectory() as place:
        try:
            found = results.read_csv(load.fetch(tracker, run.id, Path(place)) / results.ANALYSES)
        except OSError as error:
            raise InputError(f"run={run.id}: its results cannot be read ({error}).") from None
    return found.assign(run=run.id)


def correlate(ratios: pd.DataFrame, analyses: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Spearman's rho over words of a caption ratio and a model's association, per axis and group.

    The ratio enters as ln((n_both + 1/2) / (n_word n_group / captions + 1/2)), which is defined at 0 mentions
    and drawn towards 0 where few are expected. Words that fewer than `LEAST` captions mention stay out.
    The interval is a percentile bootstrap over words, 2,000 draws; p the share of 1,000 permutations
    of the associations over the words whose |rho| is at least as large, (1 + #)/(R + 1); `placebo_q95` the
    95th percentile of theirs; q Benjamini and Hochberg's over all groups of the run. The interval covers
    other words, not other captions or faces; and rho is no cause: both may have a third source.

    Args:
        ratios: see `ratios.table`.
        analyses: analyses.csv of a run of sobit_association, and `run`.
        seed: of the draws.

    Returns:
        `ABOUT` of the run, `axis`, `group`, `n` words, `n_rare` left out as rare, `n_unmatched` words of the
        run that were not counted, `rho`, `rho_low`, `rho_high`, `placebo_q95`, `p`, `q`, `reason` why there
        is no rho. Groups of only one side have a row with their reason.
    """
    about = {name: analyses[name].iloc[0] for name in ABOUT}
    counted, measured = (
        frame.drop_duplicates(KEYS).astype(dict.fromkeys(KEYS, str)) for frame in (ratios, analyses)
    )
    pairs = pd.concat([counted, measured])[["axis", "group"]].drop_duplicates()
    rows = []
    for number, (axis, group) in enumerate(pairs.itertuples(index=False)):
        one, other = (
            frame[(frame["axis"] == axis) & (frame["group"] == group)] for frame in (counted, measured)
        )
        rng = np.random.default_rng([seed, number])
        rows.append({**about, "axis": axis, "group": group, **_correlation(one, other, rng)})
    found = pd.DataFrame(rows)
    p = found["p"].dropna()
    adjusted = pd.Series(stats.false_discovery_control(p) if len(p) else p, p.index, dtype=float)
    found.insert(list(found).index("p") + 1, "q", adjusted.reindex(found.index))
    return found


def log_ratio(rows: pd.DataFrame) -> Float[np.ndarray, " n"]:
    """Logarithm of a ratio of ratios.csv that is defined at 0; see `correlate`."""
    expected = rows["n_word"] * (rows["n_group"] / rows["captions"])
    ratio: np.ndarray = ((rows["n_both"] + 0.5) / (expected + 0.5)).to_numpy(float)
    return np.asarray(np.log(ratio))


def _correlation(
    counted: pd.DataFrame, measured: pd.DataFrame, rng: np.random.Generator
) -> dict[str, object]:
    undefined = dict.fromkeys(("rho", "rho_low", "rho_high", "placebo_q95", "p"), math.nan)
    both = counted.merge(measured[[*KEYS, "association"]], on=KEYS)
    often = both[(both["n_word"] >= LEAST) & both["association"].notna()]
    sizes = {"n": len(often), "n_rare": len(both) - len(often), "n_unmatched": len(measured) - len(both)}
    reason = ""
    if not len(measured):
        reason = "the run has no group of this name on this axis"
    elif not len(counted):
        reason = "the labels' words name no group of this name on this axis"
    elif not counted["n_group"].iloc[0]:
        reason = "no caption names the group"
    if reason:
        return {**sizes, **undefined, "reason": reason}
    x, y = log_ratio(often), often["association"].to_numpy(float)
    found = spearman(x, y)
    if found.reason:
        # Its words are of propagation.
        reason = (
            f"{len(often)} words: at least 3 are needed"
            if len(often) < 3
            else "all values of one side are equal"
        )
        return {**sizes, **undefined, "reason": reason}
    return {**sizes, "rho": found.rho, **_worth(x, y, found.rho, rng), "reason": ""}


def _worth(x: np.ndarray, y: np.ndarray, rho: float, rng: np.random.Generator) -> dict[str, float]:
    weights = rng.multinomial(len(x), np.full(len(x), 1 / len(x)), size=BOOTSTRAP)
    low, high = interval(weighted_spearman(x, y, weights))
    permuted = rng.permuted(np.broadcast_to(y, (PERMUTATIONS, len(y))), axis=1).T
    placebo = np.abs(spearman_columns(x[:, None], permuted))
    reached = int((placebo >= abs(rho) - TOLERANCE).sum())
    q95 = float(np.quantile(placebo, 0.95))
    return {"rho_low": low, "rho_high": high, "placebo_q95": q95, "p": (1 + reached) / (PERMUTATIONS + 1)}
