"""What becomes of rho under other readings of the paper: described, not tested."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.lines import Line2D

from src.report.drawing import Drawing, style
from src.report.findings import Findings
from src.report.forest_plot import BAND, forest_plot, in_digits, in_words, key_of, mark
from src.studies.propagation.combined import every, score_names, shown
from src.studies.propagation.rho_plot import LABEL, LIMITS

DRAWS = "other draws of A and B"
COLUMNS = ["exp", "paper", "reading", "rhos", "median", "lowest", "highest", "above"]


def readings(findings: Findings) -> pd.Series:
    """Of each analysis, which reading it belongs to: its protocol, and whatever else differs in the sweep."""
    analyses = every(findings)
    text = analyses["protocol"].astype(str)
    # Of seeds the spread is looked at, not each one.
    several = analyses["debias"].nunique() > 1
    return text + ", debias " + analyses["debias"].astype(str) if several else text


def attribute_draws(findings: Findings) -> pd.DataFrame:
    """Rho under other draws of A and B, of the shown reading: `exp, model, stratum, rho`."""
    parts = []
    for job in shown(findings).drop_duplicates("config").to_dict("records"):
        if findings.has(job["config"], "draws"):
            found = findings.read(job["config"], "draws")
            found = found.loc[found["kind"] == "attributes", ["stratum", "rho"]]
            parts.append(found.assign(exp=job["exp"], model=job["model"]))
    columns = ["exp", "model", "stratum", "rho"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def table(findings: Findings, drawn: pd.DataFrame) -> pd.DataFrame:
    """Median, range, and share above the placebo, per experiment and reading, and over all readings.

    Args:
        findings: the sweep.
        drawn: see `attribute_draws`; told by themselves, for they have no placebo of their own.

    Returns:
        `COLUMNS`: `rhos` counts the defined ones over models, groups and seeds; `above` is the share of
        these that exceed their placebo's 95th percentile (NaN without a placebo); `reading` is `all` for
        the row over all readings of the shown scores, for another measure is no reading of the paper.
    """
    analyses = every(findings).assign(reading=readings(findings), scores=score_names(every(findings)))
    first = score_names(shown(findings))
    rows = []
    for (exp, paper), own in analyses.groupby(["exp", "paper"], sort=False):
        about = {"exp": exp, "paper": paper}
        rows.append({**about, "reading": "all", **_described(own[own["scores"].isin(first)])})
        for reading, part in own.groupby("reading", sort=False):
            rows.append({**about, "reading": reading, **_described(part)})
        others = drawn[drawn["exp"] == exp]
        if len(others):
            rows.append({**about, "reading": DRAWS, **_described(others.assign(placebo_q95=np.nan))})
    return pd.DataFrame(rows, columns=COLUMNS)


def multiverse(findings: Findings, drawn: pd.DataFrame, found: pd.DataFrame, exp: str) -> Drawing:
    """Every rho of an experiment, a line per reading, in the order of their medians.

    Args:
        findings: the sweep.
        drawn: see `attribute_draws`.
        found: see `table`.
        exp: which experiment.
    """
    analyses = every(findings).assign(reading=readings(findings))
    analyses, others = analyses[analyses["exp"] == exp], drawn[drawn["exp"] == exp]
    points = pd.concat([analyses, others.assign(reading=DRAWS)])
    lines = found[(found["exp"] == exp) & (found["reading"] != "all")]
    lines = lines.sort_values("median", ascending=False, kind="stable")
    models = [*dict.fromkeys(every(findings)["model"])]
    coloured = len(models) <= 8
    title = f"{exp}: every reading"
    key = key_of(models if coloured else ["a model"])
    figure, axes, placed = forest_plot(
        lines.assign(
            block=lines["reading"],
            text=lines["median"].map(in_digits),
            words=[_in_words(line) for line in lines.to_dict("records")],
        ),
        title=title,
        label=LABEL,
        key=[*key, Line2D([], [], color="black", linewidth=1.6, label="median")],
        limits=LIMITS,
    )
    axes.hlines(placed["y"], placed["lowest"], placed["highest"], color=BAND, linewidth=1)
    points = points.merge(placed[["reading", "y"]])
    for number, model in enumerate(models if coloured else [None]):
        rows = points if model is None else points[points["model"] == model]
        axes.plot(rows["rho"], rows["y"], linestyle="", markersize=4, alpha=0.45, mew=0, **style(number))
    mark(axes, placed["median"], placed["y"], color="black")
    caption = (
        "A line is a reading, a point one ρ (model and group; all seeds), the stroke and the number their "
        f"median. “{DRAWS}” are of the first reading."
    )
    return Drawing(f"multiverse-{exp}", figure, title, f"Dot plot. {title}. {in_words(placed)}.", caption)


def _in_words(line: Mapping[Hashable, Any]) -> str:
    median, lowest, highest = (in_digits(line[name]) for name in ("median", "lowest", "highest"))
    return f"median {median}, {lowest} to {highest}"


def _described(rows: pd.DataFrame) -> dict[str, float]:
    rho = rows["rho"].dropna()
    known = rows.dropna(subset=["rho", "placebo_q95"])
    return {
        "rhos": len(rho),
        "median": rho.median(),
        "lowest": rho.min(),
        "highest": rho.max(),
        "above": (known["rho"] > known["placebo_q95"]).mean() if len(known) else np.nan,
    }
