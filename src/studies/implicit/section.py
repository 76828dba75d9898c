"""Build the report's section on the audits of implicit bias."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from src.report.drawing import Drawing
from src.report.explorer import build_rows
from src.report.findings import Findings
from src.report.folder import ReportFolder
from src.report.format import MAX_ROWS, to_records
from src.report.study import Section
from src.report.tables import describe, select_first
from src.studies.implicit import figures, model_ranking
from src.studies.implicit.model_ranking import IAT, null_statistic

# Maximum number of models whose figures and pairs the page shows.
DETAILED = 8
TEMPLATES = Path(__file__).with_name("templates")
# Column of the report's explorer -> columns of audits by CLES and by IAT.
EXPLORED = {
    "level": ("cles", "iat_signed"),
    "level_low": ("cles_low", "iat_low"),
    "level_high": ("cles_high", "iat_high"),
}
MIN_RANKED = 2  # models with every measure; with fewer the page has no ranking


def section(findings: Findings, folder: ReportFolder) -> Section:
    """Write the figures and tables of the audits."""
    audits = findings.of("implicit")
    folder.write_table(
        "audits", audits, "every audit of the sweep, all specifications and projections, unrounded"
    )
    rows, specification, others = select_first(audits)
    table = means(findings, rows)
    folder.write_table("audits-means", table, "implicit bias of each model: means over pairs of groups")
    models = [*dict.fromkeys(rows["model"])]
    context = {
        "specification": describe(specification),
        "others": others,
        "table": to_records(table),
        "labels": figures.LABELS,
        "digits": figures.DIGITS,
        "models": [
            _model_context(findings, rows[rows["model"] == name], number, folder)
            for number, name in enumerate(models[:DETAILED], 1)
        ],
        "left": len(models[DETAILED:]),
        "longest": MAX_ROWS,
        "ranked": ranking_context(findings, folder, min_models=MIN_RANKED),
    }
    # A row of the explorer for each pair of groups: the CLES, or the IAT, of the pair.
    is_iat = null_statistic(audits) == IAT
    complete = audits.reindex(columns=[*dict.fromkeys([*audits, *sum(EXPLORED.values(), ())])])
    values = {name: complete[iat].where(is_iat, complete[cles]) for name, (cles, iat) in EXPLORED.items()}
    pairs = build_rows(
        audits.assign(**values, n=audits["n_a"] + audits["n_b"]),
        study="implicit",
        group=audits["attribute"] + ": " + audits["group_a"] + ", " + audits["group_b"],
        measure=is_iat.map({True: "IAT", False: "CLES"}),
        numbers={name: name for name in (*values, "n")} | {"level_p": "p_null"},
    )
    return Section(
        rows=rows,
        explorer_rows=pairs,
        templates=TEMPLATES,
        context={"implicit": context},
        body=("implicit.html",),
        links=(("implicit", "Implicit bias"),),
    )


def means(findings: Findings, audits: pd.DataFrame) -> pd.DataFrame:
    """Compute means over unordered pairs of groups, per model, experiment and attribute.

    The interval comes from the bootstrap over faces, which draws the same faces in every pair. It is biased
    upwards for a measure that cannot be negative.

    Returns:
        Columns `model, exp, attribute, config, measure` (the job's `null_statistic`); `mean`, `low`, `high`
        and `null_mean` of the measure; `pairs` (number with the measure), `compared` (of these, with random
        partitions), `above` (of these, above their 95th percentile); `n_low` and `n_high` (smallest and
        largest number of faces of a group); means `cles_gap` and `iat`.
    """
    rows = []
    for (model, exp, config), job in audits.groupby(["model", "exp", "config"], sort=False):
        statistic = str(null_statistic(job).iloc[0])
        intervals = _intervals(findings, str(config), statistic)
        for attribute, pairs in job.groupby("attribute", sort=False):
            defined = pairs.dropna(subset=[statistic, "null_q95"])
            low, high = intervals.get(attribute, (np.nan, np.nan))
            sizes = pairs[["n_a", "n_b"]]
            row: dict[str, Any] = {"model": model, "exp": exp, "attribute": attribute, "measure": statistic}
            row |= {"mean": pairs[statistic].mean(), "low": low, "high": high}
            row |= {"null_mean": pairs["null_mean"].mean()}
            row |= {"above": int((defined[statistic] > defined["null_q95"]).sum()), "compared": len(defined)}
            row |= {"pairs": int(pairs[statistic].count()), "n_low": sizes.min(axis=None)}
            row |= {"n_high": sizes.max(axis=None), "cles_gap": pairs["cles_gap"].mean()}
            rows.append(row | {"iat": pairs["iat"].mean(), "config": config})
    return pd.DataFrame(rows)


def _model_context(
    findings: Findings, audits: pd.DataFrame, number: int, folder: ReportFolder
) -> dict[str, Any]:
    """Return the figures and pairs of groups of one model."""
    name = str(audits["model"].iloc[0])
    nulls: list[Drawing] = []
    for keys, rows in audits.groupby(["config", "attribute"], sort=False):
        config, attribute = map(str, keys)
        statistic, title = str(null_statistic(rows).iloc[0]), f"{name}: {attribute.replace('_', ' ')}"
        draws = findings.read(config, "draws")
        figure, alternative = figures.plot_against_null(draws, rows, title=title, statistic=statistic)
        nulls.append(Drawing(f"null-{number}-{len(nulls) + 1}", figure, title, alternative))
    frames: list[pd.DataFrame] = []
    set_names: set[str] = set()
    for config in dict.fromkeys(audits["config"]):
        if findings.has(config, "similarities"):
            similarities = findings.read(config, "similarities")
            # cles_semantic and iat_semantic may share sets of words: show each set once.
            frames.append(similarities[~similarities["set"].isin(set_names)])
            set_names |= set(similarities["set"])
    heatmaps: list[Drawing] = []
    if set_names:
        title = f"{name}: mean cosine of faces with words"
        figure, alternative = figures.heatmap(pd.concat(frames), title=title)
        heatmaps = [Drawing(f"cosines-{number}", figure, title, alternative)]
    return {
        "name": name,
        "heatmap": folder.write_figures(heatmaps),
        "nulls": folder.write_figures(nulls),
        "pairs": to_records(audits.assign(measure=null_statistic(audits))),
    }


def ranking_context(
    findings: Findings, folder: ReportFolder, *, min_models: int = 0
) -> dict[str, Any] | None:
    """Rank the models: tables and bubble chart of the specification with the most complete models.

    Return None if every audit is of a debiased model, or if fewer than `min_models` models have every
    measure.
    """
    audits = findings.of("implicit")
    measures, models = model_ranking.measures(audits), findings.models
    sets = dict(zip(models["model"], models["pretraining"], strict=True)) if "pretraining" in models else {}
    measures["pretraining"] = [sets.get(name) or "unknown" for name in measures["model"]]
    tables = model_ranking.split_by_specification(measures)
    if not tables or model_ranking.has_measures(tables[0]).sum() < min_models:
        return None
    ranked = tables[0].copy()
    for name, (attribute, column) in model_ranking.SOURCES.items():
        # A model without the measure has neither config nor draws.
        intervals = [
            _intervals(findings, str(config), column).get(attribute, (np.nan, np.nan))
            for config in ranked[f"{name}_config"]
        ]
        ranked[f"{name}_low"], ranked[f"{name}_high"] = zip(*intervals, strict=True)
    ranked = model_ranking.rank_models(ranked)
    pretraining = model_ranking.rank_pretraining(tables[0])
    folder.write_table("ranking-models", ranked, "models ranked by implicit bias")
    folder.write_table("ranking-pretraining", pretraining, "the same by pretraining set: means over models")
    if len(tables) > 1:
        folder.write_table(
            "ranking-others", pd.concat(tables[1:]), "models of other specifications, not ranked"
        )
    drawing = figures.bubbles(tables[0])
    row = tables[0].iloc[0]
    return {
        "models": to_records(ranked),
        "sets": to_records(pretraining),
        "bubbles": folder.write_figures([drawing] if drawing else []),
        "about": f"dataset {row['dataset']}, protocol {row['protocol']}, seed {row['seed']}",
        "groups": row["groups"],
        "digits_by_measure": {"competence": 3, "emotions": 3, "iat": 1},
        "others": [_describe_specification(table) for table in tables[1:]],
    }


def _describe_specification(models: pd.DataFrame) -> str:
    first = models.iloc[0]
    faces = f", faces {first['faces'][:8]}" if first["faces"] else ""
    names = ", ".join(map(str, models["model"]))
    return f"protocol {first['protocol']}, seed {first['seed']}, groups {first['groups']}{faces}: {names}"


def _intervals(findings: Findings, config: str, column: str) -> dict[Any, tuple[float, float]]:
    """Return the interval of the mean over pairs, by attribute."""
    if not findings.has(config, "draws"):
        return {}
    draws = findings.read(config, "draws")
    draws = draws[draws["kind"] == "bootstrap"]
    # A draw has the same faces in every pair.
    pair_means = draws.groupby(["attribute", "draw"], sort=False)[column].mean().dropna()
    return {
        name: (float(values.quantile(figures.INTERVAL[0])), float(values.quantile(figures.INTERVAL[1])))
        for name, values in pair_means.groupby(level="attribute", sort=False)
    }
