"""Define the study of matched pictures."""

from collections.abc import Iterator, Mapping

import pandas as pd
from rich.console import RenderableType

from src.configs import ProtocolConfig
from src.report.forest_plot import format_digits
from src.report.study import StudyReport
from src.report.tables import build_table, lay_out
from src.studies.matched import experiment
from src.studies.matched.captions import ALL_CAPTIONS, build_prompts
from src.studies.matched.config import MatchedConfig
from src.studies.matched.figures import draw_levels, draw_shares
from src.studies.matched.section import build_section, draw_conclusions, split_measures
from src.studies.protocol import NamedFigure, Study, StudyResult

ROLES = {"retrieval": ("faces",), "carry_over": ("faces", "words")}
PROTOCOL_FIELDS = {
    "retrieval": ("top_k", "permutations", "article", "pooling"),
    "carry_over": ("k", "extremes", "ddof", "attributes", "permutations", "pooling"),
}
# Columns of all captions that become MLflow metrics: of each group, and of the captions.
GROUP_METRICS, CAPTION_METRICS = (
    ("share_topk", "rank"),
    ("maxskew", "ndkl", "bias", "recall", "amplification"),
)
TITLE = (
    "matched pictures: share of the first retrieved, rank within sets (0: nearest), or level [95% interval]"
)


def compute_metrics(result: StudyResult) -> dict[str, float]:
    """Return means over captions of each group and of the captions, or levels of groups and rho of all."""
    rows = result.analyses
    if "level" in rows:
        values = {f"level.{row['group']}": row["level"] for row in rows[:-1].to_dict("records")}
        return {name: float(value) for name, value in values.items()} | {"rho": float(rows["rho"].iloc[-1])}
    means = rows[rows["caption"] == ALL_CAPTIONS].set_index("group")
    values = {f"{name}.{group}": means[name][group] for name in GROUP_METRICS for group in means.index}
    values |= {name: means[name].iloc[0] for name in CAPTION_METRICS}
    captions = rows[rows["caption"] != ALL_CAPTIONS].groupby("caption")["q"].min()
    values |= {"captions": len(captions), "significant": (captions <= 0.05).sum()}
    return {name: float(value) for name, value in values.items()}


def draw_figures(
    _: MatchedConfig, columns: Mapping[str, object], result: StudyResult
) -> Iterator[NamedFigure]:
    """Draw the shares of groups by caption, or the levels of groups."""
    rows = result.analyses.assign(model=str(columns["model"]))
    title = f"{columns['model']}, {columns['exp']} ({columns['dataset']})"
    draw = draw_levels if "level" in rows else draw_shares
    drawing = draw(rows, title=title, models=[str(columns["model"])])
    yield f"{drawing.name}.png", drawing.figure, drawing.alt_text


def build_terminal_tables(analyses: pd.DataFrame, dataset: str) -> list[RenderableType]:
    """Return a table with a row per group of all captions, and of the level within sets."""
    captions, words = split_measures(analyses)
    rows = []
    for frame, column, label in (
        (captions, "share_topk", "share of first retrieved"),
        (captions, "rank", "rank within sets"),
        (words, "level", "level within sets"),
    ):
        ends = column.removesuffix("_topk")
        if frame.empty:
            continue
        means = (
            frame[frame["caption"] == ALL_CAPTIONS] if column != "level" else frame[frame["level"].notna()]
        )
        digits = 3 if column == "level" else 2
        texts = [
            f"{format_digits(row[column], digits)} [{format_digits(row[f'{ends}_low'], digits)}, "
            f"{format_digits(row[f'{ends}_high'], digits)}]"
            for row in means.to_dict("records")
        ]
        rows.append(means.assign(label=means["exp"] + ", " + label + ": " + means["group"], text=texts))
    if not rows:
        return []
    return [build_table(lay_out(pd.concat(rows), "debias", "protocol", "seed"), f"{dataset}: {TITLE}")]


def protocol_fields(exp: MatchedConfig, _: ProtocolConfig) -> frozenset[str]:
    """Return the fields of the protocol that affect an experiment."""
    return frozenset(PROTOCOL_FIELDS[exp.measure])


STUDY = Study(
    name="matched",
    roles=lambda exp: ROLES[exp.measure],
    prompts=build_prompts,
    check=experiment.check,
    run=experiment.run,
    protocol_fields=protocol_fields,
    metrics=compute_metrics,
    figures=draw_figures,
    report=StudyReport(section=build_section, terminal=build_terminal_tables, conclusions=draw_conclusions),
)
