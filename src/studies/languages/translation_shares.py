"""Compute which share of a difference to English comes with translated ratings (docs/methods.md, 10.3)."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from src.configs import NATIVE, TRANSLATED
from src.metrics.jackknife import compare_by_ratio, compute_t_interval
from src.report.findings import Findings
from src.report.format import format_number
from src.studies.languages.differences import INTERPRETED, JOB
from src.studies.languages.overview import name_language
from src.studies.languages.validity import LANGUAGE, RATINGS
from src.studies.shared.paired_changes import join_jobs

MEASURE = "level"
CONFIGS = ["config_english", "config_translated", "config_native"]
NUMBERS = [
    f"{number}{end}" for number in ("difference", "explained", "share") for end in ("", "_low", "_high")
]
VALUES = ["value_english", "value_translated", "value_native"]
COLUMNS = [*JOB, LANGUAGE, "measure", "item", *VALUES, *NUMBERS, "df", *CONFIGS, "reason"]
TOO_SMALL = "the difference to English is below 3 of its standard errors, or has no variance"
# Differences that the ratios compare, of values in English, with translated and with native ratings.
CONTRASTS = np.array([[0, 1, -1], [-1, 1, 0]]).T
MARGIN = 0.1  # of `compare_by_ratio`, whose statement on equivalence is not used


def compute_shares(findings: Findings, table: pd.DataFrame) -> pd.DataFrame:
    """Compute the share of each difference of levels that is gone with ratings by people of the language.

    Args:
        findings: findings of a sweep.
        table: result of `compute_differences`.

    Returns:
        One row per item and job in another language with translated ratings that has a counterpart with
        native ones, where both differences to English are interpreted: `difference` (translated minus
        English), `explained` (translated minus native) and `share`, explained / difference, with intervals;
        `reason`, why there is no share.
    """
    names = [*JOB, LANGUAGE, "config_english"]
    rows = table[(table["measure"] == MEASURE) & table["verdict"].isin(INTERPRETED)]
    keys = {name: rows[name].fillna("") for name in names}
    translated, native = (
        rows.assign(**keys)[rows[RATINGS] == ratings][[*names, "config"]].drop_duplicates()
        for ratings in (TRANSLATED, NATIVE)
    )
    pairs = translated.merge(native, on=names, suffixes=("_translated", "_native"))
    shares = [
        {**{str(name): value for name, value in pair.items()}, **share}
        for pair in pairs.to_dict("records")
        for share in _compare(findings, [pair[name] for name in CONFIGS], {*rows["item"]})
    ]
    return pd.DataFrame(shares, columns=COLUMNS)


def _compare(findings: Findings, configs: list[str], items: set[str]) -> Iterator[dict[str, Any]]:
    """Compare the levels of three jobs, by item: in English, with translated and with native ratings."""
    for joint in join_jobs(findings, configs):
        count = len(joint.names)
        for position, (measure, item) in enumerate(joint.names[["measure", "item"]].itertuples(index=False)):
            if measure != MEASURE or item not in items:
                continue
            positions = position + count * np.arange(len(configs))
            levels, replicates = joint.values[positions], joint.replicates
            ways = ((sign, statistics[:, positions] @ CONTRASTS) for sign, statistics in replicates.ways)
            cells = replicates.cells[:, positions] @ CONTRASTS
            replicates = replace(replicates, ways=tuple(ways), cells=cells)
            covariance, df = replicates.covariance(), replicates.df
            explained, difference = (levels @ CONTRASTS).tolist()
            ratio = compare_by_ratio(explained, difference, covariance, df, MARGIN)
            row = {"measure": measure, "item": item, "df": df}
            row |= dict(zip(VALUES, levels.tolist(), strict=True))
            for name, value, variance in zip(
                ("explained", "difference"), (explained, difference), replicates.variance(), strict=True
            ):
                low, high = compute_t_interval(value, float(variance), df)
                row |= {name: value, f"{name}_low": low, f"{name}_high": high}
            row |= {"share": ratio.value, "share_low": ratio.low, "share_high": ratio.high}
            yield row | {"reason": "" if np.isfinite(ratio.value) else replicates.reason or TOO_SMALL}


def describe_shares(shares: pd.DataFrame) -> list[str]:
    """Describe the shares of each model and language in a sentence."""
    sentences = []
    for (model, language), rows in shares.groupby(["model", LANGUAGE], sort=False):
        defined = rows.dropna(subset=["share"])
        sentence = (
            f"{model}, {name_language(str(language))}: {len(defined)} of {len(rows)} differences of levels "
            "to English are large enough to say how much of them comes with translated ratings"
        )
        if len(defined):
            low, median, high = (format_number(100 * defined["share"].quantile(q), 0) for q in (0, 0.5, 1))
            clear = int((defined["share_low"] > 0).sum())
            sentence += (
                f": a median of {median}% ({low}% to {high}%) is gone with ratings by its speakers; the "
                f"interval of {clear} of these shares is above 0"
            )
        sentences.append(f"{sentence}.")
    return sentences
