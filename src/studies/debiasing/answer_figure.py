"""What debiasing changes, model by model: a row goes through all measures."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from src.report.drawing import Drawing, brief, plain, style
from src.report.forest_plot import ROW
from src.studies.debiasing.answer import ALL, RELATIVE, SC_EAT, Estimate
from src.studies.debiasing.change import ACCURACY, CLES, INTRINSIC, OUTCOME, RHO
from src.studies.debiasing.sentences import change, percent, signed

PANELS = {
    INTRINSIC: f"spread of {SC_EAT}\nbetween groups",
    OUTCOME: "spread between groups\nof what is retrieved",
    CLES: "|CLES − ½|",
    RHO: "ρ",
    ACCURACY: "zero-shot accuracy",
}
# Models in one figure; more of them get figures of their own.
MODELS = 12
# Letters in a line above a panel.
LETTERS = 28
COLUMNS = 3
# Inches.
NAMES, PANEL, ABOVE, BELOW, HEAD = 1.85, 1.85, 0.75, 0.42, 0.08
CAPTION = (
    "Each point is a model's change after − before: of the spreads in percent (all experiments counting "
    "alike), of the others in their own units (means over attributes, or over experiments). Left of the line "
    "at zero: lower with debiasing. A line is the 95% interval; a point without one has none. The two "
    "spreads share a scale, the other panels have their own."
)


def figures(found: Sequence[Estimate], score: str = SC_EAT) -> list[Drawing]:
    """Dots with intervals, a panel per measure, a row per model and method; a figure per `MODELS` models.

    Args:
        found: see `answer.estimates`.
        score: what the intrinsic score is called.
    """
    found = [one for one in found if one.comparisons]
    measures = {one.measure for one in found}
    panels = {name: head for name, head in PANELS.items() if name in measures}
    if score != SC_EAT and INTRINSIC in panels:
        panels[INTRINSIC] = textwrap.fill(f"spread of {score} between groups", LETTERS)
    methods = [*dict.fromkeys(one.debias for one in found)]
    models = [*dict.fromkeys(one.model for one in found)]
    parts = [models[start : start + MODELS] for start in range(0, len(models), MODELS)]
    drawn = []
    for number, part in enumerate(parts, 1):
        many = len(parts) > 1
        title = "Change with debiasing" + f" ({number} of {len(parts)})" * many
        figure = _figure([one for one in found if one.model in part], part, methods, panels, title)
        said = "; ".join(_said(one, panels) for one in found if one.model in part)
        alternative = f"Dot plot with a line at zero. {title}. {said}."
        drawn.append(Drawing("debiasing" + f"-{number}" * many, figure, title, alternative, CAPTION))
    return drawn


def _said(one: Estimate, panels: Mapping[str, str]) -> str:
    low, high = one.ends
    told = percent if one.measure in RELATIVE else lambda value: signed(value, 3)
    ends = "" if np.isnan(low) else f" ({told(low)} to {told(high)})"
    name = panels[one.measure].replace("\n", " ")
    return f"{_model(one.model)}, {brief(one.debias)}, {name} {change(one)}{ends}"


def _model(name: str) -> str:
    return "all models" if name == ALL else plain(name, 22)


def _figure(
    found: Sequence[Estimate],
    models: Sequence[str],
    methods: Sequence[str],
    panels: Mapping[str, str],
    title: str,
) -> Figure:
    block = HEAD + ROW * len(methods)
    height = block * len(models)
    above = ABOVE + 0.18 * -(-len(methods) // COLUMNS)
    width, total = NAMES + PANEL * len(panels), above + height + BELOW
    figure = Figure(figsize=(width, total))
    figure.text(0.12 / width, 1 - 0.08 / total, title, fontsize=10, va="top")
    _key(figure, methods, total)
    relative: list[Axes] = []
    for number, measure in enumerate(panels):
        left = (NAMES + PANEL * number) / width
        # The two spreads are there to be set against one another: one scale.
        scale = relative[0] if measure in RELATIVE and relative else None
        place_of = (left, BELOW / total, (PANEL - 0.5) / width, height / total)
        axes = figure.add_axes(place_of, sharex=scale)
        relative += [axes] * (measure in RELATIVE)
        own = {(one.model, one.debias): one for one in found if one.measure == measure}
        for row, model in enumerate(models):
            top = block * row
            axes.axhline(top, color="#dddddd", linewidth=0.6)
            if not number:
                _name(axes, model, top + block / 2)
            for which, method in enumerate(methods):
                _point(axes, own.get((model, method)), which, top + HEAD / 2 + ROW * (which + 0.5))
        _axis(axes, measure, panels[measure], height)
    return figure


def _key(figure: Figure, methods: Sequence[str], total: float) -> None:
    key = [
        Line2D([], [], linestyle="", markersize=6, label=plain(name), **style(number))
        for number, name in enumerate(methods)
    ]
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0, 1 - 0.26 / total)}
    figure.legend(handles=key, ncols=COLUMNS, fontsize=8.5, frameon=False, **place)


def _name(axes: Axes, model: str, y: float) -> None:
    weight = "bold" if model == ALL else "normal"
    about: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "fontweight": weight, "fontsize": 8.5}
    axes.text(-0.08, y, _model(model), ha="right", va="center", **about)


def _axis(axes: Axes, measure: str, head: str, height: float) -> None:
    axes.axvline(0, color="#666666", linewidth=0.9, zorder=0)
    axes.set_ylim(height, 0)
    axes.set_yticks([])
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    axes.set_title(head, fontsize=8.5, loc="left", x=0)
    axes.margins(x=0.08)
    axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    told = percent if measure in RELATIVE else _tick
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: told(value)))
    axes.tick_params(labelsize=8)


def _tick(value: float) -> str:
    return f"{value:+.3g}".replace("-", "−") if abs(value) > 1e-12 else "0"


def _point(axes: Axes, one: Estimate | None, number: int, y: float) -> None:
    text = "none" if one is None else change(one)
    axes.text(1.02, y, text, fontsize=7.5, va="center", transform=axes.get_yaxis_transform())
    if one is None:
        return
    look = style(number)
    low, high = one.ends
    if not np.isnan(low):
        axes.plot([low, high], [y, y], color=look["color"], linewidth=1.6, zorder=2)
    edge: dict[str, Any] = {"markeredgecolor": "#333333", "markeredgewidth": 0.5}
    axes.plot([one.value], [y], linestyle="", markersize=5.5, zorder=3, **edge, **look)
