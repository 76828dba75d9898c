"""Draw the relative changes of measures by perturbation."""

from collections.abc import Iterator, Sequence

import pandas as pd

from src.report.drawing import Drawing
from src.report.forest_plot import describe_rows, draw_forest_plot, sort_by, split_into_figures
from src.studies.sensitivity.changes import PERTURB
from src.studies.sensitivity.overview import format_share, select_main_measures

MAX_ROWS = 64  # maximum number of rows of a figure
MAX_MODELS = 4  # maximum number of models in the figures
TITLE = "Change by perturbation"
CAPTION = (
    "Change of each experiment's first measure (level, CLES − ½, IAT, C, d, accuracy above chance), summed "
    "over its analyses in the direction that was measured, relative to what was measured: 0 if nothing "
    "moves, −100% if nothing is left, −200% if all is reversed. Lines are 95% intervals; where what was "
    "measured is below 3 standard errors, there is no point."
)


def draw_changes(summary: pd.DataFrame) -> Iterator[Drawing]:
    """Yield forest plots of the relative changes of main measures; nothing without any."""
    rows = select_main_measures(summary).dropna(subset=["relative"])
    models = [*dict.fromkeys(rows["model"])][:MAX_MODELS]
    note = "" if rows["model"].nunique() <= MAX_MODELS else f" The first {MAX_MODELS} models."
    rows = rows[rows["model"].isin(models)]
    if rows.empty:
        return
    largest_block = rows[PERTURB].value_counts().max()
    perturbations = [*dict.fromkeys(rows[PERTURB])]
    size = max(1, int(MAX_ROWS // largest_block))
    for chunk, name, title in split_into_figures(perturbations, size, "perturbations", TITLE):
        yield _draw(rows[rows[PERTURB].isin(chunk)], models, name, title, CAPTION + note)


def _draw(rows: pd.DataFrame, models: Sequence[str], name: str, title: str, caption: str) -> Drawing:
    rows = sort_by(rows, perturb=(), exp=(), model=models)
    texts = rows["relative"].map(format_share)
    values = pd.DataFrame(
        {
            "block": rows[PERTURB],
            "name": rows["exp"].where(~rows.duplicated([PERTURB, "exp"]), ""),
            "series": rows["model"],
            "value": 100 * rows["relative"],
            "low": 100 * rows["relative_low"],
            "high": 100 * rows["relative_high"],
            "text": texts,
            "alt_text": rows["exp"] + " " + rows["model"] + " " + texts,
        }
    )
    label = "relative change, %"
    figure, _, placed = draw_forest_plot(values, title=title, label=label, series=models)
    return Drawing(name, figure, title, f"Forest plot. {title}. {describe_rows(placed)}.", caption)
