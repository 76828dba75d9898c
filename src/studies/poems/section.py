"""Build the report's section on poems about faces."""

from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.ticker import MultipleLocator

from src.report.drawing import Drawing
from src.report.explorer import build_rows
from src.report.findings import Findings, first_specification, list_specifications
from src.report.folder import ReportFolder
from src.report.forest_plot import draw_forest_plot, format_digits, sort_by
from src.report.format import make_slugs, to_records
from src.report.study import Section
from src.studies.poems.poem_generation import POLES

# Maximum number of models, or models by task, whose figures and tables the page shows.
MAX_DETAILED_MODELS = 8
# Column of the report's explorer -> column of the analyses.
EXPLORER_COLUMNS = {
    "level": "cles",
    "level_low": "cles_low",
    "level_high": "cles_high",
    "level_p": "p",
    "level_q": "q",
}
AXIS_LABEL = "CLES: share of face pairs in which the first scores higher"


def build_section(findings: Findings, folder: ReportFolder) -> Section:
    """Write the figures and tables of poems; return the section."""
    analyses = findings.of("poems")
    folder.write_table(
        "poems", analyses, "poems about faces: every pool and pair of groups, all specifications"
    )
    rows = first_specification(analyses)
    (protocol, seed, *_), *other_specifications = list_specifications(analyses)
    # Tasks are described apart; they are named where there are several.
    names = rows["model"] + ", " + rows["exp"] if rows["exp"].nunique() > 1 else rows["model"]
    models = [*dict.fromkeys(names)]
    slug_by_model = make_slugs(models)
    context = {
        "protocol": protocol,
        "seed": seed,
        "specifications_left": len(other_specifications),
        "n_models_omitted": max(0, len(models) - MAX_DETAILED_MODELS),
        "models": [
            _build_model_context(rows[names == model], str(model), slug_by_model[model], folder)
            for model in models[:MAX_DETAILED_MODELS]
        ],
    }
    pool_labels = analyses["pool"] + ", shared tokens " + analyses["shared"]
    group = analyses["group_a"] + ", " + analyses["group_b"] + ": " + pool_labels
    return Section(
        rows=rows,
        explorer_rows=build_rows(
            analyses, study="poems", group=group, measure="CLES", numbers=EXPLORER_COLUMNS
        ),
        templates=Path(__file__).with_name("templates"),
        context={"poems": context},
        body=("poems.html",),
        links=(("poems", "Poems about faces"),),
    )


def _build_model_context(rows: pd.DataFrame, model: str, slug: str, folder: ReportFolder) -> dict[str, Any]:
    with_cles = rows[(rows["shared"] == "removed") & rows["cles"].notna()]
    drawings = [_draw_pairs(with_cles, f"poems-{slug}", f"Poems of {model}")] if len(with_cles) else []
    empty_pools = {
        f"{row['pool']}, shared tokens {row['shared']}" for row in to_records(rows) if not row["pool_size"]
    }
    return {
        "name": model,
        "pictures": folder.write_figures(drawings),
        "rows": to_records(rows),
        "max_tokens": int(rows["most"].iloc[0]),
        "empty_pools": sorted(empty_pools),
    }


def _draw_pairs(rows: pd.DataFrame, name: str, title: str) -> Drawing:
    """Draw the CLES of each pair of groups with its interval, for both token pools."""
    values = rows.assign(
        block=rows["group_a"] + " / " + rows["group_b"],
        series=rows["pool"] + " words",
        filled=(rows["cles_low"] > 0.5) | (rows["cles_high"] < 0.5),
        text=rows["cles"].map(format_digits),
    ).rename(columns={"cles": "value", "cles_low": "low", "cles_high": "high"})
    figure, axes, placed = draw_forest_plot(
        sort_by(values, block=(), pool=POLES),
        title=title,
        label=AXIS_LABEL,
        series=[f"{pool} words" for pool in POLES],
        hollow="interval contains ½",
        zero=0.5,
        limits=(-0.02, 1.02),
    )
    axes.xaxis.set_major_locator(MultipleLocator(0.25))
    words = "; ".join(placed["block"] + ", " + placed["pool"] + ": " + placed["text"])
    return Drawing(name, figure, title, f"Dot plot of CLES with intervals. {title}. {words}.")
