"""Build the explorer of a page: all analyses as data, with the script that filters, sorts and plots them."""

import base64
import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import vl_convert
from markupsafe import Markup

from src.report.findings import SPECIFICATION, list_specifications, select_specification
from src.report.format import COLUMNS, MAX_ROWS, to_records
from src.report.tables import describe

TEMPLATES = Path(__file__).with_name("templates")
# Column of texts -> heading.
TEXTS = {"model": "model", "exp": "experiment", "group": "group", "status": "status", "measure": "measure"}
TEXTS |= {"study": "study", "specification": "specification"}
# Columns of texts that the table always has; it has the others only if their texts differ.
ALWAYS = ("model", "exp", "group", "status")
# Optional column of the rows: a sample of the units of an analysis, see `sample_units`.
UNITS = "units"
# Scatter plot of an analysis: maximum number of units and of named units; number of steps of an axis.
MAX_UNITS, MAX_NAMED, STEPS = 100, 5, 255
PLOTS = ("forest_plot", "scatter")
ALPHA = 0.05
# Columns of q, and their digits in the data: to three digits, .0504 would be .05.
Q_COLUMNS, Q_DIGITS = ("q", "level_q"), 9
_bundle = functools.cache(vl_convert.javascript_bundle)
Q_STATUSES = ["level: q ≤ .05", "level: q > .05"]


def build_rows(
    analyses: pd.DataFrame,
    *,
    study: str,
    group: pd.Series,
    measure: str | pd.Series,
    numbers: Mapping[str, str],
    statuses: Mapping[str, pd.Series] = MappingProxyType({}),
) -> pd.DataFrame:
    """Build the rows of the explorer from the analyses of a study; the first specification comes first.

    Args:
        analyses: contents of analyses.csv.
        study: name of the study.
        group: what each row is about: a group, a pair of groups, or the like.
        measure: what the column `level` measures, for all rows or for each row.
        numbers: name of a column of `COLUMNS` -> column of the analyses.
        statuses: status -> mask of the rows that have it; if several apply, the last counts.
    """
    values = {name: analyses[column] for name, column in numbers.items() if column in analyses}
    q = values.get("level_q", pd.Series(np.nan, analyses.index)).astype(float)
    status = pd.Series(np.select([q <= ALPHA, q > ALPHA], Q_STATUSES, "no q"), analyses.index)
    for name, mask in statuses.items():
        status[mask] = name
    rows = analyses.reindex(columns=[*SPECIFICATION, "model", "exp", "config", "reason"])
    rows = rows.assign(study=study, group=group, measure=measure, status=status, **values)
    by_specification = [
        select_specification(rows, specification).assign(specification=describe(specification))
        for specification in list_specifications(rows)
    ]
    return pd.concat(by_specification, ignore_index=True)


def build_explorer(tables: Sequence[pd.DataFrame]) -> dict[str, Any]:
    """Build the values of the explorer's template: the first rows, and all rows as JSON.

    The tables are from `build_rows`, and may have a column `UNITS`.
    """
    rows = pd.concat(tables, ignore_index=True)
    rows = rows.reindex(columns=[*TEXTS, "config", "reason", *(column.name for column in COLUMNS), UNITS])
    # Without any reason, the column is not of texts.
    rows["reason"] = rows["reason"].fillna("")
    texts = [name for name in TEXTS if name in ALWAYS or rows[name].nunique() > 1]
    columns = [column for column in COLUMNS if rows[column.name].notna().any()]
    data: dict[str, Any] = {"count": len(rows), "texts": {}, "numbers": {}}
    for name in (*TEXTS, "reason"):
        codes, values = pd.factorize(rows[name].fillna("").astype(str))
        data["texts"][name] = {"codes": codes.tolist(), "values": values.tolist()}
    for column in COLUMNS:
        # Rounded as in the table, except for q: the page needs no further digits.
        digits = Q_DIGITS if column.name in Q_COLUMNS else column.digits
        rounded = [None if pd.isna(value) else round(value, digits) for value in rows[column.name]]
        data["numbers"][column.name] = {"values": rounded, "digits": column.digits}
    data["units"] = rows[UNITS].astype(object).where(rows[UNITS].notna(), None).tolist()
    data["plots"] = {name: json.loads((TEMPLATES / f"{name}.vl.json").read_text("utf-8")) for name in PLOTS}
    return {
        "rows": to_records(rows.drop(columns=UNITS).head(MAX_ROWS)),
        "count": len(rows),
        "texts": {name: TEXTS[name] for name in texts},
        "columns": columns,
        "filters": [name for name in TEXTS if name != "model" and rows[name].nunique() > 1],
        "models": [*dict.fromkeys(rows["model"])],
        "headings": TEXTS,
        "choices": {name: [*dict.fromkeys(rows[name].dropna())] for name in TEXTS},
        "has_rho": bool(rows["rho"].notna().any()),
        "data": Markup(json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")),
    }


def sample_units(measured: pd.Series, retrieved: pd.Series, names: pd.Series | None) -> dict[str, Any] | None:
    """Sample the units of an analysis for its scatter plot, always the same; return None without units.

    `measured` and `retrieved` are the units' scores, `names` their names; None for faces, which stay
    anonymous.

    Returns:
        `n`, the number of units; `x` and `y`, the smallest and largest scores; `points`, in base64, both
        scores of each sampled unit, as numbers from 0 (smallest) to `STEPS` (largest); `line`, the heights of
        the least-squares line at both ends of `x`; `far`: name, x and y of the units furthest from the line.
    """
    scores = np.stack([measured.to_numpy(float), retrieved.to_numpy(float)])
    defined = np.isfinite(scores).all(axis=0)
    scores = scores[:, defined]
    count = scores.shape[1]
    if not count:
        return None
    x, y = scores
    slope = np.cov(x, y, ddof=0)[0, 1] / x.var() if x.var() else 0.0
    fitted = y.mean() + slope * (x - x.mean())
    minima, maxima = scores.min(axis=1), scores.max(axis=1)
    chosen = np.random.default_rng(0).permutation(count)[:MAX_UNITS]
    ranges = np.where(maxima > minima, maxima - minima, 1.0)
    steps = np.rint((scores[:, chosen].T - minima) / ranges * STEPS).astype(np.uint8)
    furthest = np.argsort(-np.abs(y - fitted), kind="stable")[: 0 if names is None else MAX_NAMED]
    unit_names = np.empty(count) if names is None else names.to_numpy()[defined]
    return {
        "n": count,
        "x": _round_values([minima[0], maxima[0]]),
        "y": _round_values([minima[1], maxima[1]]),
        "points": base64.b64encode(steps.tobytes()).decode(),
        "line": _round_values([y.mean() + slope * (end - x.mean()) for end in (minima[0], maxima[0])]),
        "far": [[str(unit_names[unit]), *_round_values([x[unit], y[unit]])] for unit in furthest],
    }


def _round_values(values: Sequence[float]) -> list[float]:
    return [float(f"{value:.4g}") for value in values]


def load_scripts() -> list[tuple[Markup, str]]:
    """Load the page's scripts, each with its SHA-256 in base64 for the page's security policy."""
    # Vega, Vega-Lite and Vega-Embed come from the package vl_convert: nothing is downloaded.
    bundle = _bundle("window.vegaEmbed = vegaEmbed;").replace("</script", "<\\/script")
    sources = [bundle, (TEMPLATES / "explorer.js").read_text(encoding="utf-8")]
    return [(Markup(source), hash_script(source)) for source in sources]


def hash_script(script: str) -> str:
    """Return the SHA-256 of an inline script in base64, as a page's security policy names it."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
