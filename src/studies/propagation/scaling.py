"""Correlate rho with size and accuracy of models."""

import numpy as np
import pandas as pd
from matplotlib.ticker import LogLocator, NullLocator

from src.metrics import interval, spearman_columns
from src.report.drawing import Drawing, shorten, style_of
from src.report.findings import Findings
from src.report.forest_plot import legend_handles, make_figure
from src.studies.propagation.combined import main_analyses
from src.studies.propagation.figures import LIMITS

QUANTITIES = {  # column of `Findings.models` -> label of its axis
    "parameters_millions": "parameters (millions, log axis)",
    "gflops_image": "GFLOPs per image (log axis)",
    "zero_shot": "zero-shot accuracy on ImageNet",
}
LOGARITHMIC = ("parameters_millions", "gflops_image")
# Minimum number of models for a correlation; draws of the bootstrap over models, and their seed.
MIN_MODELS, DRAWS, SEED = 8, 2000, 0
COLUMNS = ["quantity", "exp", "models", "rho", "ci_low", "ci_high"]


def points(findings: Findings) -> pd.DataFrame:
    """Join mean rho per experiment and model (`exp, model, rho`) with `QUANTITIES` of the model."""
    analyses = main_analyses(findings)
    if analyses.empty or findings.models.empty:
        return pd.DataFrame(columns=["exp", "model", "rho", *QUANTITIES])
    means = analyses.groupby(["exp", "model"], sort=False)["rho"].mean().reset_index()
    return means.merge(findings.models[["model", *QUANTITIES]], on="model", how="left")


def known_quantities(means: pd.DataFrame) -> list[str]:
    """Return the quantities with values for at least two models."""
    return [name for name in QUANTITIES if means.dropna(subset=[name, "rho"])["model"].nunique() > 1]


def correlations(means: pd.DataFrame) -> pd.DataFrame:
    """Correlate (Spearman) each quantity of `points` with the mean rho of each experiment, across its models.

    Experiments with fewer than `MIN_MODELS` models are left out. The column `rho` is this correlation, and
    intervals are percentiles of a bootstrap over models.
    """
    rows = []
    for quantity in known_quantities(means):
        for exp, exp_rows in means.dropna(subset=[quantity, "rho"]).groupby("exp", sort=False):
            if len(exp_rows) >= MIN_MODELS:
                x, y = exp_rows[quantity].to_numpy(dtype=float), exp_rows["rho"].to_numpy(dtype=float)
                samples = np.random.default_rng(SEED).integers(len(x), size=(DRAWS, len(x)))
                bounds = interval(spearman_columns(x[samples].T, y[samples].T))
                rho = spearman_columns(x[:, None], y[:, None]).item()
                rows.append((quantity, exp, len(exp_rows), rho, *bounds))
    return pd.DataFrame(rows, columns=COLUMNS)


def figure(means: pd.DataFrame, quantity: str) -> Drawing:
    """Plot mean rho of each experiment (`points`) against a quantity of the models."""
    rows = means.dropna(subset=[quantity, "rho"])
    experiments = [*dict.fromkeys(means["exp"])]
    title = f"ρ against {QUANTITIES[quantity].split(' (')[0]}"
    plot, axes = make_figure(3.2, title, legend_handles(experiments))
    logarithmic = quantity in LOGARITHMIC
    # Steps on the scale of the axis place the points of a model side by side.
    scale, unscale = (np.log, np.exp) if logarithmic else (np.asarray, np.asarray)
    ends = scale(np.array([rows[quantity].min(), rows[quantity].max()], dtype=float))
    margin = max(0.12 * (ends[1] - ends[0]), 0.5 if logarithmic else 0.01)
    step = 0.012 * (ends[1] - ends[0] + 2 * margin)
    for number, exp in enumerate(experiments):
        exp_rows = rows[rows["exp"] == exp]
        shift = step * (number - (len(experiments) - 1) / 2)
        x = unscale(scale(exp_rows[quantity].to_numpy(dtype=float)) + shift)
        axes.plot(x, exp_rows["rho"], linestyle="", markersize=5.5, alpha=0.9, **style_of(number))
    if logarithmic:
        axes.set_xscale("log")
        decades = (ends[1] - ends[0]) / np.log(10)
        steps = (1, 2, 5) if decades < 1.5 else (1, 3) if decades < 3 else (1,)
        axes.xaxis.set_major_locator(LogLocator(subs=steps))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(*unscale(ends + np.array([-margin, margin])))
    axes.axhline(0, color="#888888", linewidth=0.7)
    axes.grid(alpha=0.25)
    axes.set(xlabel=QUANTITIES[quantity], ylabel="mean ρ", ylim=LIMITS)
    models = rows.drop_duplicates("model").sort_values(quantity, kind="stable")
    listed = ", ".join(f"{shorten(row['model'])} {row[quantity]:g}" for row in models.to_dict("records"))
    caption = f"Models from left to right: {listed}. Points of a model are shifted so as not to overlap."
    if len(models) < MIN_MODELS:
        caption += f" {len(models)} models: points only; a correlation needs {MIN_MODELS} models."
    text = "; ".join(
        f"{exp}: " + ", ".join(f"{row['model']} {row['rho']:.2f}" for row in exp_rows.to_dict("records"))
        for exp, exp_rows in rows.groupby("exp", sort=False)
    )
    return Drawing(f"scaling-{quantity}", plot, title, f"Scatter plot. {title}. {text}.", caption)
