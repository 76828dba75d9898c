"""Format numbers and names for the page, and arrange rows for its templates."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import pandas as pd
from markupsafe import Markup, escape

from src.report.drawing import shorten

# Maximum rows of a table on the page; the files under tables/ have all rows.
MAX_ROWS = 100
# Maximum letters of a name in a cell.
MAX_NAME_LENGTH = 60


@dataclass(frozen=True)
class Column:
    """A column of numbers in a table of the page."""

    name: str  # name in analyses.csv
    head: str  # heading of the column
    description: str  # meaning of the numbers
    digits: int = 2  # number of decimal digits


# Columns of the main table and of the explorer.
COLUMNS = (
    Column(
        "level",
        "level",
        "signed level: mean outcome of the group minus the others', or its change per SD of the rating",
        3,
    ),
    Column("level_low", "95% from", "lower end of the level's interval", 3),
    Column("level_high", "95% to", "upper end of the level's interval", 3),
    Column(
        "level_p",
        "p level",
        "share of permutations of the property whose level is at least as far from the permutations' mean as "
        "the observed level",
        3,
    ),
    Column(
        "level_q", "q level", "p level after Benjamini–Hochberg over the analyses of the specification", 3
    ),
    Column("slope", "slope", "outcome per unit of the difference of mean cosines, over all targets"),
    Column("slope_low", "95% from", "lower end of the slope's interval"),
    Column("slope_high", "95% to", "upper end of the slope's interval"),
    Column("n", "n", "number of units over which ρ is computed", 0),
    Column("rho", "ρ", "Spearman's ρ between intrinsic and extrinsic score"),
    Column("ci_low", "95% from", "lower end of the interval"),
    Column("ci_high", "95% to", "upper end of the interval"),
    Column("placebo_mean", "placebo mean", "mean ρ when the corpus's property is shuffled"),
    Column("placebo_q95", "placebo 95th", "95th percentile of ρ when the corpus's property is shuffled"),
    Column("p_placebo", "p placebo", "share of placebos in which ρ is at least as large", 3),
    Column("q", "q", "p placebo after Benjamini–Hochberg over the analyses of the specification", 3),
    Column(
        "at_bound",
        "at a bound",
        "share of targets whose outcome is within 5% of the possible range from its lower or upper end",
    ),
    Column("ties", "ties", "share of targets with the same outcome as another target"),
    Column("sd_attributes", "SD A/B", "SD of ρ over pairs of sets A and B that share no cluster (halves)"),
    Column("validity", "validity", "ρ (groups: AUC) of the intrinsic score with the targets' own property"),
    Column(
        "property_q05",
        "property 5th",
        "5th percentile of ρ for random properties that the vectors predict as well as the corpus's property",
    ),
    Column("property_q95", "property 95th", "95th percentile of ρ for the same properties"),
)


def format_number(value: object, digits: int = 2) -> str:
    """Format a number for readers; a dash if it is missing."""
    if not isinstance(value, Real) or math.isnan(value):
        return "–"
    return f"{float(value):z.{digits}f}".replace("-", "−")


def format_exactly(value: object) -> str:
    """Format a number exactly, for machines; an empty string if it is missing."""
    if not isinstance(value, Real) or math.isnan(value):
        return ""
    return repr(int(value) if isinstance(value, Integral) else float(value))


def shorten_cell(name: object) -> Markup:
    """Shorten a name for a cell, with the full name as a tooltip; it may break after `_`."""
    text = shorten(str(name), MAX_NAME_LENGTH)
    markup = escape(text).replace("_", Markup("_<wbr>"))
    return markup if text == str(name) else Markup('<span title="{}">{}</span>').format(str(name), markup)


def make_slugs(names: Iterable[str]) -> dict[str, str]:
    """Map each name to a short, plain and unique name for files and addresses."""
    slug_by_name: dict[str, str] = {}
    for name in names:
        base = re.sub(r"[^a-z0-9_]+", "-", name.lower()).strip("-")[:40] or "unnamed"
        slug, suffix = base, 1
        while slug in slug_by_name.values():
            suffix += 1
            slug = f"{base}-{suffix}"
        slug_by_name[name] = slug
    return slug_by_name


def to_records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Convert a table to rows of plain values; missing values are None, but NaN in columns of floats."""
    plain = frame.astype({name: object for name in frame if frame[name].dtype != float})
    rows = plain.where(plain.notna(), None).to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in rows]


def group_rows(rows: Sequence[Mapping[str, Any]], by: str) -> dict[str, list[Mapping[str, Any]]]:
    """Group rows by the value of a column, in the order of the rows."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(str(row[by]), []).append(row)
    return groups
