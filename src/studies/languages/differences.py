"""Compute measures by language and their differences to English (docs/methods.md, section 10)."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from src.configs import ENGLISH, split_language
from src.report.findings import Findings
from src.report.study import NOT_INTERPRETED
from src.studies.languages.validity import LANGUAGE, NO, RATINGS, YES, add_placement
from src.studies.shared.job_pairs import Pair, pair_jobs
from src.studies.shared.paired_changes import compare_pair, estimate_means, explain_missing

JOB = ["study", "exp", "paper", "model", "dataset", "debias", "perturb", "protocol", "seed"]
KEYS = ["measure", "item"]
NUMBERS = ["value", "low", "high", "value_english"]
NUMBERS += ["difference", "difference_low", "difference_high", "p", "df"]
# Texts of a job, and those that its model's tokenizer does not read whole, which the job leaves out.
COUNTS = ["n_texts", "n_unread"]
COLUMNS = [
    *JOB,
    LANGUAGE,
    *KEYS,
    "text",
    "checks",
    "placed",
    *COUNTS,
    RATINGS,
    *NUMBERS,
    "verdict",
    "config",
    "config_english",
    "reason",
]
# Measure -> its columns in analyses.csv: value, and ends of the interval if it has one.
MEASURES = {
    "level": ("level", "level_low", "level_high"),
    "rho": ("rho", "ci_low", "ci_high"),
    "measured": ("measured", "measured_low", "measured_high"),
    "validity": ("validity",),
}
# Statements on a difference to English.
DIFFERS, UNCLEAR = "differs", "unclear"
NOT_PLACED = f"{NOT_INTERPRETED}: texts not placed"
NOT_CHECKED = f"{NOT_INTERPRETED}: unknown if texts are placed"
REFUSED = (NOT_PLACED, NOT_CHECKED)
INTERPRETED = (DIFFERS, UNCLEAR)  # verdicts of differences that are interpreted
TARGETS_DIFFER = "the targets are texts, which differ between languages: no paired interval"


def has_languages(findings: Findings) -> bool:
    """Return whether a job of the sweep is in another language than English."""
    frames = [*findings.frames.values(), findings.jobs]
    names = {str(name) for frame in frames if "protocol" in frame for name in frame["protocol"].dropna()}
    return any(split_language(name)[1] != ENGLISH for name in names)


def compute_differences(findings: Findings) -> pd.DataFrame:
    """Compute `MEASURES` and mean scores by language, and their differences to English.

    Returns:
        One row per job, measure and item (stratum), with `COLUMNS`, for all specifications: `value` with its
        interval, whether the job's texts are `placed` (see `add_placement`), and for languages other than
        English the `difference` with its paired interval; `reason`, why it has none. Requested jobs without
        results have a single row.
    """
    findings = split_languages(findings)
    jobs = [
        pd.DataFrame(_list_values(findings, str(config), rows)).assign(**_name(rows, str(study)))
        for study, frame in findings.frames.items()
        for config, rows in frame.groupby("config", sort=False)
    ]
    if not jobs:
        return pd.DataFrame(columns=COLUMNS)
    values = add_placement(pd.concat(jobs, ignore_index=True), findings)
    tables = [values[values[LANGUAGE] == ENGLISH]]
    for pair in pair_jobs(findings, LANGUAGE, [*findings.frames], ENGLISH):
        if not pair.configs[1]:
            row = {"study": pair.study, **pair.job, LANGUAGE: pair.treatment, "reason": pair.reason}
            tables.append(pd.DataFrame([row]))
            continue
        english, rows = (values[values["config"] == config] for config in pair.configs)
        tables.append(_compare(findings, pair, english, rows))
    table = pd.concat(tables, ignore_index=True).reindex(columns=COLUMNS)
    return table.assign(**{name: table[name].fillna("") for name in ("verdict", "reason")})


def split_languages(findings: Findings) -> Findings:
    """Move the language from the name of the protocol to a column; leave studies without levels out."""

    def split(frame: pd.DataFrame) -> pd.DataFrame:
        if "protocol" not in frame:
            return frame
        names = [split_language(str(name)) for name in frame["protocol"]]
        return frame.assign(
            protocol=[protocol for protocol, _ in names], **{LANGUAGE: [language for _, language in names]}
        )

    frames = {
        study: split(frame) for study, frame in findings.frames.items() if {"stratum", "level"} <= {*frame}
    }
    return replace(findings, frames=frames, jobs=split(findings.jobs))


def _name(rows: pd.DataFrame, study: str) -> dict[str, Any]:
    """Return the names, `COUNTS` and `RATINGS` of a job from its analyses; empty texts are those of pairs."""
    columns = rows.reindex(columns=[*JOB, LANGUAGE, "config", *COUNTS, RATINGS])
    columns = columns.fillna({"paper": "", RATINGS: ""})
    names = columns.astype(dict.fromkeys(COUNTS, float)).iloc[0].to_dict()
    return {**{str(name): value for name, value in names.items()}, "study": study}


def _list_values(findings: Findings, config: str, rows: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the values of a job, with their intervals."""
    for row in rows.to_dict("records"):
        for measure, columns in MEASURES.items():
            numbers = [row.get(column, np.nan) for column in columns]
            yield {"measure": measure, "item": row["stratum"], **dict(zip(NUMBERS, numbers, strict=False))}
    targets = findings.read(config, "targets")
    estimates = estimate_means(targets) if {"intrinsic", "extrinsic"} <= {*targets} else None
    if estimates is None:
        return
    replicates = estimates.replicates
    quantile = float(special.stdtrit(replicates.df, 0.975)) if replicates.df > 0 else np.nan
    half_widths = quantile * np.sqrt(replicates.variance())
    names = estimates.names[KEYS].itertuples(index=False, name=None)
    for (measure, item), value, half in zip(names, estimates.values, half_widths, strict=True):
        yield {"measure": measure, "item": item, "value": value, "low": value - half, "high": value + half}


def _compare(findings: Findings, pair: Pair, english: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Compare the values of a job with those of the job in English: the columns from `value_english` on."""
    columns = {"value": "value_english", "placed": "placed_english", "config": "config_english"}
    english = english.rename(columns=columns)[[*KEYS, *columns.values()]]
    rows = rows.merge(english, on=KEYS, how="left")
    changes, reason = pd.DataFrame(columns=[*KEYS, "reason"]), pair.reason
    if not reason and rows["text_targets"].any():
        reason = TARGETS_DIFFER
    elif not reason:
        blocks = [block for block, _ in compare_pair(findings, pair)]
        # Mean scores alone are of other targets than the values.
        if any(block["measure"].eq("level").any() for block in blocks):
            changes = pd.concat(blocks, ignore_index=True)
        else:
            reason = explain_missing(findings, pair)
    names = {"change_low": "difference_low", "change_high": "difference_high", "p": "p", "df": "df"}
    changes = changes.rename(columns=names).reindex(columns=[*KEYS, *names.values(), "reason"])
    rows = rows.merge(changes, on=KEYS, how="left")
    rows["reason"] = rows["reason"].fillna(reason)
    rows["difference"] = rows["value"] - rows["value_english"]
    both = rows["placed"].where(rows["placed"] != YES, rows["placed_english"])
    has_interval = rows["difference_low"].notna()
    excludes_zero = (rows["difference_low"] > 0) | (rows["difference_high"] < 0)
    rows["verdict"] = np.select(
        [~has_interval, both == NO, both != YES, excludes_zero],
        ["", NOT_PLACED, NOT_CHECKED, DIFFERS],
        UNCLEAR,
    )
    return rows
