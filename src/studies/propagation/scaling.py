"""Plot rho against the size and the accuracy of models."""

import numpy as np
import pandas as pd
from matplotlib.ticker import LogLocator, NullLocator

from src.report.drawing import Drawing, shorten, style_of
from src.report.findings import Findings
from src.report.forest_plot import build_legend_handles, make_figure
from src.studies.propagation.combined import select_main_analyses
from src.studies.propagation.figures import RHO_LIMITS
from src.studies.shared.model_families import MIN_FAMILIES, families_of

QUANTITIES = {  # column of `Findings.models` -> label of its axis
    "parameters_millions": "parameters (millions, log axis)",
    "gflops_image": "GFLOPs per image (log axis)",
    "zero_shot": "zero-shot accuracy on ImageNet",
}
# Quantities with a logarithmic axis.
LOGARITHMIC = ("parameters_millions", "gflops_image")


def join_quantities(findings: Findings) -> pd.DataFrame:
    """Join mean rho per experiment and model (`exp, model, rho`) with the model's family and `QUANTITIES`."""
    analyses = select_main_analyses(findings)
    if analyses.empty or findings.models.empty:
        return pd.DataFrame(columns=["exp", "model", "rho", "family", *QUANTITIES])
    means = analyses.groupby(["exp", "model"], sort=False)["rho"].mean().reset_index()
    means["family"] = families_of(findings, means["model"])
    return means.merge(findings.models[["model", *QUANTITIES]], on="model", how="left")


def list_known_quantities(means: pd.DataFrame) -> list[str]:
    """Return the quantities that are known for at least two models."""
    return [name for name in QUANTITIES if means.dropna(subset=[name, "rho"])["model"].nunique() > 1]


def plot_quantity(means: pd.DataFrame, quantity: str) -> Drawing:
    """Plot mean rho against a quantity of the models, a series per experiment.

    `means` is the result of `join_quantities`.
    """
    rows = means.dropna(subset=[quantity, "rho"])
    experiments = [*dict.fromkeys(means["exp"])]
    title = f"ρ against {QUANTITIES[quantity].split(' (')[0]}"
    plot, axes = make_figure(3.2, title, build_legend_handles(experiments))
    logarithmic = quantity in LOGARITHMIC
    # Points of a model are shifted along the axis so as not to overlap.
    scale, unscale = (np.log, np.exp) if logarithmic else (np.asarray, np.asarray)
    ends = scale(np.array([rows[quantity].min(), rows[quantity].max()], dtype=float))
    margin = max(0.12 * (ends[1] - ends[0]), 0.5 if logarithmic else 0.01)
    step = 0.012 * (ends[1] - ends[0] + 2 * margin)
    for index, exp in enumerate(experiments):
        exp_rows = rows[rows["exp"] == exp]
        shift = step * (index - (len(experiments) - 1) / 2)
        x = unscale(scale(exp_rows[quantity].to_numpy(dtype=float)) + shift)
        axes.plot(x, exp_rows["rho"], linestyle="", markersize=5.5, alpha=0.9, **style_of(index))
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
    axes.set(xlabel=QUANTITIES[quantity], ylabel="mean ρ", ylim=RHO_LIMITS)
    models = rows.drop_duplicates("model").sort_values(quantity, kind="stable")
    listed = ", ".join(f"{shorten(row['model'])} {row[quantity]:g}" for row in models.to_dict("records"))
    caption = f"Models from left to right: {listed}. Points of a model are shifted so as not to overlap."
    if (count := models["family"].nunique()) < MIN_FAMILIES:
        caption += f" {count} families: points only; a correlation needs {MIN_FAMILIES} families."
    text = "; ".join(
        f"{exp}: " + ", ".join(f"{row['model']} {row['rho']:.2f}" for row in exp_rows.to_dict("records"))
        for exp, exp_rows in rows.groupby("exp", sort=False)
    )
    return Drawing(f"scaling-{quantity}", plot, title, f"Scatter plot. {title}. {text}.", caption)
