"""Store the jackknife replicates of a job's statistics, so that jobs on the same units can be compared.

See docs/methods.md, sections 6.2 and 9.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pandas as pd

from src.metrics.jackknife import Replicates, StatisticsFunction
from src.studies.shared.cluster_jackknife import build_subsamples, list_cluster_columns

TABLE = "jackknife"  # name of the table among a job's results
# Columns that identify a statistic: what it measures, and of which analysis.
KEYS = ["measure", "item"]
COLUMNS = [*KEYS, "null", "units", "df", "reason", "signs", "sizes", "values"]


@dataclass(frozen=True)
class Block:
    """Statistics of the same units.

    Attributes:
        units: one row per unit, with `id`, `template` if there are several, and the columns of
            `list_cluster_columns`.
        statistics: names of the S statistics: measure, item, and its value in the absence of bias (NaN if
            undefined).
        compute: masks of the remaining units of G subsamples [G, n] -> the statistics of each [G, S].
        groups: masks [n] of groups that the statistics compare, see `build_subsamples`.
    """

    units: pd.DataFrame
    statistics: Sequence[tuple[str, str, float]]
    compute: StatisticsFunction
    groups: Sequence[np.ndarray] = ()


@dataclass(frozen=True)
class Estimates:
    """Statistics of the same units, with their replicates.

    Attributes:
        names: `measure`, `item` and `null` of each statistic, [S].
        values: statistics of all units, [S].
        replicates: statistics of each subsample, [G, S].
        units: hash of the units and their clusters; with equal hashes, subsamples are the same.
    """

    names: pd.DataFrame
    values: np.ndarray
    replicates: Replicates
    units: str

    def select(self, positions: np.ndarray) -> "Estimates":
        """Return the statistics at positions [T], in their order."""
        ways = tuple((sign, statistics[:, positions]) for sign, statistics in self.replicates.ways)
        replicates = replace(self.replicates, ways=ways, cells=self.replicates.cells[:, positions])
        names = self.names.iloc[positions].reset_index(drop=True)
        return Estimates(names, self.values[positions], replicates, self.units)


def build_jackknife_table(blocks: Sequence[Block]) -> pd.DataFrame:
    """Compute the statistics of all blocks on all units, and on each subsample that leaves a cluster out.

    Returns:
        One row per statistic: `KEYS`, `null`; `units`, hash of the units; `df`; `reason`, why there is no
        variance (empty if there is one); `values`, the statistic on all units, then on the subsamples of each
        way of clustering; `sizes`, the number of subsamples of each way; and `signs`, that of each way's
        variance in the sum. If there are several ways, the subsamples without the intersections of clusters
        come last, with the sign 0.
    """
    tables = [_build_rows(block) for block in blocks if len(block.units)]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=COLUMNS)


def _build_rows(block: Block) -> pd.DataFrame:
    subsamples = build_subsamples(block.units, block.groups)
    # With a single way, the subsamples of the cells are those of the way.
    cells = [(0, subsamples.cells)] if len(subsamples.ways) > 1 else []
    ways = [*subsamples.ways, *cells]
    masks = np.concatenate([np.ones((1, len(block.units)), dtype=bool), *(masks for _, masks in ways)])
    frame = pd.DataFrame([*block.statistics], columns=[*KEYS, "null"])
    frame = frame.assign(units=_hash_units(block.units), df=subsamples.df, reason=subsamples.reason)
    frame["signs"] = [[sign for sign, _ in ways]] * len(frame)
    frame["sizes"] = [[len(masks) for _, masks in ways]] * len(frame)
    frame["values"] = [*np.ascontiguousarray(block.compute(masks).T, dtype=float)]
    return frame[COLUMNS]


def read_estimates(table: pd.DataFrame) -> list[Estimates]:
    """Read the result of `build_jackknife_table`, one `Estimates` per set of units."""
    estimates = []
    for units, rows in table.groupby("units", sort=False):
        first = rows.iloc[0]
        values = np.stack([*rows["values"]], axis=1)
        ends = np.cumsum([1, *first["sizes"]])
        statistics = [values[start:end] for start, end in pairwise(ends)]
        signed = [*zip(map(int, first["signs"]), statistics, strict=True)]
        ways = tuple((sign, replicates) for sign, replicates in signed if sign)
        replicates = Replicates(ways, statistics[-1], int(first["df"]), str(first["reason"]))
        names = rows[[*KEYS, "null"]].reset_index(drop=True)
        estimates.append(Estimates(names, values[0], replicates, str(units)))
    return estimates


def _hash_units(units: pd.DataFrame) -> str:
    names = [name for name in ("id", "template") if name in units] + list_cluster_columns(units)
    row_hashes = np.sort(pd.util.hash_pandas_object(units[names].astype(str), index=False).to_numpy())
    return hashlib.sha256("\0".join(names).encode() + row_hashes.tobytes()).hexdigest()


def compute_means(scores: np.ndarray, groups: Sequence[np.ndarray]) -> StatisticsFunction:
    """Return the function that computes the mean score of each group in subsamples.

    Scores [n] may be NaN, and are then left out; `groups` are masks [n].
    """
    defined = np.isfinite(scores)
    members = np.stack([group & defined for group in groups], axis=1).astype(float)
    sums = members * np.where(defined, scores, 0)[:, None]

    def compute(masks: np.ndarray) -> np.ndarray:
        weights = masks.astype(float)
        with np.errstate(divide="ignore", invalid="ignore"):
            means = (weights @ sums) / (weights @ members)
        return np.where(np.isfinite(means), means, math.nan)

    return compute
