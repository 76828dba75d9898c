"""Write tables, counts and figures of an audit of captions, and print a summary; no caption is shown."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console

from src.configs import AxisLabelsConfig, LabelsConfig, list_axis_words
from src.errors import redact
from src.report import tables
from src.report.drawing import PALETTE, Drawing, save_drawing
from src.report.forest_plot import describe_rows, draw_forest_plot
from src.studies.shared.face_axes import split_axis
from src.studies.sobit.captions.counting import AuditCounts
from src.studies.sobit.captions.files import CaptionFile
from src.studies.sobit.captions.lexicon import (
    NOUN,
    Lexicon,
    list_forms,
    list_group_forms,
)

RATIOS, COUNTS, CORRELATIONS = "ratios.csv", "counts.json", "correlations.csv"
# Maximum number of unmentioned words, and of unreadable files, that the terminal lists.
MAX_LISTED = 12
ALPHA = 0.05
# Maximum number of over- and of under-represented words: per group in figures, per cell in the terminal.
MAX_FIGURE_WORDS, MAX_TERMINAL_WORDS = 8, 3
LESS, MORE = "less often", "more often"
NO_WORD = "no word differs reliably"
# Smallest ratio on the logarithmic axis.
MIN_RATIO = 2.0**-6
CAVEATS = (
    "Words are counted, not their meanings: a white shirt counts as White, a king bed as Men, and the labels "
    "file decides which group the word American counts for.",
    "A caption that mentions a word and a group need not apply the word to that group: a Black man next to a "
    "white woman counts for all four pairs of race and gender.",
    "Most captions name no group; ratio_named compares within those that do.",
    "Intervals and p assume independent captions: copies of a caption make intervals too narrow and p too "
    "small.",
)
AXIS_LABEL = (
    "ratio to the group's share of all captions (log)\n"
    f"with 95% interval; only words with q < {ALPHA:g}\n"
    "right: number of captions that mention the word and the group"
)


@dataclass(frozen=True)
class Results:
    """The results of an audit of captions."""

    settings: Mapping[str, str]  # options of the command line, with the column of captions
    labels: LabelsConfig | AxisLabelsConfig  # labels whose words name groups
    lexicon: Lexicon  # words and groups that were searched for
    files: list[CaptionFile]  # files of captions
    audit: AuditCounts  # counts of the captions, and problems
    ratios: pd.DataFrame  # table of ratios, see `ratios.build_table`
    # Correlations, see `associations.correlate`; None if no run is given.
    correlations: pd.DataFrame | None
    seconds: float  # duration of the audit, without writing its results


def write_files(results: Results, folder: Path) -> Path:
    """Write tables, figures and counts.json into an empty folder; return the path of counts.json."""
    results.ratios.to_csv(folder / RATIOS, index=False)
    if results.correlations is not None:
        results.correlations.to_csv(folder / CORRELATIONS, index=False)
    for drawing in draw_ratios(results.ratios):
        save_drawing(drawing, folder)
    text = json.dumps(summarise(results), indent=2, ensure_ascii=False)
    (folder / COUNTS).write_text(text + "\n", encoding="utf-8")
    return folder / COUNTS


def summarise(results: Results) -> dict[str, Any]:
    """Return the content of counts.json: settings, counts, unreadable files, caveats and searched forms."""
    audit, lexicon = results.audit, results.lexicon
    counts, labels = audit.counts, results.labels
    words = lexicon.words[["word", "type"]].itertuples(index=False)
    return {
        "asked": {name: redact(value) for name, value in results.settings.items()},
        "rows": audit.rows,
        "captions": counts.captions,
        "broken": dict(audit.broken),
        "problems": audit.problems,
        "seconds": round(results.seconds, 3),
        "words": len(lexicon.words),
        "never_mentioned": list_unmentioned(results),
        "naming_any_group": dict(zip(lexicon.axes, counts.named.tolist(), strict=True)),
        "naming": {
            axis: dict(zip(lexicon.list_groups(axis), axis_counts.tolist(), strict=True))
            for axis in lexicon.axes
            for axis_counts in [counts.groups[lexicon.groups["axis"] == axis]]
        },
        "limits": CAVEATS,
        "files": [
            {"path": str(file.path), "rows": file.rows, **file.facts}
            | ({"problem": file.problem} if file.problem else {})
            for file in results.files
        ],
        # Forms before case and hyphens are normalised.
        "looked_for": {
            "words": {f"{word} ({kind})": list_forms(word, is_noun=kind == NOUN) for word, kind in words},
            "groups": {
                group: list_group_forms(group_words)
                for axis_words in list_axis_words(labels).values()
                for group, group_words in axis_words.items()
            },
        },
    }


def list_unmentioned(results: Results) -> list[str]:
    """List the words that no caption mentions."""
    words = results.lexicon.words["word"]
    return list(words[results.audit.counts.words == 0].unique())


def print_results(results: Results) -> None:
    """Print a summary of the results and their caveats."""
    console = Console()
    audit = results.audit
    rejected = ", ".join(f"{rows:,} {kind.replace('_', ' ')}" for kind, rows in audit.broken.items() if rows)
    title = f"{audit.counts.captions:,} captions: ratio to the group's share of all captions (95% interval)"
    console.print(tables.build_table(build_overview(results.ratios), title))
    if results.correlations is not None:
        run = results.correlations.iloc[0]
        comparison = f"captions and associations of run {run['run']} ({run['model']}, debias {run['debias']})"
        console.print(tables.build_table(format_correlations(results.correlations), comparison))
    print(f"Rows: {audit.rows:,}; not captions: {rejected or 'none'}.")
    for file, problem in list(audit.problems.items())[:MAX_LISTED]:
        print(f"Unreadable: {file}: {problem}")
    if len(audit.problems) > MAX_LISTED:
        print(f"Unreadable: {len(audit.problems) - MAX_LISTED} more files, listed in {COUNTS}")
    if unmentioned := list_unmentioned(results):
        more = f" and {len(unmentioned) - MAX_LISTED} more" if len(unmentioned) > MAX_LISTED else ""
        listed = ", ".join(unmentioned[:MAX_LISTED]) + more
        print(f"Never mentioned: {len(unmentioned)} of {len(results.lexicon.words)} words: {listed}.")
    for caveat in CAVEATS:
        print(f"- {caveat}")


def select_extremes(rows: pd.DataFrame, count: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Select the over- and the under-represented words of a group, at most `count` of each.

    `rows` are ratios of one axis and group. Selected words have q below 0.05 and an interval above 1, or
    below 1; they are sorted by the limit nearer to 1, most extreme first.
    """
    significant = rows.drop_duplicates(["word", "type"])
    significant = significant[significant["q"] < ALPHA]
    over = significant[significant["ratio_low"] > 1].sort_values("ratio_low", ascending=False, kind="stable")
    under = significant[significant["ratio_high"] < 1].sort_values("ratio_high", kind="stable")
    return over.head(count), under.head(count)


def format_ratio(row: pd.Series) -> str:
    """Format a word with its ratio, interval and number of captions."""
    interval = f"{row['ratio_low']:.2f} to {row['ratio_high']:.2f}"
    return f"{row['word']} {row['ratio']:.2f} ({interval}; n {row['n_word']:,})"


def build_overview(ratios: pd.DataFrame) -> pd.DataFrame:
    """Build a table for the terminal: captions and most over- and under-represented words of each group."""
    rows = []
    for (axis, group), group_rows in ratios.groupby(["axis", "group"], sort=False):
        cells = [
            "\n".join(format_ratio(row) for _, row in side.iterrows()) or "none"
            for side in select_extremes(group_rows, MAX_TERMINAL_WORDS)
        ]
        mentions, captions = group_rows["n_group"].iloc[0], group_rows["captions"].iloc[0]
        rows.append((axis, group, f"{mentions:,} ({mentions / captions:.2%})", *cells))
    return pd.DataFrame(rows, columns=["axis", "group", "captions", MORE, LESS])


def format_correlations(correlations: pd.DataFrame) -> pd.DataFrame:
    """Format correlations.csv for the terminal."""
    texts = correlations[["axis", "group"]].assign(words=correlations["n"])
    values = correlations[["rho", "rho_low", "rho_high"]].to_numpy()
    texts["ρ (95%)"] = [f"{rho:.2f} ({low:.2f} to {high:.2f})" for rho, low, high in values]
    texts["placebo 95th"] = correlations["placebo_q95"].map("{:.2f}".format)
    texts["q"] = correlations["q"].map("{:.3f}".format)
    texts.loc[correlations["rho"].isna(), ["ρ (95%)", "placebo 95th", "q"]] = ""
    return texts.assign(note=correlations["reason"])


def draw_ratios(ratios: pd.DataFrame) -> list[Drawing]:
    """Draw a figure per axis: the most over- and under-represented words of each group."""
    return [_draw_axis(axis_rows, str(axis)) for axis, axis_rows in ratios.groupby("axis", sort=False)]


def _draw_axis(ratios: pd.DataFrame, axis: str) -> Drawing:
    title = f"Words mentioned more and less often: {' and '.join(split_axis(axis))}"
    rows = pd.concat(
        _select_figure_rows(group_ratios).assign(block=str(group))
        for group, group_ratios in ratios.groupby("group", sort=False)
    )
    low, high = rows["ratio_low"], rows["ratio_high"]
    start = max(MIN_RATIO, float(np.nanmin([0.5, low[low > 0].min()])) / 1.15)
    end = float(np.nanmax([2, high.max()])) * 1.15
    figure, axes, placed = draw_forest_plot(
        rows.assign(
            note="",
            value=rows["ratio"].where(rows["ratio"] >= start),
            low=low.clip(start, end),
            high=high,
            band_low=rows["placebo_low"].clip(start, end),
            band_high=rows["placebo_high"].clip(start, end),
        ),
        title=title,
        label=AXIS_LABEL,
        series=(LESS, MORE),
        band="95% of ratios by chance",
        zero=1,
        limits=(start, end),
    )
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}" if value >= 1 else f"1/{1 / value:g}")
    # An arrow marks ratios below the axis: of pairs that no caption mentions, or hardly any.
    y = placed.loc[placed["ratio"] < start, "y"]
    axes.plot([start] * len(y), y, "<", color=PALETTE[0], markersize=5, clip_on=False, zorder=4)
    return Drawing(f"ratios-{axis.replace(':', '-')}", figure, title, f"{title}. {describe_rows(placed)}.")


def _select_figure_rows(ratios: pd.DataFrame) -> pd.DataFrame:
    """Return a group's rows of the figure, or a row that says that no word differs."""
    over, under = select_extremes(ratios, MAX_FIGURE_WORDS)
    rows = pd.concat([over, under[::-1]])
    if rows.empty:
        empty = {"name": NO_WORD, "alt_text": NO_WORD, "series": "", "text": ""}
        return rows.reindex([0]).assign(**empty)
    series = np.where(rows["ratio"] > 1, MORE, LESS)
    alt_texts = [
        f"{side} {format_ratio(row)}" for side, (_, row) in zip(series, rows.iterrows(), strict=True)
    ]
    text = rows["n_both"].map("{:,}".format)
    return rows.assign(name=rows["word"].map(str), series=series, text=text, alt_text=alt_texts)
