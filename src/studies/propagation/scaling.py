"""Rho against the size and the strength of models."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.ticker import LogLocator, NullLocator
from scipy import stats

from src.report.drawing import Drawing, brief, style
from src.report.findings import Findings
from src.report.forest_plot import canvas, key_of
from src.studies.propagation.combined import shown
from src.studies.propagation.rho_plot import LIMITS

QUANTITIES = {
    "parameters_millions": "parameters (millions, log axis)",
    "gflops_image": "GFLOPs per image (log axis)",
    "zero_shot": "zero-shot accuracy on ImageNet",
}
LOGARITHMIC = ("parameters_millions", "gflops_image")
# Fewer models give points only.
ENOUGH, DRAWS, SEED = 8, 2000, 0
INTERVAL = (0.025, 0.975)
COLUMNS = ["quantity", "exp", "models", "rho", "ci_low", "ci_high"]


def points(findings: Findings) -> pd.DataFrame:
    """Mean rho per experiment and model, and what is known of the model: `exp, model, rho`, `QUANTITIES`."""
    analyses = shown(findings)
    if analyses.empty or findings.models.empty:
        return pd.DataFrame(columns=["exp", "model", "rho", *QUANTITIES])
    means = analyses.groupby(["exp", "model"], sort=False)["rho"].mean().reset_index()
    return means.merge(findings.models[["model", *QUANTITIES]], on="model", how="left")


def known(found: pd.DataFrame) -> list[str]:
    """The quantities that at least two models are known by."""
    return [name for name in QUANTITIES if found.dropna(subset=[name, "rho"])["model"].nunique() > 1]


def correlations(found: pd.DataFrame) -> pd.DataFrame:
    """Spearman's rho over models, from eight models on, with a percentile interval over models.

    Args:
        found: see `points`.

    Returns:
        `COLUMNS`; empty below eight models.
    """
    rows = []
    for quantity in known(found):
        for exp, own in found.dropna(subset=[quantity, "rho"]).groupby("exp", sort=False):
            if len(own) >= ENOUGH:
                x, y = own[quantity].to_numpy(dtype=float), own["rho"].to_numpy(dtype=float)
                about = {"quantity": quantity, "exp": exp, "models": len(own)}
                rows.append({**about, **dict(zip(COLUMNS[3:], _spearman(x, y), strict=True))})
    return pd.DataFrame(rows, columns=COLUMNS)


def figure(found: pd.DataFrame, quantity: str) -> Drawing:
    """Mean rho of each experiment against a quantity of the models.

    Args:
        found: see `points`.
        quantity: of `QUANTITIES`.
    """
    rows = found.dropna(subset=[quantity, "rho"])
    experiments = [*dict.fromkeys(found["exp"])]
    title = f"ρ against {QUANTITIES[quantity].split(' (')[0]}"
    drawn, axes = canvas(3.2, title, key_of(experiments))
    logarithmic = quantity in LOGARITHMIC
    # In steps of the axis's own scale, so that a model's points stand beside one another.
    scale, back = (np.log, np.exp) if logarithmic else (np.asarray, np.asarray)
    ends = scale(np.array([rows[quantity].min(), rows[quantity].max()], dtype=float))
    room = max(0.12 * (ends[1] - ends[0]), 0.5 if logarithmic else 0.01)
    step = 0.012 * (ends[1] - ends[0] + 2 * room)
    for number, exp in enumerate(experiments):
        own = rows[rows["exp"] == exp]
        x = back(scale(own[quantity].to_numpy(dtype=float)) + step * (number - (len(experiments) - 1) / 2))
        axes.plot(x, own["rho"], linestyle="", markersize=5.5, alpha=0.9, **style(number))
    if logarithmic:
        axes.set_xscale("log")
        decades = (ends[1] - ends[0]) / np.log(10)
        steps = (1, 2, 5) if decades < 1.5 else (1, 3) if decades < 3 else (1,)
        axes.xaxis.set_major_locator(LogLocator(subs=steps))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(*back(ends + np.array([-room, room])))
    axes.axhline(0, color="#888888", linewidth=0.7)
    axes.grid(alpha=0.25)
    axes.set(xlabel=QUANTITIES[quantity], ylabel="mean ρ", ylim=LIMITS)
    sizes = rows.drop_duplicates("model").sort_values(quantity, kind="stable")
    named = ", ".join(f"{brief(row['model'])} {row[quantity]:g}" for row in sizes.to_dict("records"))
    caption = f"Models from left to right: {named}; a model's points stand side by side so that all are seen."
    if len(sizes) < ENOUGH:
        caption += f" {len(sizes)} models: points only; a correlation is given from {ENOUGH} on."
    said = "; ".join(
        f"{exp}: " + ", ".join(f"{row['model']} {row['rho']:.2f}" for row in own.to_dict("records"))
        for exp, own in rows.groupby("exp", sort=False)
    )
    return Drawing(f"scaling-{quantity}", drawn, title, f"Scatter plot. {title}. {said}.", caption)


def _spearman(x: np.ndarray, y: np.ndarray) -> tuple[float, float, float]:
    chosen = np.random.default_rng(SEED).integers(len(x), size=(DRAWS, len(x)))
    drawn = _rho(x[chosen], y[chosen])
    low, high = np.nanquantile(drawn, INTERVAL) if np.isfinite(drawn).any() else (np.nan, np.nan)
    return float(_rho(x[None], y[None])[0]), float(low), float(high)


def _rho(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    # One rho per line; NaN where a draw holds one value only.
    a, b = (stats.rankdata(values, axis=1) for values in (x, y))
    a, b = (ranks - ranks.mean(axis=1, keepdims=True) for ranks in (a, b))
    with np.errstate(invalid="ignore"):
        found: np.ndarray = (a * b).sum(axis=1) / np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    return found
