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

from src.report.findings import SPECIFICATION, list_specifications, of_specification
from src.report.format import COLUMNS, MAX_ROWS, to_records
from src.report.tables import describe

TEMPLATES = Path(__file__).with_name("templates")
# Columns of texts -> their headings; the first three are always in the table, the others where they differ.
TEXTS = {"model": "model", "exp": "experiment", "group": "group", "status": "status", "measure": "measure"}
TEXTS |= {"study": "study", "specification": "specification"}
ALWAYS = ("model", "exp", "group", "status")
# Optional column of the rows: the units of an analysis, see `sample_units`.
UNITS = "units"
# Maximum units of an analysis in its scatter plot, of which some are named; steps of an axis.
MAX_UNITS, MAX_NAMED, STEPS = 100, 5, 255
PLOTS = ("forest_plot", "scatter")
SIGNIFICANT = 0.05
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
    """Return the analyses of a study as rows of the explorer, those of the first specification first.

    Args:
        analyses: contents of analyses.csv.
        study: name of the study.
        group: text of each row: what it is about.
        measure: name of the number in the column `level`; a text, or one of each row.
        numbers: name of a column of `COLUMNS` -> column of the analyses.
        statuses: status -> mask of the rows that have it; the last that applies.
    """
    values = {name: analyses[column] for name, column in numbers.items() if column in analyses}
    q = values.get("level_q", pd.Series(np.nan, analyses.index)).astype(float)
    status = pd.Series(np.select([q <= SIGNIFICANT, q > SIGNIFICANT], Q_STATUSES, "no q"), analyses.index)
    for name, is_so in statuses.items():
        status[is_so] = name
    rows = analyses.reindex(columns=[*SPECIFICATION, "model", "exp", "config", "reason"])
    rows = rows.assign(study=study, group=group, measure=measure, status=status, **values)
    each = [
        of_specification(rows, specification).assign(specification=describe(specification))
        for specification in list_specifications(rows)
    ]
    return pd.concat(each, ignore_index=True)


def build_explorer(tables: Sequence[pd.DataFrame]) -> dict[str, Any]:
    """Return the values of the explorer's template: the first rows, and all rows as JSON.

    The tables are from `build_rows`, and may have a column `UNITS`.
    """
    rows = pd.concat(tables, ignore_index=True)
    rows = rows.reindex(columns=[*TEXTS, "config", "reason", *(column.name for column in COLUMNS), UNITS])
    texts = [name for name in TEXTS if name in ALWAYS or rows[name].nunique() > 1]
    columns = [column for column in COLUMNS if rows[column.name].notna().any()]
    data: dict[str, Any] = {"count": len(rows), "texts": {}, "numbers": {}}
    for name in (*TEXTS, "reason"):
        codes, values = pd.factorize(rows[name].fillna("").astype(str))
        data["texts"][name] = {"codes": codes.tolist(), "values": values.tolist()}
    for column in COLUMNS:
        # As the table shows them: the page needs no further digits.
        rounded = [None if pd.isna(value) else round(value, column.digits) for value in rows[column.name]]
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
    """Return a seeded sample of the units of an analysis, quantised for its scatter plot; None without units.

    Both scores have an entry per unit. `names` are those of the units; None for faces, which stay anonymous.

    Returns:
        `n`, the number of units; `x` and `y`, the ends of the scores; `points`, bytes in base64: the scores
        of each unit in the sample, in `STEPS` from end to end; `line`, the heights of the least-squares line
        at both ends of `x`; `far`: name, x and y of the units furthest from the line.
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
    lowest, highest = scores.min(axis=1), scores.max(axis=1)
    chosen = np.random.default_rng(0).permutation(count)[:MAX_UNITS]
    ranges = np.where(highest > lowest, highest - lowest, 1.0)
    steps = np.rint((scores[:, chosen].T - lowest) / ranges * STEPS).astype(np.uint8)
    furthest = np.argsort(-np.abs(y - fitted), kind="stable")[: 0 if names is None else MAX_NAMED]
    units = np.empty(count) if names is None else names.to_numpy()[defined]
    return {
        "n": count,
        "x": _rounded([lowest[0], highest[0]]),
        "y": _rounded([lowest[1], highest[1]]),
        "points": base64.b64encode(steps.tobytes()).decode(),
        "line": _rounded([y.mean() + slope * (end - x.mean()) for end in (lowest[0], highest[0])]),
        "far": [[str(units[unit]), *_rounded([x[unit], y[unit]])] for unit in furthest],
    }


def _rounded(values: Sequence[float]) -> list[float]:
    return [float(f"{value:.4g}") for value in values]


def scripts() -> list[tuple[Markup, str]]:
    """Return the page's scripts, each with its SHA-256 in base64 for the page's security policy."""
    # Vega, Vega-Lite and Vega-Embed, which are part of the package: nothing is downloaded.
    bundle = _bundle("window.vegaEmbed = vegaEmbed;").replace("</script", "<\\/script")
    sources = [bundle, (TEMPLATES / "explorer.js").read_text(encoding="utf-8")]
    return [(Markup(source), digest(source)) for source in sources]


def digest(script: str) -> str:
    """Return the SHA-256 of an inline script in base64, as a page's security policy names it."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
