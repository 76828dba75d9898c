"""Correlate a model's associations with how often training captions mention words together with groups."""

import math
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.random import Generator

from src import metrics
from src.errors import InputError
from src.report import load
from src.storage import results
from src.tracking import StoredRun, Tracker, find_finished_jobs

EXPERIMENT = "sobit_association"
# Minimum number of captions that mention a word; ratios of rarer words are too uncertain.
MIN_CAPTIONS = 20
N_BOOTSTRAP, N_PERMUTATIONS = 2000, 1000
JOB_COLUMNS = ("run", "model", "dataset", "debias", "perturb", "protocol", "seed")
KEYS = ["word", "type", "axis", "group"]
MAX_LISTED = 10  # maximum number of runs that a message names


def find_run(tracker: Tracker, id_prefix: str) -> StoredRun:
    """Find the finished run of `sobit_association` whose id begins with `id_prefix`.

    Raises:
        InputError: no run, or more than one, has such an id.
    """
    runs = [run for run in reversed(find_finished_jobs(tracker)) if run.tags.get("exp") == EXPERIMENT]
    matches = [run for run in runs if run.id.startswith(id_prefix)]
    if len(matches) == 1:
        return matches[0]
    problem = f"no finished run of {EXPERIMENT} has this id"
    if matches:
        problem = f"{len(matches)} runs have ids that begin with this"
    listed_runs = [
        f"\n  {run.id}  {run.tags.get('model')}  {run.dataset}  {run.started}"
        for run in (matches or runs)[:MAX_LISTED]
    ]
    remedy = f"Run one: python -m src.run exp={EXPERIMENT} dataset=..."
    if listed_runs:
        remedy = "Available, newest first:" + "".join(listed_runs)
    raise InputError(f"run={id_prefix}: {problem}. {remedy}")


def load_analyses(tracker: Tracker, run: StoredRun) -> pd.DataFrame:
    """Load the analyses.csv of a run.

    Raises:
        InputError: the results are missing or cannot be read.
    """
    with tempfile.TemporaryDirectory() as folder:
        try:
            analyses = results.read_csv(load.fetch_results(tracker, run.id, Path(folder)) / results.ANALYSES)
        except OSError as error:
            raise InputError(f"run={run.id}: cannot read its results ({error}). Run it again.") from None
    return analyses.assign(run=run.id)


def correlate(ratios: pd.DataFrame, analyses: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Compute Spearman's rho over words between caption ratio and association, per axis and group.

    The ratio enters as ln((n_both + 1/2) / (n_word n_group / captions + 1/2)), which is defined at 0 mentions
    and shrinks towards 0 where few mentions are expected. Words in fewer than `MIN_CAPTIONS` captions, or
    without an association, are excluded. The interval is a percentile bootstrap over words, 2,000 draws; it
    covers other words, not other captions or faces. p compares |rho| with 1,000 permutations of the
    associations over the words, (1 + #)/(R + 1); `placebo_q95` is the 95th percentile of their |rho|; q is
    Benjamini and Hochberg's over all groups of the run. A rho may be due to a common cause.

    Returns:
        One row per axis and group: `JOB_COLUMNS` of the run, `axis`, `group`; `n` (number of words), `n_rare`
        (words excluded because fewer than `MIN_CAPTIONS` captions mention them, or because they have no
        association), `n_unmatched` (words of the run that are not in `ratios`, as another taxonomy was
        counted); `rho`, `rho_low`, `rho_high`, `placebo_q95`, `p`, `q`; `reason` for a missing rho, also of a
        group that only the captions or only the run has.
    """
    job_columns = {name: analyses[name].iloc[0] for name in JOB_COLUMNS}
    as_text = dict.fromkeys(KEYS, str)
    tables = [frame.drop_duplicates(KEYS).astype(as_text) for frame in (ratios, analyses)]
    groups = pd.concat(tables)[["axis", "group"]].drop_duplicates()
    rows = []
    for index, (axis, group) in enumerate(groups.itertuples(index=False)):
        group_tables = [frame[(frame["axis"] == axis) & (frame["group"] == group)] for frame in tables]
        statistics = _correlate_group(group_tables[0], group_tables[1], np.random.default_rng([seed, index]))
        rows.append({**job_columns, "axis": axis, "group": group, **statistics})
    correlations = pd.DataFrame(rows)
    correlations.insert(list(correlations).index("p") + 1, "q", metrics.benjamini_hochberg(correlations["p"]))
    return correlations


def _correlate_group(ratios: pd.DataFrame, associations: pd.DataFrame, rng: Generator) -> dict[str, object]:
    matched = ratios.merge(associations[[*KEYS, "association"]], on=KEYS)
    common = matched[(matched["n_word"] >= MIN_CAPTIONS) & matched["association"].notna()]
    sizes = {"n": len(common), "n_rare": len(matched) - len(common)}
    sizes["n_unmatched"] = len(associations) - len(matched)
    expected = common["n_word"] * (common["n_group"] / common["captions"])
    # 1/2 is added to both numbers so that the ratio is defined at 0.
    x = np.log(((common["n_both"] + 0.5) / (expected + 0.5)).to_numpy(float))
    y = common["association"].to_numpy(float)
    rho = metrics.spearman(x, y).rho
    reasons = {  # "the labels" are the option `labels=` of the audit of captions
        "the run has no group of this name on this axis": associations.empty,
        "the labels have no words for this group on this axis": ratios.empty,
        "no caption names the group": not ratios["n_group"].any(),
        f"expected at least 3 words, got {len(common)}": len(common) < 3,
        "all ratios or all associations are equal": math.isnan(rho),
    }
    if reason := next((reason for reason, applies in reasons.items() if applies), ""):
        undefined = dict.fromkeys(("rho", "rho_low", "rho_high", "placebo_q95", "p"), math.nan)
        return {**sizes, **undefined, "reason": reason}
    return {**sizes, "rho": rho, **_estimate_uncertainty(x, y, rho, rng), "reason": ""}


def _estimate_uncertainty(x: np.ndarray, y: np.ndarray, rho: float, rng: Generator) -> dict[str, float]:
    weights = rng.multinomial(len(x), np.full(len(x), 1 / len(x)), size=N_BOOTSTRAP)
    low, high = metrics.interval(metrics.weighted_spearman(x, y, weights))
    permuted = rng.permuted(np.broadcast_to(y, (N_PERMUTATIONS, len(y))), axis=1).T
    placebo = np.abs(metrics.spearman_columns(x[:, None], permuted))
    p, q95 = metrics.permutation_p(placebo, abs(rho)), float(np.quantile(placebo, 0.95))
    return {"rho_low": low, "rho_high": high, "placebo_q95": q95, "p": p}
