"""Run embedding association tests in every order of modalities that their sets have."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from src import metrics
from src.configs import RunConfig
from src.errors import InputError, NotApplicable, did_you_mean
from src.metrics.jackknife import compute_rho_interval, fisher_transform, replicate
from src.stimuli import CARRIES, PROMPTS
from src.stimuli.clusters import PARENTS, assign_clusters, merge_linked
from src.studies.eat import sets
from src.studies.eat.association_tests import LETTERS, AssociationTest, list_tests
from src.studies.eat.config import EatConfig
from src.studies.eat.sets import SetItems
from src.studies.protocol import AnalysisTables, Tables, Vectors
from src.studies.shared.cluster_jackknife import build_subsamples
from src.studies.shared.jackknife_table import TABLE, Block, build_jackknife_table

# Columns of analyses.csv.
COLUMNS = (
    *("test", "order", "set_x", "set_y", "set_a", "set_b", "n_x", "n_y", "n_a", "n_b"),
    *("d", "d_low", "d_high", "df", "p", "partitions", "p_method", "null_low", "null_high", "reason"),
)
NOT_EXCHANGEABLE = "no p: targets share clusters, so that they are not exchangeable one by one"


@dataclass(frozen=True)
class SelectedTest:
    """A test in one order, with the items of its four sets."""

    test: AssociationTest
    order: str
    items: tuple[SetItems, ...]


def check(cfg: RunConfig, tables: Tables) -> None:
    """Check the sets of all tests before any work.

    Raises:
        InputError: see `list_tests` and `sets.select_items`; or X and Y, or A and B, share an item.
        NotApplicable: the dataset lacks a group or valence, or has fewer than two groups.
    """
    prompts = sets.build_prompts(cfg)
    select_tests(cfg, {**tables, prompts.role: prompts} if prompts else tables)


def select_tests(cfg: RunConfig, tables: Tables) -> list[SelectedTest]:
    """Select the items of all tests, in each order that their sets allow; errors are those of `check`."""
    assert isinstance(cfg.exp, EatConfig)
    selected: list[SelectedTest] = []
    by_config: dict[str, SetItems] = {}  # tests share sets
    for test in list_tests(cfg.exp, _choose_groups(cfg.exp, tables)):
        location = f"exp.tests.{test.name}" if test.name in cfg.exp.tests else f"test {test.name}"
        for order in cfg.exp.orders:
            roles = test.roles_in(order)
            if not roles:
                continue
            keys = [f"{role} {config}" for role, config in zip(roles, test.sets, strict=True)]
            for key, role, config, letter, name in zip(
                keys, roles, test.sets, LETTERS, test.names, strict=True
            ):
                if key not in by_config:
                    place = f"{location}, {letter} ({name})"
                    by_config[key] = sets.select_items(cfg, tables, role, config, place)
            items = tuple(by_config[key] for key in keys)
            sets.check_disjoint(items[0], items[1], "X and Y", location)
            sets.check_disjoint(items[2], items[3], "A and B", location)
            selected.append(SelectedTest(test, order, items))
    return selected


def _choose_groups(exp: EatConfig, tables: Tables) -> list[str]:
    """Return the groups to test in pairs, sorted."""
    if not exp.attributes or exp.file is not None:
        return []
    table = next(table for role, table in tables.items() if CARRIES.get(role) == "group")
    groups = table.groups if exp.groups is None else sorted({*exp.groups})
    for group in groups:
        if group not in table.groups:
            raise InputError(
                f"exp.groups: no {table.role} of {group!r}.{did_you_mean(group, table.groups)} "
                f"There are: {', '.join(table.groups)}."
            )
    if len(groups) < 2:
        raise NotApplicable(
            f"{table.role}: a test compares two groups, got {', '.join(groups) or 'none'}. Name two or "
            "more in exp.groups, or choose another dataset."
        )
    return groups


def run(cfg: RunConfig, tables: Tables, vectors: Vectors) -> AnalysisTables:
    """Compute d, its interval and p of each test in each order.

    Vectors are unit-length, in the order of the tables: [N, D], or [N, Q, D] of images.

    Returns:
        Analyses: `COLUMNS`, one row per test and order. Tables: `associations` (`test`, `order`, `set` X or
        Y, `id` and `association` of each target); `jackknife`.

    Raises:
        InputError, NotApplicable: see `check`; or the widths of the vectors differ.
    """
    widths = {role: array.shape[-1] for role, array in vectors.items()}
    if len({*widths.values()}) > 1:
        raise InputError(f"vectors have several widths: {widths}. Use vectors of the same model.")
    pooled = {role: metrics.pool_vectors(array) for role, array in vectors.items()}
    selected = select_tests(cfg, tables)
    target_roles = {each.items[0].role for each in selected} - {PROMPTS}
    assigned = {role: assign_clusters(tables[role]) for role in target_roles}
    rows: list[dict[str, Any]] = []
    blocks: list[Block] = []
    associations: list[pd.DataFrame] = []
    notes: dict[str, None] = {}
    for each in selected:
        is_among_images = each.order == "image_image" and any(array.ndim == 3 for array in vectors.values())
        if is_among_images:
            notes["images × images: cosines of the mean vectors of images with several"] = None
        arrays = pooled if is_among_images or cfg.protocol.pooling == "mean" else vectors
        x, y = (_associate(arrays, targets, *each.items[2:]) for targets in each.items[:2])
        rows.append(_build_row(each, x, y, assigned, cfg.seed))
        blocks.append(_build_block(each, x, y, assigned))
        associations += [
            pd.DataFrame(
                {
                    "test": each.test.name,
                    "order": each.order,
                    "set": letter,
                    "id": items.ids,
                    "association": s,
                }
            )
            for letter, items, s in zip(LETTERS, each.items[:2], (x, y), strict=False)
        ]
        if rows[-1]["reason"]:
            notes[rows[-1]["reason"]] = None
    texts = dict.fromkeys(("test", "order", "set", "id"), "string")
    table = pd.concat(associations, ignore_index=True).astype(texts)
    further = {"associations": table, TABLE: build_jackknife_table(blocks)}
    return AnalysisTables(pd.DataFrame(rows, columns=[*COLUMNS]), further, [*notes])


def _associate(vectors: Vectors, targets: SetItems, a: SetItems, b: SetItems) -> np.ndarray:
    """Compute s of each target: its mean cosine with the items of A minus that with those of B.

    The cosine of two items is the mean over the sentences of both, if they are texts.
    """
    means = [_average(_compute_cosines(vectors, targets, items), items).mean(axis=1) for items in (a, b)]
    return np.asarray(_average((means[0] - means[1])[None], targets)[0])


def _compute_cosines(vectors: Vectors, targets: SetItems, items: SetItems) -> np.ndarray:
    arrays: list[Tensor] = [vectors[each.role][each.rows] for each in (targets, items)]
    return metrics.similarity(*arrays).numpy()


def _average(values: np.ndarray, items: SetItems) -> np.ndarray:
    """Average columns [N, rows] by item, in the order of `ids`."""
    ids, positions = np.unique(items.names, return_inverse=True)
    indicator = np.zeros((len(positions), len(ids)))
    indicator[np.arange(len(positions)), positions] = 1 / np.bincount(positions)[positions]
    return np.asarray(values @ indicator)


def _build_row(
    each: SelectedTest, x: np.ndarray, y: np.ndarray, assigned: Mapping[str, pd.DataFrame], seed: int
) -> dict[str, Any]:
    result = metrics.compare_associations(x, y, seed)
    clusters = pd.concat([sets.get_clusters(items, assigned) for items in each.items[:2]], ignore_index=True)
    low, high, df, reason = _compute_interval(np.concatenate([x, y]), len(x), clusters, result.d)
    names = zip(("set_x", "set_y", "set_a", "set_b"), each.test.names, strict=True)
    sizes = zip(("n_x", "n_y", "n_a", "n_b"), (len(items.ids) for items in each.items), strict=True)
    row = {"test": each.test.name, "order": each.order, **dict(names), **dict(sizes)}
    row |= {"d": result.d, "d_low": low, "d_high": high, "df": df}
    # A parent may be the first of one morph and the second of another.
    linked = merge_linked(clusters).to_frame() if set(PARENTS) <= {*clusters} else clusters
    if any(linked[way].duplicated().any() for way in linked):
        row["reason"] = "; ".join(filter(None, [NOT_EXCHANGEABLE, reason]))
        return row
    method = "exact" if result.is_exact else "monte_carlo"
    row |= {"p": result.p, "partitions": result.partitions, "p_method": method}
    return row | {"null_low": result.null_low, "null_high": result.null_high, "reason": reason}


def _build_block(
    each: SelectedTest, x: np.ndarray, y: np.ndarray, assigned: Mapping[str, pd.DataFrame]
) -> Block:
    """Build the jackknife block of a test's d."""
    targets = each.items[:2]
    units = pd.concat([sets.get_clusters(items, assigned) for items in targets], ignore_index=True)
    # An item of both X and Y is refused; the letter tells texts of both from each other.
    ids = [f"{letter} {name}" for letter, items in zip(LETTERS, targets, strict=False) for name in items.ids]
    s, is_x = np.concatenate([x, y]), np.arange(len(ids)) < len(x)

    def compute(masks: np.ndarray) -> np.ndarray:
        count, size = masks.sum(axis=1), (masks & is_x).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            per_correlation = np.sqrt(count * (count - 1) / (size * (count - size)))
            return np.asarray(metrics.point_biserial(s, is_x, masks) * per_correlation)[:, None]

    name = f"{each.test.name}, {each.order}"
    return Block(units.assign(id=ids), [("d", name, 0.0)], compute, [is_x, ~is_x])


def _compute_interval(
    s: np.ndarray, size: int, clusters: pd.DataFrame, d: float
) -> tuple[float, float, float, str]:
    """Compute the jackknife interval of d, degrees of freedom, and why there is no interval.

    The jackknife is of d as a correlation, after Fisher's transformation: d is bounded, and near its bounds
    intervals that are symmetric around it cover too seldom.
    """
    is_x, count = np.arange(len(s)) < size, len(s)
    subsamples = build_subsamples(clusters, [is_x, ~is_x])
    if subsamples.reason:
        return math.nan, math.nan, math.nan, f"no interval: {subsamples.reason}"
    replicates = replicate(
        subsamples, lambda masks: fisher_transform(metrics.point_biserial(s, is_x, masks))[:, None]
    )
    per_correlation = math.sqrt(count * (count - 1) / (size * (count - size)))
    low, high = compute_rho_interval(d / per_correlation, float(replicates.variance()[0]), subsamples.df)
    if not math.isfinite(low):
        return math.nan, math.nan, math.nan, "no interval: d is undefined without one of the clusters"
    return low * per_correlation, high * per_correlation, subsamples.df, ""


def summarise(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return, per value of the columns `by`, the mean |d| and numbers of tests, in order of appearance.

    Columns: `by`, `tests`, `mean_abs_d`, `intervals` (tests with an interval), `excluding_zero` (those whose
    interval excludes 0).
    """
    marked = rows.assign(
        abs_d=rows["d"].abs(),
        has_interval=rows["d_low"].notna(),
        excludes_zero=(rows["d_low"] > 0) | (rows["d_high"] < 0),
    )
    grouped = marked.groupby([*by], sort=False)
    return grouped.agg(
        tests=("d", "size"),
        mean_abs_d=("abs_d", "mean"),
        intervals=("has_interval", "sum"),
        excluding_zero=("excludes_zero", "sum"),
    ).reset_index()
