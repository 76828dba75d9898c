"""Cells of the page: numbers for people and for machines, names that fit."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import pandas as pd
from markupsafe import Markup, escape

from src.report.drawing import brief

# Of what is left out of a table, the files under tables/ hold the rest.
LONGEST = 300
# Letters of a name in a cell.
LONGEST_NAME = 60


@dataclass(frozen=True)
class Column:
    """A column of numbers.

    Attributes:
        name: in analyses.csv.
        head: above it.
        said: what it is.
        digits: shown after the point.
    """

    name: str
    head: str
    said: str
    digits: int = 2


COLUMNS = (
    Column("n", "n", "units that the ρ is over", 0),
    Column("rho", "ρ", "Spearman's ρ between intrinsic and extrinsic score"),
    Column("ci_low", "95% from", "lower end of the interval"),
    Column("ci_high", "95% to", "upper end of the interval"),
    Column("placebo_mean", "placebo mean", "mean ρ when the property is shuffled over what is retrieved"),
    Column("placebo_q95", "placebo 95th", "95th percentile of the same"),
    Column("p_placebo", "p placebo", "share of placebos that reach ρ", 3),
    Column("q", "q", "Benjamini–Hochberg over the p of all analyses of the sweep", 3),
    Column("sd_attributes", "SD A/B", "SD of ρ over other draws of A and B"),
    Column(
        "validity", "validity", "ρ (of groups: AUC) of the intrinsic score with the targets' own property"
    ),
    Column("property_q05", "property 5th", "5th percentile of ρ for made-up properties encoded as well"),
    Column("property_q95", "property 95th", "95th percentile of the same"),
    Column("family_q95", "family 95th", "placebo that shuffles families of words: 95th percentile"),
    Column("family_p", "p family", "share of those placebos that reach ρ", 3),
)


def number(value: object, digits: int = 2) -> str:
    """A number as people read it; a dash where there is none."""
    if not isinstance(value, Real) or math.isnan(value):
        return "–"
    text = f"{float(value):.{digits}f}"
    return text.replace("-", "−") if float(text) else text.lstrip("-")


def exact(value: object) -> str:
    """The same for machines, to the last bit; nothing where there is none."""
    if not isinstance(value, Real) or math.isnan(value):
        return ""
    return repr(int(value) if isinstance(value, Integral) else float(value))


def short(name: object) -> Markup:
    """A name for a cell: a long one in part, with the whole of it to be hovered; it breaks after `_`."""
    text = brief(str(name), LONGEST_NAME)
    shown = escape(text).replace("_", Markup("_<wbr>"))
    return shown if text == str(name) else Markup('<span title="{}">{}</span>').format(str(name), shown)


def slugs(names: Iterable[str]) -> dict[str, str]:
    """Names -> parts of file names and addresses: short, plain, unique."""
    found: dict[str, str] = {}
    for name in names:
        base = re.sub(r"[^a-z0-9_]+", "-", name.lower()).strip("-")[:40] or "unnamed"
        slug, number_ = base, 1
        while slug in found.values():
            number_ += 1
            slug = f"{base}-{number_}"
        found[name] = slug
    return found


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of plain values: None where there is nothing but in columns of floats."""
    plain = frame.astype({name: object for name in frame if frame[name].dtype != float})
    rows = plain.where(plain.notna(), None).to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in rows]


def grouped(rows: Sequence[Mapping[str, Any]], by: str) -> dict[str, list[Mapping[str, Any]]]:
    """Rows by the value of a column, in the order of the rows."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(str(row[by]), []).append(row)
    return found
