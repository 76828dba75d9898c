"""Build the report's section on matched pictures."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd

from src.report.drawing import shorten
from src.report.explorer import build_rows
from src.report.findings import Findings
from src.report.folder import ReportFolder
from src.report.forest_plot import format_digits
from src.report.format import MAX_ROWS, to_records
from src.report.study import Section
from src.report.tables import describe, select_first_specification
from src.studies.matched import carry_over
from src.studies.matched.captions import ALL_CAPTIONS, ALL_GROUPS
from src.studies.matched.experiment import COLUMNS
from src.studies.matched.figures import draw_levels, draw_ranks, draw_shares
from src.studies.shared.real_shares import VERDICTS

TEMPLATES = Path(__file__).with_name("templates")
# Column of the report's explorer -> column of the analyses.
EXPLORED = {
    "share": {"level": "share_topk", "level_low": "share_low", "level_high": "share_high", "level_p": "p"},
    "level": {name: name for name in ("level", "level_low", "level_high", "level_p", "level_q", "slope")},
}
EXPLORED["share"] |= {"level_q": "q", "n": "n"}
EXPLORED["level"] |= {name: name for name in ("slope_low", "slope_high", "rho", "ci_low", "ci_high", "n")}
ALPHA = 0.05


def split_measures(analyses: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Split analyses into rows of captions that retrieve pictures, and of pictures that retrieve words."""
    complete = analyses.reindex(columns=[*dict.fromkeys([*analyses, *COLUMNS, *carry_over.COLUMNS])])
    has_caption = complete["caption"].notna()
    return complete[has_caption], complete[~has_caption]


def build_section(findings: Findings, folder: ReportFolder) -> Section:
    """Write the forest plots and the tables."""
    analyses = findings.of("matched")
    folder.write_table("matched", analyses, "matched pictures, all specifications, unrounded")
    rows, specification, others = select_first_specification(analyses)
    captions, words = split_measures(rows)
    drawings = []
    for measured, draw, text in (
        (captions, draw_shares, "first retrieved"),
        (captions, draw_ranks, "order within sets"),
        (words, draw_levels, "level within sets"),
    ):
        for number, (exp, frame) in enumerate(measured.groupby("exp", sort=False), 1):
            models = [*dict.fromkeys(frame["model"])]
            drawing = draw(frame, title=f"{exp}: {text}", models=models)
            drawings.append(replace(drawing, name=f"{drawing.name}-{number}"))
    is_mean = captions["caption"] == ALL_CAPTIONS
    first_rows = captions.drop_duplicates(["model", "exp", "caption"])
    by_caption = first_rows[first_rows["caption"] != ALL_CAPTIONS]
    context = {
        "specification": describe(specification),
        "others": others,
        "pictures": folder.write_figures(drawings),
        "means": to_records(captions[is_mean]),
        "captions": to_records(by_caption.head(MAX_ROWS)),
        "real": to_records(by_caption[by_caption["amplification"].notna()].head(MAX_ROWS)),
        "rows": to_records(captions[~is_mean].head(MAX_ROWS)),
        "levels": to_records(words),
        "left": max(0, len(captions[~is_mean]) - MAX_ROWS),
        "all_captions": ALL_CAPTIONS,
    }
    return Section(
        rows=rows,
        explorer_rows=_explore(analyses),
        templates=TEMPLATES,
        context={"matched": context},
        body=("matched.html",),
        conclusions=draw_conclusions(analyses),
        links=(("matched", "Matched pictures"),),
    )


def _explore(analyses: pd.DataFrame) -> pd.DataFrame:
    captions, words = split_measures(analyses)
    names = captions["caption"] + ": " + captions["group"]
    frames = [
        build_rows(frame, study="matched", group=group, measure=measure, numbers=EXPLORED[key])
        for key, measure, frame, group in (
            ("share", "share of first retrieved", captions, names),
            ("level", "level within sets", words, words["group"]),
        )
        if len(frame)
    ]
    return pd.concat(frames, ignore_index=True)


def draw_conclusions(analyses: pd.DataFrame) -> list[str]:
    """Return sentences about the first specification: shares, order, usefulness, real shares and levels."""
    if analyses.empty:
        return []
    captions, words = split_measures(select_first_specification(analyses)[0])
    sentences = [
        text
        for _, rows in captions.groupby(["exp", "model"], sort=False)
        for text in _describe_captions(rows)
    ]
    return sentences + [
        text for _, rows in words.groupby(["exp", "model"], sort=False) for text in _describe_levels(rows)
    ]


def _describe_captions(rows: pd.DataFrame) -> Iterator[str]:
    means, captions = rows[rows["caption"] == ALL_CAPTIONS], rows[rows["caption"] != ALL_CAPTIONS]
    name = f"{rows['exp'].iloc[0]}, {shorten(str(rows['model'].iloc[0]))}"
    n_captions = captions["caption"].nunique()
    row = means.iloc[int((means["share_topk"] - means["base_share"]).abs().to_numpy().argmax())]
    yield (
        f"{name}: of the pictures that {n_captions} captions retrieve first, "
        f"{_quote(row, 'share_topk', 'share')} show {row['group']} "
        f"(base {format_digits(row['base_share'])}{_quote_null(row, '')}), the largest departure; "
        f"recall of the right pictures {format_digits(row['recall'])}, of a random ranker "
        f"{format_digits(row['recall_random'])}."
    )
    row = means.iloc[int((means["rank"] - 0.5).abs().to_numpy().argmax())]
    yield (
        f"{name}: within a set, pictures of {row['group']} have the mean rank {_quote(row, 'rank', 'rank')} "
        f"(0 nearest, .5 without effect{_quote_null(row, 'rank_')})."
    )
    q = captions.groupby("caption")[["q", "rank_q"]].min()
    if q.notna().any(axis=None):
        yield (
            f"{name}: q ≤ .05 for a group in {int((q['q'] <= ALPHA).sum())} of {n_captions} captions by "
            f"share, in {int((q['rank_q'] <= ALPHA).sum())} by order within sets."
        )
    yield from _describe_real_shares(name, means, captions)


def _describe_real_shares(name: str, means: pd.DataFrame, captions: pd.DataFrame) -> Iterator[str]:
    compared = captions.drop_duplicates("caption")
    compared = compared[compared["amplification"].notna()]
    if compared.empty:
        return
    counts = {verdict: int((compared["verdict"] == verdict).sum()) for verdict in VERDICTS}
    row = means.iloc[0]
    verdict = f": {row['verdict']}" if isinstance(row["verdict"], str) and row["verdict"] else ""
    without = len(compared) - sum(counts.values())
    yield (
        f"{name}: the retrieved share of a subject's majority differs from its real share by "
        f"{_quote(row, 'amplification', 'amplification')} on average{verdict}; of {len(compared)} captions "
        f"{counts['amplifies']} amplify it, {counts['reduces']} reduce it, {counts['undecided']} are "
        f"undecided and {without} have no interval; as the pool holds about as many pictures of each group, "
        "a fair ranker reduces every majority."
    )


def _describe_levels(rows: pd.DataFrame) -> Iterator[str]:
    name = f"{rows['exp'].iloc[0]}, {shorten(str(rows['model'].iloc[0]))}"
    groups = rows[(rows["group"] != ALL_GROUPS) & rows["level"].notna()]
    if groups.empty:
        yield f"{name}: the level within sets is undefined."
        return
    row = groups.iloc[int(groups["level"].abs().to_numpy().argmax())]
    total = rows[rows["group"] == ALL_GROUPS].iloc[0]
    p = f", p = {format_digits(row['level_p'], 3)}" if pd.notna(row["level_p"]) else ""
    yield (
        f"{name}: within a set, pictures of {row['group']} retrieve words whose valence differs by "
        f"{_quote(row, 'level', 'level', 3)} from that of the other pictures{p}, the largest level of a "
        f"group; ρ within sets {_quote(total, 'rho', 'ci')}."
    )


def _quote(row: pd.Series, value: str, ends: str, digits: int = 2) -> str:
    """Return a value with its interval, or with "no interval"."""
    text = format_digits(row[value], digits)
    if pd.isna(row[f"{ends}_low"]):
        return f"{text} (no interval)"
    low, high = (format_digits(row[f"{ends}_{end}"], digits) for end in ("low", "high"))
    return f"{text} [{low}, {high}]"


def _quote_null(row: pd.Series, prefix: str) -> str:
    if pd.isna(row[f"{prefix}null_low"]):
        return ""
    low, high = (format_digits(row[f"{prefix}null_{end}"]) for end in ("low", "high"))
    p = f", p = {format_digits(row[f'{prefix}p'], 3)}" if pd.notna(row[f"{prefix}p"]) else ""
    return f"; permutations within sets {low} to {high}{p}"
