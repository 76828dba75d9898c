"""Build the report's section on the audits of implicit bias, and the tables of the models' ranking."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from src.report.drawing import Drawing
from src.report.explorer import build_rows
from src.report.findings import Findings
from src.report.folder import ReportFolder
from src.report.format import to_records
from src.report.study import Section
from src.report.tables import describe, select_first_specification
from src.studies.implicit import figures, model_ranking
from src.studies.implicit.model_ranking import IAT, infer_null_statistic

# Maximum number of models whose figures and pairs of groups the page shows.
MAX_DETAILED_MODELS = 8
TEMPLATES = Path(__file__).with_name("templates")
# Column of the report's explorer -> columns of analyses.csv for audits by CLES and by IAT.
EXPLORER_COLUMNS = {
    "level": ("cles", "iat_signed"),
    "level_low": ("cles_low", "iat_low"),
    "level_high": ("cles_high", "iat_high"),
}
MIN_RANKED = 2  # minimum number of models with every measure for a ranking on the page


def build_section(findings: Findings, folder: ReportFolder) -> Section:
    """Write the figures and tables of the audits; return the section."""
    audits = findings.of("implicit")
    folder.write_table(
        "audits", audits, "every audit of the sweep, all specifications and projections, unrounded"
    )
    rows, specification, n_others = select_first_specification(audits)
    model_means = average_pairs(findings, rows)
    folder.write_table("audits-means", model_means, "implicit bias of each model: means over pairs of groups")
    models = [*dict.fromkeys(rows["model"])]
    context = {
        "specification": describe(specification),
        "n_other_specifications": n_others,
        "means": to_records(model_means),
        "labels": figures.LABELS,
        "digits": figures.DIGITS,
        "models": [
            _build_model_context(findings, rows[rows["model"] == name], number, folder)
            for number, name in enumerate(models[:MAX_DETAILED_MODELS], 1)
        ],
        "n_models_omitted": len(models[MAX_DETAILED_MODELS:]),
        "ranking": build_ranking_context(findings, folder, min_models=MIN_RANKED),
    }
    # The explorer has one row per pair of groups and attribute, with its CLES or its IAT.
    is_iat = infer_null_statistic(audits) == IAT
    complete = audits.reindex(columns=[*dict.fromkeys([*audits, *sum(EXPLORER_COLUMNS.values(), ())])])
    values = {
        name: complete[iat].where(is_iat, complete[cles]) for name, (cles, iat) in EXPLORER_COLUMNS.items()
    }
    explorer_rows = build_rows(
        audits.assign(**values, n=audits["n_a"] + audits["n_b"]),
        study="implicit",
        group=audits["attribute"] + ": " + audits["group_a"] + ", " + audits["group_b"],
        measure=is_iat.map({True: "IAT", False: "CLES"}),
        numbers={name: name for name in (*values, "n")} | {"level_p": "p_null"},
    )
    return Section(
        rows=rows,
        explorer_rows=explorer_rows,
        templates=TEMPLATES,
        context={"implicit": context},
        body=("implicit.html",),
        links=(("implicit", "Implicit bias"),),
    )


def average_pairs(findings: Findings, audits: pd.DataFrame) -> pd.DataFrame:
    """Average statistics over unordered pairs of groups, per model, experiment and attribute.

    The interval comes from the bootstrap over faces, which draws the same faces in every pair. It is biased
    upwards for a measure that cannot be negative.

    Returns:
        Columns `model, exp, attribute, config`; `measure` (the statistic that is compared with its null), its
        `mean` with the interval `low, high`, and `null_mean`; `pairs` (number of pairs with the measure),
        `compared` (number of these that have a null), `above` (number of these above its 95th percentile);
        `n_low` and `n_high` (smallest and largest number of faces of a group); the means `cles_gap` and
        `iat`.
    """
    rows = []
    for (model, exp, config), job in audits.groupby(["model", "exp", "config"], sort=False):
        statistic = str(infer_null_statistic(job).iloc[0])
        intervals = _compute_intervals(findings, str(config), statistic)
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


def _build_model_context(
    findings: Findings, audits: pd.DataFrame, number: int, folder: ReportFolder
) -> dict[str, Any]:
    """Write the figures of one model; return the template's values, with its pairs of groups."""
    name = str(audits["model"].iloc[0])
    nulls: list[Drawing] = []
    for keys, rows in audits.groupby(["config", "attribute"], sort=False):
        config, attribute = map(str, keys)
        statistic, title = str(infer_null_statistic(rows).iloc[0]), f"{name}: {attribute.replace('_', ' ')}"
        draws = findings.read(config, "draws")
        figure, alt_text = figures.plot_against_null(draws, rows, title=title, statistic=statistic)
        nulls.append(Drawing(f"null-{number}-{len(nulls) + 1}", figure, title, alt_text))
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
        figure, alt_text = figures.draw_heatmap(pd.concat(frames), title=title)
        heatmaps = [Drawing(f"cosines-{number}", figure, title, alt_text)]
    return {
        "name": name,
        "heatmap": folder.write_figures(heatmaps),
        "nulls": folder.write_figures(nulls),
        "pairs": to_records(audits.assign(measure=infer_null_statistic(audits))),
    }


def build_ranking_context(
    findings: Findings, folder: ReportFolder, *, min_models: int = 0
) -> dict[str, Any] | None:
    """Rank the models of the specification with the most complete models; write tables and bubble chart.

    Returns the values of ranking.html; None if every audit has debiasing or perturbed pictures, or if fewer
    than `min_models` models have every measure.
    """
    audits = findings.of("implicit")
    measures, models = model_ranking.compute_measures(audits), findings.models
    pretraining_sets = (
        dict(zip(models["model"], models["pretraining"], strict=True)) if "pretraining" in models else {}
    )
    measures["pretraining"] = [pretraining_sets.get(name) or "unknown" for name in measures["model"]]
    tables = model_ranking.split_by_specification(measures)
    if not tables or model_ranking.has_measures(tables[0]).sum() < min_models:
        return None
    ranked = tables[0].copy()
    for name, (attribute, column) in model_ranking.SOURCES.items():
        # A model without the measure has neither config nor draws.
        intervals = [
            _compute_intervals(findings, str(config), column).get(attribute, (np.nan, np.nan))
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
    drawing = figures.draw_bubbles(tables[0])
    row = tables[0].iloc[0]
    return {
        "models": to_records(ranked),
        "pretraining": to_records(pretraining),
        "bubbles": folder.write_figures([drawing] if drawing else []),
        "specification": f"dataset {row['dataset']}, protocol {row['protocol']}, seed {row['seed']}",
        "groups": row["groups"],
        "digits_by_measure": {"competence": 3, "emotions": 3, "iat": 1},
        "unranked": [_describe_specification(table) for table in tables[1:]],
    }


def _describe_specification(models: pd.DataFrame) -> str:
    first = models.iloc[0]
    faces = f", faces {first['faces'][:8]}" if first["faces"] else ""
    names = ", ".join(map(str, models["model"]))
    return f"protocol {first['protocol']}, seed {first['seed']}, groups {first['groups']}{faces}: {names}"


def _compute_intervals(findings: Findings, config: str, column: str) -> dict[Any, tuple[float, float]]:
    """Compute the bootstrap interval of the mean over pairs of groups, by attribute."""
    if not findings.has(config, "draws"):
        return {}
    draws = findings.read(config, "draws")
    draws = draws[draws["kind"] == "bootstrap"]
    low, high = figures.BOOTSTRAP_QUANTILES
    # A draw has the same faces in every pair.
    pair_means = draws.groupby(["attribute", "draw"], sort=False)[column].mean().dropna()
    return {
        name: (float(values.quantile(low)), float(values.quantile(high)))
        for name, values in pair_means.groupby(level="attribute", sort=False)
    }
