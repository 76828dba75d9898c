"""What the page says of the audits of implicit bias."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from src.report.drawing import Drawing
from src.report.findings import Findings, first_reading, of_reading, readings
from src.report.folder import Folder
from src.report.format import LONGEST, records
from src.report.study import Section
from src.report.tables import said
from src.studies.implicit import figures, model_ranking
from src.studies.implicit.bubble_chart import bubbles
from src.studies.implicit.terminal import measure

# Models whose figures and pairs the page shows.
DETAILED = 8
TEMPLATES = Path(__file__).with_name("templates")
INTERVAL = (0.025, 0.975)
RANKED = 2


def section(findings: Findings, folder: Folder) -> Section:
    """Write figures and tables of the audits.

    Args:
        findings: of a sweep with audits.
        folder: of the report.
    """
    return Section(
        rows=first_reading(findings.of("implicit")),
        templates=TEMPLATES,
        context={"implicit": context(findings, folder)},
        body=("implicit.html",),
        links=(("implicit", "Implicit bias"),),
    )


def means(findings: Findings, audits: pd.DataFrame) -> pd.DataFrame:
    """Means over unordered pairs of groups, per model, experiment and attribute.

    The interval is of the bootstrap over faces, which draws the same faces in every pair. A measure that
    cannot be below zero leans upwards in it.

    Args:
        findings: whose draws are read.
        audits: rows of analyses.csv of audits.

    Returns:
        `model, exp, attribute, measure` (`cles_gap` or `iat`, what the null is of), `mean` of it, `low`,
        `high`, `null_mean`, `above` of `compared` pairs (above the 95th percentile of their random
        partitions), `pairs`, `n_low` and `n_high` (faces of a group), `cles_gap`, `iat`, `config`.
    """
    rows = []
    for (model, exp, config), job in audits.groupby(["model", "exp", "config"], sort=False):
        of = str(measure(job).iloc[0])
        intervals = _intervals(findings, str(config), of)
        for attribute, own in job.groupby("attribute", sort=False):
            known = own.dropna(subset=[of, "null_q95"])
            low, high = intervals.get(attribute, (np.nan, np.nan))
            sizes = own[["n_a", "n_b"]]
            row = {"model": model, "exp": exp, "attribute": attribute, "measure": of, "mean": own[of].mean()}
            row |= {"low": low, "high": high, "null_mean": own["null_mean"].mean()}
            row |= {"above": int((known[of] > known["null_q95"]).sum()), "compared": len(known)}
            row |= {"pairs": int(own[of].count()), "n_low": sizes.min(axis=None)}
            row |= {"n_high": sizes.max(axis=None), "cles_gap": own["cles_gap"].mean()}
            rows.append(row | {"iat": own["iat"].mean(), "config": config})
    return pd.DataFrame(rows)


def context(findings: Findings, folder: Folder) -> dict[str, Any]:
    """What the template `implicit.html` is given; figures and tables are written."""
    every = findings.of("implicit")
    folder.table("audits", every, "every audit of the sweep, all readings and projections, to the last bit")
    found = readings(every)
    shown = of_reading(every, found[0])
    table = means(findings, shown)
    folder.table("audits-means", table, "implicit bias of each model: means over pairs of groups")
    models = [*dict.fromkeys(shown["model"])]
    detailed = [
        model(findings, shown[shown["model"] == name], number, folder)
        for number, name in enumerate(models[:DETAILED], 1)
    ]
    return {
        "reading": said(found[0]),
        "others": len(found) - 1,
        "table": records(table),
        "measures": figures.MEASURES,
        "digits": figures.DIGITS,
        "models": detailed,
        "left": len(models) - len(detailed),
        "longest": LONGEST,
        "ranked": ranked(findings, folder, least=RANKED),
    }


def model(findings: Findings, own: pd.DataFrame, number: int, folder: Folder) -> dict[str, Any]:
    """Figures and pairs of groups of one model."""
    name = str(own["model"].iloc[0])
    drawn: list[Drawing] = []
    nothing = pd.DataFrame({"kind": []})
    for keys, rows in own.groupby(["config", "attribute"], sort=False):
        config, attribute = map(str, keys)
        of = str(measure(rows).iloc[0])
        title = f"{name}: {attribute.replace('_', ' ')}"
        draws = findings.read(config, "draws") if findings.has(config, "draws") else nothing
        figure, alternative = figures.against_null(draws, rows, title=title, of=of)
        drawn.append(Drawing(f"null-{number}-{len(drawn) + 1}", figure, title, alternative))
    return {
        "name": name,
        "heatmap": folder.pictures(_heatmap(findings, own, number)),
        "nulls": folder.pictures(drawn),
        "pairs": records(own.assign(measure=measure(own))),
    }


def ranked(findings: Findings, folder: Folder, *, least: int = 0) -> dict[str, Any] | None:
    """The ranking of models: tables and the bubble chart of the reading with most models.

    Args:
        findings: whose audits.
        folder: for the tables and the figure.
        least: None is returned where fewer models than that can be ranked.
    """
    measured = model_ranking.with_pretraining(
        model_ranking.measures(findings.of("implicit")), findings.models
    )
    parts = model_ranking.readings(measured)
    if not parts or model_ranking.complete(parts[0]).sum() < least:
        return None
    models, sets = (
        model_ranking.ranking(_with_intervals(findings, parts[0])),
        model_ranking.by_pretraining(parts[0]),
    )
    folder.table("ranking-models", models, "models ranked by implicit bias")
    folder.table("ranking-pretraining", sets, "the same by pretraining set: means over models")
    if len(parts) > 1:
        folder.table("ranking-others", pd.concat(parts[1:]), "models of other readings, not in the ranking")
    drawing = bubbles(parts[0])
    first = parts[0].iloc[0]
    return {
        "models": records(models),
        "sets": records(sets),
        "bubbles": folder.pictures([drawing] if drawing else []),
        "about": f"dataset {first['dataset']}, protocol {first['protocol']}, seed {first['seed']}",
        "groups": first["groups"],
        "measures": {"competence": 3, "emotions": 3, "iat": 1},
        "others": [_other(part) for part in parts[1:]],
    }


def _other(part: pd.DataFrame) -> str:
    first = part.iloc[0]
    faces = f", faces {first['faces'][:8]}" if first["faces"] else ""
    models = ", ".join(map(str, part["model"]))
    return f"protocol {first['protocol']}, seed {first['seed']}, groups {first['groups']}{faces}: {models}"


def _with_intervals(findings: Findings, models: pd.DataFrame) -> pd.DataFrame:
    found = models.copy()
    for name in model_ranking.MEASURES:
        attribute, of = model_ranking.WHERE[name]
        # A model without the measure has no config, and no draws.
        ends = [
            _intervals(findings, str(config), of).get(attribute, (np.nan, np.nan))
            for config in models[f"{name}_config"]
        ]
        found[f"{name}_low"], found[f"{name}_high"] = zip(*ends, strict=True)
    return found


def _intervals(findings: Findings, config: str, of: str) -> dict[Any, tuple[float, float]]:
    """Of the mean over pairs, by attribute."""
    if not findings.has(config, "draws"):
        return {}
    drawn = findings.read(config, "draws")
    drawn = drawn[drawn["kind"] == "bootstrap"]
    # The same draw is of the same faces in every pair.
    averaged = drawn.groupby(["attribute", "draw"], sort=False)[of].mean().dropna()
    return {
        name: (float(own.quantile(INTERVAL[0])), float(own.quantile(INTERVAL[1])))
        for name, own in averaged.groupby(level="attribute", sort=False)
    }


def _heatmap(findings: Findings, own: pd.DataFrame, number: int) -> list[Drawing]:
    parts: list[pd.DataFrame] = []
    known: set[str] = set()
    for config in dict.fromkeys(own["config"]):
        if findings.has(config, "similarities"):
            found = findings.read(config, "similarities")
            # The semantic differential is read twice: by its words, and by its pairs.
            parts.append(found[~found["set"].isin(known)])
            known |= set(found["set"])
    if not known:
        return []
    title = f"{own['model'].iloc[0]}: mean cosine of faces with words"
    figure, alternative = figures.heatmap(pd.concat(parts), title=title)
    return [Drawing(f"cosines-{number}", figure, title, alternative)]
