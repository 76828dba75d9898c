"""Draw levels by language and their differences to English."""

from collections.abc import Iterator

import pandas as pd

from src.configs import ENGLISH
from src.report.drawing import Drawing
from src.report.forest_plot import describe_rows, draw_forest_plot, format_digits, sort_by, split_into_figures
from src.studies.languages.differences import INTERPRETED
from src.studies.languages.validity import LANGUAGE, YES

MAX_ROWS = 64  # maximum number of rows of a figure
MAX_BLOCKS = 12  # maximum number of experiments and models in the figures
HOLLOW = "not interpreted"
LEVELS = (
    "Level of carry-over by language, with 95% intervals over the targets. A hollow point is not "
    "interpreted: the encoder does not place the language's texts, or it is not checked."
)
DIFFERENCES = (
    "Level in a language minus the level in English, with 95% intervals paired over the pictures, which all "
    "languages share. A hollow point is not interpreted: texts of the language or of English are not placed."
)


def draw_levels(rows: pd.DataFrame) -> Iterator[Drawing]:
    """Yield forest plots of levels and of differences to English, of rows with a column `label`."""
    levels = rows[rows["measure"] == "level"].dropna(subset=["value"])
    levels = levels.assign(block=levels["exp"] + ", " + levels["model"])
    series = [*dict.fromkeys(levels["label"])]
    values = levels.assign(filled=levels["placed"] == YES)
    yield from _draw(values, "languages-levels", "Level by language", "level", series, LEVELS)
    differences = levels[levels[LANGUAGE] != ENGLISH].dropna(subset=["difference_low"])
    columns = {"difference": "value", "difference_low": "low", "difference_high": "high"}
    differences = differences.drop(columns=[*columns.values()]).rename(columns=columns)
    differences = differences.assign(filled=differences["verdict"].isin(INTERPRETED))
    title, label = "Difference to English", "level minus level in English"
    yield from _draw(differences, "languages-differences", title, label, series, DIFFERENCES)


def _draw(
    rows: pd.DataFrame, name: str, title: str, label: str, series: list[str], caption: str
) -> Iterator[Drawing]:
    blocks = [*dict.fromkeys(rows["block"])]
    if not blocks:
        return
    if len(blocks) > MAX_BLOCKS:
        caption += f" The first {MAX_BLOCKS} of {len(blocks)} experiments and models."
    size = max(1, int(MAX_ROWS // rows["block"].value_counts().max()))
    for chunk, file_name, chunk_title in split_into_figures(blocks[:MAX_BLOCKS], size, name, title):
        chosen = sort_by(rows[rows["block"].isin(chunk)], block=chunk, item=(), label=series)
        texts = chosen["value"].map(lambda value: format_digits(value, 3))
        alt_text = chosen["item"] + " " + chosen["label"] + " " + texts
        values = pd.DataFrame(
            {
                **{column: chosen[column] for column in ("block", "value", "low", "high", "filled")},
                "name": chosen["item"].where(~chosen.duplicated(["block", "item"]), ""),
                "series": chosen["label"],
                "text": texts,
                "alt_text": alt_text.where(chosen["filled"], alt_text + " (not interpreted)"),
            }
        )
        figure, _, placed = draw_forest_plot(
            values, title=chunk_title, label=label, series=series, hollow=HOLLOW
        )
        description = f"Forest plot. {chunk_title}. {describe_rows(placed)}."
        yield Drawing(file_name, figure, chunk_title, description, caption)
