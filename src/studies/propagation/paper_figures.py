"""The paper's figures, drawn so that they can be laid beside its own (Ghate et al. 2025)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from src.report.drawing import PALETTE, Drawing, plain
from src.report.findings import Findings
from src.report.forest_plot import ROW, at_right, canvas, number_said
from src.studies.propagation.combined import shown

# Figures 2 to 5, a pair of experiments each.
PAIRS = (
    ("scenes_to_words", "words_to_scenes"),
    ("faces_to_labels", "labels_to_faces"),
    ("faces_to_words", "labels_to_scenes"),
    ("scenes_to_labels", "words_to_faces"),
)
VALENCE, BANDS = PAIRS[2], PAIRS[3]
HALF = 0.5
SC_EAT = "SC-EAT"
UPPER, LOWER = "≥ 0.5", "< 0.5"


def group_means(findings: Findings) -> pd.DataFrame:
    """Figure 6: how positively each group is seen.

    Returns:
        One row per group: its mean valence score in each of 1-a and 1-b that is there (mean over the models'
        group means), `mean` over these, and `z` over the groups with the population SD
        (docs/methods.md, section 2); empty where neither experiment is there.
    """
    rows = []
    for job in _jobs(findings, VALENCE):
        means = findings.read(job["config"], "targets").groupby("stratum", sort=False)["intrinsic"].mean()
        rows += [{"exp": job["exp"], "group": group, "value": value} for group, value in means.items()]
    if not rows:
        return pd.DataFrame(columns=["group", "mean", "z"])
    values = pd.DataFrame(rows).groupby(["group", "exp"], sort=False)["value"].mean().unstack("exp")
    # A group that only one of the experiments knows would be held against others on another scale.
    values = values.dropna()
    values["mean"] = values.mean(axis=1)
    spread = values["mean"].std(ddof=0)
    values["z"] = (values["mean"] - values["mean"].mean()) / (spread if spread > 0 else np.nan)
    return values.sort_values("z", ascending=False).rename_axis(columns=None).reset_index()


def group_means_figure(means: pd.DataFrame, score: str = SC_EAT) -> Drawing | None:
    """Figure 6; None where there is nothing to draw.

    Args:
        means: see `group_means`.
        score: name of the intrinsic score.
    """
    rows = means.dropna(subset=["z"])
    if rows.empty:
        return None
    there = [exp for exp in VALENCE if exp in means]
    title = f"Mean valence {score} per group, z over groups"
    figure, axes = canvas(
        2 * ROW * len(rows) + 0.1, title, [_dot(PALETTE[0], "o", f"mean of {' and '.join(there)}")]
    )
    limit = max(2.0, rows["z"].abs().max() * 1.1)
    for number, row in enumerate(rows.to_dict("records")):
        y = 2 * ROW * number + 0.1
        axes.text(-limit, y, plain(row["group"], 50), fontsize=8.5, va="center")
        axes.plot([0, row["z"]], [y + ROW] * 2, color=PALETTE[0], linewidth=2)
        axes.plot([row["z"]], [y + ROW], "o", color=PALETTE[0], markersize=6)
        at_right(axes, y + ROW, number_said(row["z"]))
    axes.axvline(0, color="#888888", linewidth=0.7)
    axes.set_xlim(-limit, limit)
    # Short labels: those at the ends stand half outside of the axis.
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_xlabel("z-score (not ρ: any value is possible)", fontsize=8.5)
    axes.tick_params(labelsize=8.5)
    caption = (
        "Group means of the intrinsic score, averaged over models and over the experiments named in it, then "
        "standardised over the groups with the population SD (the paper's figure 6). It says which group is "
        "placed nearer the pleasant items, not by how much."
    )
    if len(there) < 2:
        other = next(exp for exp in VALENCE if exp not in there)
        caption += f" Only {there[0]} is there: the paper averages it with {other}."
    said = ", ".join(f"{row['group']} {number_said(row['z'])}" for row in rows.to_dict("records"))
    return Drawing("figure-6", figure, title, f"Dot plot. {title}: {said}.", caption)


def valence_bands(findings: Findings) -> pd.DataFrame:
    """Figure 7: the association of each group with targets of high and of low valence.

    Returns:
        `exp, model, group, band` (>= 0.5 or < 0.5), `mean` intrinsic score with the group, and `n` targets.
    """
    rows = []
    for job in _jobs(findings, BANDS):
        found = findings.read(job["config"], "targets")
        if "valence" not in found:
            continue
        found = found.dropna(subset=["valence", "intrinsic"])
        band = np.where(found["valence"] >= HALF, UPPER, LOWER)
        grouped = found.groupby(["stratum", band], sort=False)["intrinsic"]
        part = grouped.agg(mean="mean", n="count").rename_axis(["group", "band"]).reset_index()
        rows.append(part.assign(exp=job["exp"], model=job["model"]))
    columns = ["exp", "model", "group", "band", "mean", "n"]
    return pd.concat(rows, ignore_index=True)[columns] if rows else pd.DataFrame(columns=columns)


def valence_bands_figure(bands: pd.DataFrame, exp: str, score: str = SC_EAT) -> Drawing | None:
    """Figure 7 of one experiment; None where it is not there.

    Args:
        bands: see `valence_bands`.
        exp: 2-a or 2-b.
        score: name of the intrinsic score.
    """
    own = bands[bands["exp"] == exp]
    if own.empty:
        return None
    looks = {UPPER: (PALETTE[0], "o"), LOWER: (PALETTE[1], "s")}
    counts = own.groupby("band")["n"].agg(["min", "max"])
    there = [band for band in looks if band in counts.index]
    labels = {band: f"valence {band}, n = {_range(*counts.loc[band])}" for band in there}
    title = f"{exp}: group {score} by valence"
    groups = [*dict.fromkeys(own["group"])]
    key = [_dot(*looks[band], label) for band, label in labels.items()]
    figure, axes = canvas(3 * ROW * len(groups) + 0.1, title, key)
    limit = max(0.5, own["mean"].abs().max() * 1.1)
    said = []
    for number, group in enumerate(groups):
        top = 3 * ROW * number + 0.12
        axes.text(-limit, top, plain(group, 50), fontsize=8.5, va="center")
        for line, band in enumerate(labels, 1):
            values = own.loc[(own["group"] == group) & (own["band"] == band), "mean"]
            if values.empty:
                continue
            y, (colour, marker) = top + line * ROW * 0.9, looks[band]
            axes.plot(values, [y] * len(values), "|", color=colour, markersize=7, alpha=0.7)
            axes.plot([values.mean()], [y], marker, color=colour, markersize=6)
            at_right(axes, y, number_said(values.mean()))
            said.append(f"{group}, valence {band}: {number_said(values.mean())}")
    axes.axvline(0, color="#888888", linewidth=0.7)
    axes.set_xlim(-limit, limit)
    axes.xaxis.set_major_locator(MaxNLocator(4, prune="both"))
    axes.set_xlabel("SC-EAT effect size (−2 to 2)" if score == SC_EAT else score, fontsize=8.5)
    axes.tick_params(labelsize=8.5)
    caption = (
        "Mean association with the group over the targets of high and of low valence, as it is (the paper's "
        "figure 7). Strokes are the models, the point their mean; n counts a model's targets."
    )
    return Drawing(f"figure-7-{exp}", figure, title, f"Dot plot. {title}. {'; '.join(said)}.", caption)


def _jobs(findings: Findings, experiments: tuple[str, ...]) -> list[dict[str, str]]:
    jobs = shown(findings).drop_duplicates("config")
    chosen = jobs[jobs["exp"].isin(experiments)]
    there = chosen["config"].map(lambda config: findings.has(config, "targets")).astype(bool)
    return [{str(name): value for name, value in row.items()} for row in chosen[there].to_dict("records")]


def _range(low: int, high: int) -> str:
    return f"{low}" if low == high else f"{low} to {high}"


def _dot(colour: str, marker: str, label: str) -> Line2D:
    return Line2D([], [], linestyle="", marker=marker, color=colour, markersize=6, label=label)
