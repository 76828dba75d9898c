"""The paper's figures, drawn so that they can be laid beside its own (Ghate et al. 2025)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from src.report.drawing import PALETTE, Drawing
from src.report.findings import Findings
from src.report.forest_plot import forest_plot, in_digits, in_order, in_words
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
    rows = rows.assign(
        name=rows["group"],
        series=f"mean of {' and '.join(there)}",
        value=rows["z"],
        text=rows["z"].map(in_digits),
    )
    figure, _, placed = forest_plot(
        rows.assign(words=rows["group"] + " " + rows["text"]),
        title=title,
        label="z-score (not ρ: any value is possible)",
        bars=True,
    )
    caption = (
        "Group means of the intrinsic score, averaged over models and over the experiments named in it, then "
        "standardised over the groups with the population SD (the paper's figure 6). It says which group is "
        "placed nearer the pleasant items, not by how much."
    )
    if len(there) < 2:
        other = next(exp for exp in VALENCE if exp not in there)
        caption += f" Only {there[0]} is there: the paper averages it with {other}."
    return Drawing("figure-6", figure, title, f"Dot plot. {title}: {in_words(placed)}.", caption)


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
    counts = own.groupby("band")["n"].agg(["min", "max"])
    labels = {
        band: f"valence {band}, n = {_range(*counts.loc[band])}"
        for band in (UPPER, LOWER)
        if band in counts.index
    }
    title = f"{exp}: group {score} by valence"
    means = own.groupby(["group", "band"], sort=False)["mean"].mean().rename("value").reset_index()
    rows = in_order(means, group=[*dict.fromkeys(own["group"])], band=[*labels])
    rows = rows.assign(
        block=rows["group"], series=rows["band"].map(labels), text=rows["value"].map(in_digits)
    )
    figure, axes, placed = forest_plot(
        rows.assign(words="valence " + rows["band"] + " " + rows["text"]),
        title=title,
        label="SC-EAT effect size (−2 to 2)" if score == SC_EAT else score,
        series=[*labels.values()],
    )
    points = own.merge(placed[["group", "band", "number", "y"]])
    for color, strokes in points.groupby(points["number"].map(PALETTE.__getitem__)):
        axes.plot(strokes["mean"], strokes["y"], "|", color=str(color), markersize=7, alpha=0.7)
    caption = (
        "Mean association with the group over the targets of high and of low valence, as it is (the paper's "
        "figure 7). Strokes are the models, the point their mean; n counts a model's targets."
    )
    return Drawing(f"figure-7-{exp}", figure, title, f"Dot plot. {title}. {in_words(placed)}.", caption)


def _jobs(findings: Findings, experiments: tuple[str, ...]) -> list[dict[str, str]]:
    jobs = shown(findings).drop_duplicates("config")
    chosen = jobs[jobs["exp"].isin(experiments)]
    there = chosen["config"].map(lambda config: findings.has(config, "targets")).astype(bool)
    return [{str(name): value for name, value in row.items()} for row in chosen[there].to_dict("records")]


def _range(low: int, high: int) -> str:
    return f"{low}" if low == high else f"{low} to {high}"
