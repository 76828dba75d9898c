"""Plot figures 6 and 7 of Ghate et al. 2025 from the results of a sweep."""

import numpy as np
import pandas as pd

from src.report.drawing import PALETTE, Drawing
from src.report.findings import Findings
from src.report.forest_plot import describe_rows, draw_forest_plot, format_digits, sort_by
from src.report.format import to_records
from src.studies.propagation.combined import select_main_analyses

# Pairs of experiments in the paper's figures 2 to 5, plotted in `section.py`.
PAIRS = (
    ("scenes_to_words", "words_to_scenes"),
    ("faces_to_labels", "labels_to_faces"),
    ("faces_to_words", "labels_to_scenes"),
    ("scenes_to_labels", "words_to_faces"),
)
FIGURE_6_EXPERIMENTS = PAIRS[2]  # the paper's experiments 1-a and 1-b
FIGURE_7_EXPERIMENTS = PAIRS[3]  # the paper's experiments 2-a and 2-b
VALENCE_THRESHOLD = 0.5  # valence that divides the targets of figure 7 into two bands
UPPER, LOWER = "≥ 0.5", "< 0.5"  # names of the bands
SC_EAT = "SC-EAT"  # name of the paper's intrinsic score


def compute_group_means(findings: Findings) -> pd.DataFrame:
    """Compute the mean valence score of each group for figure 6 (docs/methods.md, section 2).

    Columns: `group`; for each available experiment of `FIGURE_6_EXPERIMENTS`, the group's mean over models;
    `mean` over these experiments; `z`, the mean standardised over the groups (population SD).
    """
    rows = []
    for job in _list_jobs(findings, FIGURE_6_EXPERIMENTS):
        means = findings.read(job["config"], "targets").groupby("stratum", sort=False)["intrinsic"].mean()
        rows += [{"exp": job["exp"], "group": group, "value": value} for group, value in means.items()]
    if not rows:
        return pd.DataFrame(columns=["group", "mean", "z"])
    values = pd.DataFrame(rows).groupby(["group", "exp"], sort=False)["value"].mean().unstack("exp")
    # Drop groups that lack an experiment: their means would be on another scale.
    values = values.dropna()
    values["mean"] = values.mean(axis=1)
    values["z"] = _standardise(values["mean"])
    return values.sort_values("z", ascending=False).rename_axis(columns=None).reset_index()


def _standardise(values: pd.Series) -> pd.Series:
    """Standardise values with their population SD; NaN if all are equal."""
    spread = values.std(ddof=0)
    return (values - values.mean()) / (spread if spread > 0 else np.nan)


def plot_group_means(means: pd.DataFrame, score: str = SC_EAT) -> Drawing | None:
    """Plot the result of `compute_group_means` as figure 6; None without defined z-scores."""
    rows = means.dropna(subset=["z"])
    if rows.empty:
        return None
    available = [exp for exp in FIGURE_6_EXPERIMENTS if exp in means]
    title = f"Mean valence {score} per group, z over groups"
    series, texts = f"mean of {' and '.join(available)}", rows["z"].map(format_digits)
    rows = rows.assign(name=rows["group"], series=series, value=rows["z"], text=texts)
    rows["alt_text"] = rows["group"] + " " + texts
    axis = "z-score (not ρ: any value is possible)"
    figure, _, rows = draw_forest_plot(rows, title=title, label=axis, bars=True)
    caption = (
        "Group means of the intrinsic score, averaged over models and over the named experiments, then "
        "standardised over the groups with the population SD (the paper's figure 6). A z-score says which "
        "groups are nearer to the pleasant items, but not by how much."
    )
    if len(available) < 2:
        other = next(exp for exp in FIGURE_6_EXPERIMENTS if exp not in available)
        caption += f" Only {available[0]} is available: the paper averages it with {other}."
    return Drawing("figure-6", figure, title, f"Bar chart. {title}: {describe_rows(rows)}.", caption)


def compute_bands(findings: Findings) -> pd.DataFrame:
    """Compute the association of each group with targets of high and of low valence for figure 7.

    Columns: `exp, model, group, band` (`UPPER`, `LOWER`), `mean` association with the group, `n` (number
    of targets).
    """
    rows = []
    for job in _list_jobs(findings, FIGURE_7_EXPERIMENTS):
        targets = findings.read(job["config"], "targets")
        if "valence" not in targets:
            continue
        targets = targets.dropna(subset=["valence", "intrinsic"])
        band = np.where(targets["valence"] >= VALENCE_THRESHOLD, UPPER, LOWER)
        grouped = targets.groupby(["stratum", band], sort=False)["intrinsic"]
        means = grouped.agg(mean="mean", n="count").rename_axis(["group", "band"]).reset_index()
        rows.append(means.assign(exp=job["exp"], model=job["model"]))
    columns = ["exp", "model", "group", "band", "mean", "n"]
    return pd.concat(rows, ignore_index=True)[columns] if rows else pd.DataFrame(columns=columns)


def average_bands(bands: pd.DataFrame) -> pd.DataFrame:
    """Average the result of `compute_bands` over models, and standardise the means over groups.

    Columns: `exp, group, band`, `mean` over models, `z` within experiment and band (population SD).
    """
    means = bands.groupby(["exp", "group", "band"], sort=False)["mean"].mean().reset_index()
    return means.assign(z=means.groupby(["exp", "band"])["mean"].transform(_standardise))


def plot_bands(bands: pd.DataFrame, exp: str, score: str = SC_EAT) -> Drawing | None:
    """Plot the raw means of `compute_bands` in an experiment of `FIGURE_7_EXPERIMENTS`; None without data."""
    exp_bands = bands[bands["exp"] == exp]
    if exp_bands.empty:
        return None
    title = f"{exp}: {score} by valence"
    rows, series = _arrange_by_band(exp_bands, average_bands(exp_bands).rename(columns={"mean": "value"}))
    axis = "SC-EAT effect size (−2 to 2)" if score == SC_EAT else score
    figure, axes, rows = draw_forest_plot(rows, title=title, label=axis, series=series)
    strokes = exp_bands.merge(rows[["group", "band", "series_index", "y"]])
    for color, band_strokes in strokes.groupby(strokes["series_index"].map(PALETTE.__getitem__)):
        axes.plot(band_strokes["mean"], band_strokes["y"], "|", color=str(color), markersize=7, alpha=0.7)
    caption = (
        "Mean association with the group over the targets of high and of low valence, not standardised. "
        "Each stroke is a model, and the point is the mean over models; n is the number of targets per model."
    )
    return Drawing(f"figure-7-{exp}", figure, title, f"Dot plot. {title}. {describe_rows(rows)}.", caption)


def plot_normalised_bands(bands: pd.DataFrame, exp: str, score: str = SC_EAT) -> Drawing | None:
    """Plot the z-scores of `average_bands` in an experiment as figure 7; None without defined z-scores."""
    exp_bands = bands[bands["exp"] == exp]
    means = average_bands(exp_bands).dropna(subset=["z"])
    if means.empty:
        return None
    title = f"{exp}: z of {score} by valence"
    rows, series = _arrange_by_band(exp_bands, means.rename(columns={"z": "value"}))
    axis = "z-score (not ρ: any value is possible)"
    figure, _, rows = draw_forest_plot(rows, title=title, label=axis, series=series, bars=True)
    caption = (
        "The association with each group over targets of high and of low valence, averaged over models and "
        "standardised over the groups within a band with the population SD (the paper's figure 7). A z-score "
        "says which groups are nearer to the targets of a band; the figure of unstandardised means shows by "
        "how much."
    )
    name = f"figure-7-{exp}-normalised"
    return Drawing(name, figure, title, f"Bar chart. {title}. {describe_rows(rows)}.", caption)


def _arrange_by_band(bands: pd.DataFrame, values: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Build rows of a forest plot from `value` per group and band; return them and the series' names.

    `bands` is the result of `compute_bands`, for the order of groups and the numbers of targets.
    """
    counts = bands.groupby("band")["n"].agg(["min", "max"])
    labels = {}
    for band in (UPPER, LOWER):
        if band in counts.index:
            low, high = counts.loc[band]
            n = f"{low}" if low == high else f"{low} to {high}"
            labels[band] = f"valence {band}, n = {n}"
    rows = sort_by(values, group=[*dict.fromkeys(bands["group"])], band=[*labels])
    texts = rows["value"].map(format_digits)
    rows = rows.assign(block=rows["group"], series=rows["band"].map(labels), text=texts)
    return rows.assign(alt_text="valence " + rows["band"] + " " + texts), [*labels.values()]


def _list_jobs(findings: Findings, experiments: tuple[str, ...]) -> list[dict[str, str]]:
    """Return one record per job that has a table of targets, for the jobs of these experiments."""
    jobs = select_main_analyses(findings).drop_duplicates("config")
    rows = to_records(jobs[jobs["exp"].isin(experiments)])
    return [row for row in rows if findings.has(row["config"], "targets")]
