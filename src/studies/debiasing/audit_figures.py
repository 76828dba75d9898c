"""Draw what debiasing changes in audits of implicit bias (Capitani et al. 2024, figures 5 and 6b)."""

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from src.metrics import cles, interval
from src.report.drawing import Drawing, style_of
from src.report.findings import Findings
from src.report.forest_plot import (
    build_legend_handles,
    describe_rows,
    draw_forest_plot,
    format_digits,
    make_figure,
)
from src.stimuli.clusters import merge_linked
from src.studies.debiasing.changes import CLES_GAP
from src.studies.shared.cluster_jackknife import list_cluster_columns
from src.studies.shared.draws import UNTREATED

SPLIT_SEED = 0  # random seed of the half of the faces on which the baseline is measured
SPLIT_HEIGHT = 3.2  # height of the figure of changes, inches
MAX_MODELS = 12  # maximum number of models in the figure of summed gaps
JOB_COLUMNS = ["model", "debias", "exp", "config_before", "config_after"]


def measure_split_changes(findings: Findings, changes: pd.DataFrame) -> pd.DataFrame:
    """Measure |CLES - 1/2| without debiasing on half of the faces, and its change on the other half.

    If both were measured on the same faces, chance alone would make high baselines fall and low ones rise.

    Args:
        findings: the sweep.
        changes: rows of `compute_changes` of one specification.

    Returns:
        One row per audit, model and method: `model, debias, exp`; `baseline` (without debiasing) and
        `change`, means over pairs of groups and sets of words; `n_faces`, the number of faces in the first
        half of the smallest group. Faces of a person, of a set or of linked morphs are in the same half.
        Audits are left out if their jobs differ in their faces, a job lacks similarities, or a half lacks a
        group.
    """
    rows = []
    for keys, _ in _select_audit_changes(changes).groupby(JOB_COLUMNS, sort=False):
        model, method, exp, *configs = map(str, keys)
        if not all(findings.has(config, "similarities") for config in configs):
            continue
        before, after = (findings.read(config, "similarities").dropna(subset=["set"]) for config in configs)
        faces = _name_clusters(before[["group", "id"]].drop_duplicates(), findings, configs[0])
        first_half = _draw_half(faces)
        if {*faces["id"]} != {*after["id"]} or not first_half:
            continue
        baseline = _compute_mean_gap(before[before["id"].isin(first_half)])
        rest_before = _compute_mean_gap(before[~before["id"].isin(first_half)])
        rest_after = _compute_mean_gap(after[~after["id"].isin(first_half)])
        row = {"model": model, "debias": method, "exp": exp, "baseline": baseline}
        row["n_faces"] = int(faces["group"][faces["id"].isin(first_half)].value_counts().min())
        rows.append(row | {"change": rest_after - rest_before})
    return pd.DataFrame(rows, columns=["model", "debias", "exp", "baseline", "change", "n_faces"])


def _select_audit_changes(changes: pd.DataFrame) -> pd.DataFrame:
    return changes[(changes["measure"] == CLES_GAP) & ~changes["lacks_results"]]


def _name_clusters(faces: pd.DataFrame, findings: Findings, config: str) -> pd.DataFrame:
    """Add the faces' `cluster`; without clusters, as in results of older versions, each face is its own."""
    attributes = findings.read(config, "attributes") if findings.has(config, "attributes") else pd.DataFrame()
    columns = list_cluster_columns(attributes)
    if not columns:
        return faces.assign(cluster=faces["id"])
    joined = faces.merge(attributes[["group", "id", *columns]], on=["group", "id"], how="left")
    return joined.assign(cluster=merge_linked(joined[columns]))


def _draw_half(faces: pd.DataFrame) -> set[str]:
    """Draw the ids of half of the clusters of each group, or of all groups if they share clusters.

    Args:
        faces: `group`, `id` and `cluster` of each face.

    Returns:
        The ids; an empty set if a half lacks a group.
    """
    ordered = faces.sort_values("id")
    by_group = ordered.drop_duplicates(["group", "cluster"])
    is_shared = by_group["cluster"].duplicated().any()
    pools = (
        [by_group.drop_duplicates("cluster")]
        if is_shared
        else [rows for _, rows in by_group.groupby("group")]
    )
    half = pd.concat([pool["cluster"].sample(len(pool) // 2, random_state=SPLIT_SEED) for pool in pools])
    is_first = ordered["cluster"].isin(half)
    if any(set(ordered["group"][side]) != set(ordered["group"]) for side in (is_first, ~is_first)):
        return set()
    return {*ordered["id"][is_first]}


def _compute_mean_gap(similarities: pd.DataFrame) -> float:
    """Compute the mean of |CLES - 1/2| over sets of words and pairs of groups; ties count as 1/2."""
    gaps = []
    for _, set_rows in similarities.groupby("set", sort=False):
        cosines = set_rows.pivot(index=["group", "id"], columns="word", values="cosine")
        groups = [rows.to_numpy() for _, rows in cosines.groupby(level="group")]
        gaps += [abs(cles(a, b) - 0.5) for a, b in combinations(groups, 2)]
    return float(np.mean(gaps))


def draw_split_changes(rows: pd.DataFrame) -> Drawing | None:
    """Plot the rows of `measure_split_changes` as figure 5 of the paper; return None without rows."""
    if rows.empty:
        return None
    methods = [str(name) for name in dict.fromkeys(rows["debias"])]
    title = "Change of |CLES − ½| against its baseline"
    figure, axes = make_figure(SPLIT_HEIGHT, title, build_legend_handles(methods))
    marker_options: dict[str, Any] = {"markeredgecolor": "#333333", "markeredgewidth": 0.4}
    marker_options |= {"linestyle": "", "markersize": 5}
    texts = []
    for index, method in enumerate(methods):
        points = rows[rows["debias"] == method]
        axes.plot(points["baseline"], points["change"], **style_of(index), **marker_options)
        fell = int((points["change"] < 0).sum())
        texts.append(
            f"{method}: {fell} of {len(points)} below 0, mean {format_digits(points['change'].mean(), 3)}"
        )
    limit = 1.08 * rows["baseline"].max()
    axes.axhline(0, color="#888888", linewidth=0.7, zorder=0.9)
    axes.plot([0, limit], [0, -limit], "--", color="#888888", linewidth=0.7, zorder=0.9)
    axes.set(xlim=(0, limit), xlabel="baseline (without debiasing), one half of the faces")
    axes.set(ylabel="change, the other half")
    axes.locator_params(nbins=6)
    axes.spines["left"].set_visible(True)
    axes.grid(alpha=0.25)
    caption = (
        "Each point is an audit of a model, averaged over pairs of groups (the paper's figure 5). The "
        "baseline, without debiasing, is measured on half of the faces (at least "
        f"{rows['n_faces'].min()} per group), the change on the other half: on the same faces, high "
        "baselines would fall by chance alone. Below 0, the gap is smaller with debiasing; on the dashed "
        "line, debiasing removes the whole gap."
    )
    alt_text = f"Scatter plot. {title}, on separate halves of the faces. {'; '.join(texts)}."
    return Drawing("audits-split", figure, title, alt_text, caption)


def sum_gaps(findings: Findings, changes: pd.DataFrame) -> pd.DataFrame:
    """Sum the gaps over audits and pairs of groups, without and with debiasing.

    The gap of an audit and pair is a mean over sets of words. Only audits that all methods of a model share
    are summed; a model without any has no rows.

    Returns:
        One row per model and method, starting with no debiasing: `model, debias, n_audits`; the sums of Δ_gap
        (`delta_gap`) and of |CLES - 1/2| (`cles_gap`) and the latter's bootstrap interval over faces
        (`cles_low, cles_high`; NaN without a bootstrap).
    """
    columns = ["config", "group_a", "group_b", "delta_gap"]
    pair_gaps = findings.of("implicit").reindex(columns=columns).groupby(columns[:3])["delta_gap"].mean()
    delta_gaps = pair_gaps.groupby("config").sum(min_count=1)
    rows = []
    for model, model_changes in _select_audit_changes(changes).groupby("model", sort=False):
        common_audits = set.intersection(*({*table["exp"]} for _, table in model_changes.groupby("debias")))
        common_changes = model_changes[model_changes["exp"].isin(common_audits)]
        if common_changes.empty:
            continue
        methods = common_changes["debias"]
        for method in [UNTREATED, *methods.unique()]:
            # The numbers without debiasing are `before` of any method.
            method_changes = common_changes[methods == (methods.iloc[0] if method == UNTREATED else method)]
            column, config = ("before", "config_before") if method == UNTREATED else ("after", "config_after")
            # An audit has a row per set of words, and a row averages `over` pairs of groups.
            audits = [audit for _, audit in method_changes.groupby("exp", sort=False)]
            sums = [audit[column].mean() * audit["over"].iloc[0] for audit in audits]
            low, high = interval(_sum_draws(audits, column))
            row = {"model": model, "debias": method, "n_audits": len(audits), "cles_gap": sum(sums)}
            row |= {"delta_gap": delta_gaps.reindex(method_changes[config].unique()).sum(skipna=False)}
            rows.append(row | {"cles_low": low, "cles_high": high})
    columns = ["model", "debias", "n_audits", "delta_gap", "cles_gap", "cles_low", "cles_high"]
    return pd.DataFrame(rows, columns=columns)


def _sum_draws(audits: list[pd.DataFrame], column: str) -> np.ndarray:
    """Sum the bootstrap draws of audits, which resample the same faces, [R]; empty if lengths differ."""
    index = ("before", "after").index(column)
    all_draws = [draws[index] for audit in audits for draws in audit["draws"]]
    if len({len(draws) for draws in all_draws}) != 1:
        return np.empty(0)
    # As in `sum_gaps`, an audit's sum is the mean of its rows times its number of pairs of groups. The
    # weighted mean of all rows, times the sum of their weights, is the sum over all audits.
    weights = [audit["over"].iloc[0] / len(audit) for audit in audits for _ in range(len(audit))]
    summed: np.ndarray = np.average(all_draws, axis=0, weights=weights) * sum(weights)
    return summed


def draw_summed_gaps(rows: pd.DataFrame) -> Drawing | None:
    """Plot Δ_gap of the rows of `sum_gaps` as figure 6b of the paper; return None without rows."""
    rows = rows.dropna(subset=["delta_gap"])
    models = [*dict.fromkeys(rows["model"])]
    drawn = rows[rows["model"].isin(models[:MAX_MODELS])]
    if drawn.empty:
        return None
    title = "Δ_gap, summed over audits and pairs"
    texts = drawn["delta_gap"].map(lambda value: format_digits(value, 3))
    values = drawn.assign(block=drawn["model"], series=drawn["debias"], value=drawn["delta_gap"], text=texts)
    values = values.assign(alt_text=values["series"] + " " + texts)
    # Methods have the same colours as in the figure of changes.
    series = [*dict.fromkeys(values.loc[values["series"] != UNTREATED, "series"]), UNTREATED]
    label = "sum of Δ_gap, in units of cosine"
    figure, _, placed = draw_forest_plot(values, title=title, label=label, series=series, bars=True)
    caption = (
        "The gap between the mean cosines of two groups, summed over audits and pairs of groups (the paper's "
        "figure 6b; the paper does not say exactly what it sums). It is in units of cosine, which a "
        "projection stretches or shrinks; the sum of |CLES − ½| in the table does not depend on them."
    )
    if len(models) > MAX_MODELS:
        caption += f" The first {MAX_MODELS} of {len(models)} models."
    return Drawing("audits-summed", figure, title, f"Bar chart. {title}. {describe_rows(placed)}.", caption)
