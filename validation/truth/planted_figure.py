"""Figure of planted against measured valence."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from src.report.drawing import style


def planted(groups: pd.DataFrame) -> tuple[Figure, str]:
    """What was planted on each group against what is measured of its faces.

    Args:
        groups: `bias`, `seed`, `planted`, `s`, `sc_eat` of each group and toy.

    Returns:
        The figure and its text alternative.
    """
    figure = Figure(figsize=(9, 4), layout="constrained")
    panels = figure.subplots(1, 2, sharex=True)
    shown = {"s": "mean s(w) of the group's faces", "sc_eat": "mean SC-EAT of the group's faces"}
    said = []
    for axes, (column, name) in zip(panels, shown.items(), strict=True):
        for number, (bias, rows) in enumerate(groups.groupby("bias")):
            look = style(number)
            axes.scatter(rows["planted"], rows[column], s=14, alpha=0.5, linewidths=0, **look)
            means = rows.groupby("planted")[column].mean()
            axes.plot(means.index, means, label=f"bias {bias:g}", markersize=6, **look)
            ends = f"{means.iloc[0]:.2g} to {means.iloc[-1]:.2g}"
            said.append(f"{name}, bias {bias:g}: {ends} from least to most planted valence")
        axes.axhline(0, color="#888888", linewidth=0.8)
        axes.set(xlabel="planted valence of the group at bias 1", ylabel=name)
        axes.grid(alpha=0.25)
    seeds = groups["seed"].nunique()
    panels[0].legend(frameon=False, fontsize=9, title=f"mean and each of {seeds} seeds", title_fontsize=9)
    return figure, "Line plots of measured against planted valence. " + "; ".join(said) + "."
