"""Read published-format items: sentences with a BLANK and three options (docs/methods.md, section 5)."""

import logging
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from src.errors import InputError, brief
from src.stimuli.csvs import read_csv
from src.studies.subtler.template_ids import infer_stimuli, infer_templates

log = logging.getLogger(__name__)

BLANK = "BLANK"
OPTIONS = ["stereotype", "anti_stereotype", "unrelated"]
COLUMNS = ["bias_type", "target_gender", "context", *OPTIONS, "item_category", "type_category"]
CLUSTERS = ["template", "stimulus"]
OPTIONAL_COLUMNS = [*CLUSTERS, "response"]
REMEDY = "Name a csv of items in the published format."
FORMAT = f"The published format needs the columns {', '.join(COLUMNS)}, and response if there are answers."
POLARITIES = {"positive": 1, "negative": -1}
DIRECTIONS = {"type1": "SAI", "type2": "ASA"}
# Value in a column, or a misspelling of it in the published items -> its meaning.
GENDERS = {name: name for name in ("male", "female", "not_specified")} | {"not_spacified": "not_specified"}
DOMAINS = {"instituition": "institution"}
# Maximum number of rows that a message names.
MAX_NAMED = 10


def read_items(path: Path) -> pd.DataFrame:
    """Read items from a csv in the published format, in UTF-8, with or without a byte order mark.

    Besides the published columns it may have `template` and `stimulus` (names that sentences share) and
    `response` (recorded answers); other columns are ignored. Raises `InputError` for an unreadable file or an
    invalid row.

    Returns:
        One row per item: `item` (number of its row from 1, as text), `domain`, `gender` (male, female,
        not_specified), `direction` (SAI, ASA), `polarity` (1, -1), `context`, `OPTIONS`, `template` and
        `stimulus` (inferred from the sentences if the file has none), and `response` if the file has it
        (null: an empty cell).
    """
    return parse_items(read_csv(path, COLUMNS, REMEDY, OPTIONAL_COLUMNS, FORMAT), path)


def parse_items(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Parse items from a table of stripped texts in the published columns; `path` is named in messages."""
    for column in [*COLUMNS, *(name for name in CLUSTERS if name in table)]:
        _refuse(path, table[column] == "", f"no {column}", "Fill it in.")
    has_blank = table["context"].str.contains(BLANK, regex=False)
    _refuse(path, ~has_blank, f"context without {BLANK}", f"Write {BLANK} where the option belongs.")
    first, second, third = (table[column].str.casefold() for column in OPTIONS)
    has_repeats = (first == second) | (first == third) | (second == third)
    _refuse(path, has_repeats, "options that repeat", "The three options of an item must differ.")
    items = pd.DataFrame(
        {
            "item": [str(number) for number in range(1, len(table) + 1)],
            "domain": table["bias_type"].replace(DOMAINS),
            "gender": _recode(path, table["target_gender"], GENDERS),
            "direction": _recode(path, table["type_category"], DIRECTIONS),
            "polarity": _recode(path, table["item_category"], POLARITIES).astype(int),
            **{column: table[column] for column in ["context", *OPTIONS]},
        }
    )
    missing = [name for name in CLUSTERS if name not in table]
    by_domain = items.groupby("domain")["direction"].agg(set)
    # With a single direction, stimuli are not options of any item, and cannot be recognised in sentences.
    for domain, directions in by_domain[by_domain.map(len) == 1].items() if missing else ():
        log.warning(
            "%s has only direction %s of %s: templates and stimuli cannot be told apart, which "
            "makes intervals too narrow. Add columns `template` and `stimulus` with their names.",
            *(path, *directions, domain),
        )
    options = items[OPTIONS].to_numpy()
    items["template"] = (
        items["direction"] + ": " + infer_templates(items["context"], options.ravel())
        if "template" in missing
        else table["template"]
    )
    items["stimulus"] = (
        infer_stimuli(items["context"], options.tolist()) if "stimulus" in missing else table["stimulus"]
    )
    if "response" in table:
        items["response"] = table["response"].where(table["response"] != "", None)
    return items


def _refuse(path: Path, invalid: pd.Series, problem: str, remedy: str) -> None:
    """Raise `InputError` if any row is `invalid`; the message names the first invalid rows."""
    if not invalid.any():
        return
    rows = [str(row + 1) for row in invalid.to_numpy().nonzero()[0]]
    remainder = f" and {len(rows) - MAX_NAMED} more" if len(rows) > MAX_NAMED else ""
    location = f"row {', '.join(rows[:MAX_NAMED])}{remainder} (1 is the first below the header)"
    raise InputError(f"{path}: {problem} in {location}. {remedy}")


def _recode(path: Path, cells: pd.Series, codes: Mapping[str, object]) -> pd.Series:
    lowered = cells.str.lower()
    unknown = ~lowered.isin(list(codes))
    if unknown.any():
        examples = ", ".join(repr(brief(cell)) for cell in cells[unknown].unique()[:3])
        *others, last = codes
        _refuse(path, unknown, f"unknown {cells.name} {examples}", f"Use {', '.join(others)} or {last}.")
    return lowered.map(codes)
