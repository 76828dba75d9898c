"""Plot figures 6 and 7 of the paper, for comparison with the originals (Ghate et al. 2025)."""

import numpy as np
import pandas as pd

from src.report.drawing import PALETTE, Drawing
from src.report.findings import Findings
from src.report.forest_plot import describe_rows, forest_plot, in_digits, in_order
from src.report.format import records
from src.studies.propagation.combined import main_analyses

# Pairs of experiments in the paper's figures 2 to 5, which `section.py` plots.
PAIRS = (
    ("scenes_to_words", "words_to_scenes"),
    ("faces_to_labels", "labels_to_faces"),
    ("faces_to_words", "labels_to_scenes"),
    ("scenes_to_labels", "words_to_faces"),
)
GROUP_VALENCE, GROUP_SIMILARITY = PAIRS[2], PAIRS[3]  # the paper's 1-a and 1-b, 2-a and 2-b
HALF = 0.5  # valence at which figure 7 divides the targets
SC_EAT = "SC-EAT"
UPPER, LOWER = "≥ 0.5", "< 0.5"


def group_means(findings: Findings) -> pd.DataFrame:
    """Compute the mean valence score of each group, figure 6 (docs/methods.md, section 2).

    A row per group has a column per available experiment of `GROUP_VALENCE` (the paper's 1-a and 1-b) with
    the group's mean over models, the `mean` over these columns, and `z` over the groups (population SD).
    """
    rows = []
    for job in _jobs(findings, GROUP_VALENCE):
        means = findings.read(job["config"], "targets").groupby("stratum", sort=False)["intrinsic"].mean()
        rows += [{"exp": job["exp"], "group": group, "value": value} for group, value in means.items()]
    if not rows:
        return pd.DataFrame(columns=["group", "mean", "z"])
    values = pd.DataFrame(rows).groupby(["group", "exp"], sort=False)["value"].mean().unstack("exp")
    # A mean over one experiment is not on the same scale as a mean over both.
    values = values.dropna()
    values["mean"] = values.mean(axis=1)
    spread = values["mean"].std(ddof=0)
    values["z"] = (values["mean"] - values["mean"].mean()) / (spread if spread > 0 else np.nan)
    return values.sort_values("z", ascending=False).rename_axis(columns=None).reset_index()


def group_means_figure(means: pd.DataFrame, score: str = SC_EAT) -> Drawing | None:
    """Plot `group_means` of an intrinsic score as figure 6; None without data."""
    rows = means.dropna(subset=["z"])
    if rows.empty:
        return None
    available = [exp for exp in GROUP_VALENCE if exp in means]
    title = f"Mean valence {score} per group, z over groups"
    series, texts = f"mean of {' and '.join(available)}", rows["z"].map(in_digits)
    rows = rows.assign(name=rows["group"], series=series, value=rows["z"], text=texts)
    rows["words"] = rows["group"] + " " + texts
    axis = "z-score (not ρ: any value is possible)"
    figure, _, rows = forest_plot(rows, title=title, label=axis, bars=True)
    caption = (
        "Group means of the intrinsic score, averaged over models and over the named experiments, then "
        "standardised over the groups with the population SD (the paper's figure 6): which groups are nearer "
        "to the pleasant items, not by how much."
    )
    if len(available) < 2:
        other = next(exp for exp in GROUP_VALENCE if exp not in available)
        caption += f" Only {available[0]} is available: the paper averages it with {other}."
    return Drawing("figure-6", figure, title, f"Bar chart. {title}: {describe_rows(rows)}.", caption)


def valence_bands(findings: Findings) -> pd.DataFrame:
    """Compute the association of each group with targets of high and of low valence, figure 7.

    Columns: `exp, model, group, band` (`UPPER`, `LOWER`), `mean` association with the group, `n` targets.
    """
    rows = []
    for job in _jobs(findings, GROUP_SIMILARITY):
        targets = findings.read(job["config"], "targets")
        if "valence" not in targets:
            continue
        targets = targets.dropna(subset=["valence", "intrinsic"])
        band = np.where(targets["valence"] >= HALF, UPPER, LOWER)
        grouped = targets.groupby(["stratum", band], sort=False)["intrinsic"]
        means = grouped.agg(mean="mean", n="count").rename_axis(["group", "band"]).reset_index()
        rows.append(means.assign(exp=job["exp"], model=job["model"]))
    columns = ["exp", "model", "group", "band", "mean", "n"]
    return pd.concat(rows, ignore_index=True)[columns] if rows else pd.DataFrame(columns=columns)


def valence_bands_figure(bands: pd.DataFrame, exp: str, score: str = SC_EAT) -> Drawing | None:
    """Plot `valence_bands` in `exp`, one of `GROUP_SIMILARITY`, as figure 7; None without data."""
    exp_bands = bands[bands["exp"] == exp]
    if exp_bands.empty:
        return None
    counts = exp_bands.groupby("band")["n"].agg(["min", "max"])
    labels = {}
    for band in (UPPER, LOWER):
        if band in counts.index:
            low, high = counts.loc[band]
            n = f"{low}" if low == high else f"{low} to {high}"
            labels[band] = f"valence {band}, n = {n}"
    title = f"{exp}: group {score} by valence"
    means = exp_bands.groupby(["group", "band"], sort=False)["mean"].mean().rename("value").reset_index()
    rows = in_order(means, group=[*dict.fromkeys(exp_bands["group"])], band=[*labels])
    texts = rows["value"].map(in_digits)
    rows = rows.assign(block=rows["group"], series=rows["band"].map(labels), text=texts)
    rows["words"] = "valence " + rows["band"] + " " + texts
    axis = "SC-EAT effect size (−2 to 2)" if score == SC_EAT else score
    figure, axes, rows = forest_plot(rows, title=title, label=axis, series=[*labels.values()])
    points = exp_bands.merge(rows[["group", "band", "number", "y"]])
    for color, strokes in points.groupby(points["number"].map(PALETTE.__getitem__)):
        axes.plot(strokes["mean"], strokes["y"], "|", color=str(color), markersize=7, alpha=0.7)
    caption = (
        "Mean association with the group over the targets of high and of low valence (the paper's figure 7). "
        "Strokes are the models, the point is their mean; n is the number of a model's targets."
    )
    return Drawing(f"figure-7-{exp}", figure, title, f"Dot plot. {title}. {describe_rows(rows)}.", caption)


def _jobs(findings: Findings, experiments: tuple[str, ...]) -> list[dict[str, str]]:
    jobs = main_analyses(findings).drop_duplicates("config")
    rows = records(jobs[jobs["exp"].isin(experiments)])
    return [row for row in rows if findings.has(row["config"], "targets")]
