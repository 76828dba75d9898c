"""Items of the published format: sentences with a BLANK and three options (docs/methods.md, section 5)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from src.errors import InputError, brief
from src.stimuli.csvs import check_cell, records
from src.studies.subtler.template_ids import templates

log = logging.getLogger(__name__)

BLANK = "BLANK"
OPTIONS = ["stereotype", "anti_stereotype", "unrelated"]
COLUMNS = ["bias_type", "target_gender", "context", *OPTIONS, "item_category", "type_category"]
OPTIONAL = ["template", "response"]
POLARITIES = {"positive": 1, "negative": -1}
DIRECTIONS = {"type1": "SAI", "type2": "ASA"}
# With the published misspellings.
GENDERS = {
    "male": "male",
    "female": "female",
    "not_specified": "not_specified",
    "not_spacified": "not_specified",
}
DOMAINS = {"instituition": "institution"}
# How many rows a message names.
NAMED = 10


def read(path: Path) -> pd.DataFrame:
    """Items of a csv in the published format, in UTF-8, with or without a byte order mark.

    Besides the published columns it may have `template` (which sentences share one), and `response`, the
    recorded answers; others are passed over.

    Returns:
        One row per row of the file: `item` (its number from 1, as text), `domain`, `gender` (male, female,
        not_specified), `direction` (SAI, ASA), `polarity` (1, -1), `context`, `stereotype`,
        `anti_stereotype`, `unrelated`, `template` (told from the sentences where the file does not say), and
        `response` where the file has it (null: an empty cell).

    Raises:
        InputError: the file is missing, empty or not UTF-8, lacks a column, or has a row with another number
            of cells, an unknown word, an empty cell, a context without BLANK, or options that repeat.
    """
    return of(_table(path), path)


def of(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Items of a table in the published columns, see `read`.

    Args:
        table: texts without outer blanks.
        path: what errors name.

    Raises:
        InputError: see `read`.
    """
    for column in [*COLUMNS, *(name for name in OPTIONAL[:1] if name in table)]:
        _refuse(path, table[column] == "", f"no {column}", "Fill it in.")
    blank = table["context"].str.contains(BLANK, regex=False)
    _refuse(path, ~blank, f"context without {BLANK}", f"Write {BLANK} where the option belongs.")
    first, second, third = (table[column].str.casefold() for column in OPTIONS)
    repeated = (first == second) | (first == third) | (second == third)
    _refuse(path, repeated, "options that repeat", "The three options of an item must differ.")
    items = pd.DataFrame(
        {
            "item": [str(number) for number in range(1, len(table) + 1)],
            "domain": table["bias_type"].replace(DOMAINS),
            "gender": _coded(path, table["target_gender"], GENDERS),
            "direction": _coded(path, table["type_category"], DIRECTIONS),
            "polarity": _coded(path, table["item_category"], POLARITIES).astype(int),
            **{column: table[column] for column in ["context", *OPTIONS]},
        }
    )
    items["template"] = table["template"] if "template" in table else _templates(path, items)
    if "response" in table:
        items["response"] = table["response"].where(table["response"] != "", None)
    return items


def _table(path: Path) -> pd.DataFrame:
    # Of rows and cells as they are: pandas would fill up a row that lacks a cell, and take "None" for none.
    numbered = records(path, "Name a csv of items in the published format.")
    numbers, rows = [], []
    for number, row in numbered:
        if any(row):
            numbers.append(number)
            rows.append(row)
    header = rows[0] if rows else []
    missing = [column for column in COLUMNS if column not in header]
    if missing:
        for cell in header:
            check_cell(cell, "the header", f"{path}, row {numbers[0]}")
        found = brief(", ".join(header)) or "nothing"
        raise InputError(
            f"{path}: no column {', '.join(missing)}; found {found}. The published format needs the columns "
            f"{', '.join(COLUMNS)}, and response where there are answers."
        )
    if len(rows) == 1:
        raise InputError(f"{path}: a header and no items. Add a row for each item.")
    odd = pd.Series([len(row) != len(header) for row in rows[1:]])
    _refuse(path, odd, f"more or fewer than {len(header)} cells", "Quote cells that hold a comma.")
    places = {column: header.index(column) for column in (*COLUMNS, *OPTIONAL) if column in header}
    twice = [column for column in places if header.count(column) > 1]
    if twice:
        raise InputError(f"{path}: the column {twice[0]} stands there twice. Rename or delete one of them.")
    for number, row in zip(numbers[1:], rows[1:], strict=True):
        for column, place in places.items():
            check_cell(row[place], column, f"{path}, row {number}")
    return pd.DataFrame(
        {column: [row[place] for row in rows[1:]] for column, place in places.items()}, dtype="str"
    )


def _refuse(path: Path, bad: pd.Series, problem: str, remedy: str) -> None:
    if not bad.any():
        return
    rows = [str(row + 1) for row in bad.to_numpy().nonzero()[0]]
    more = f" and {len(rows) - NAMED} more" if len(rows) > NAMED else ""
    where = f"row {', '.join(rows[:NAMED])}{more} (1 is the first below the header)"
    raise InputError(f"{path}: {problem} in {where}. {remedy}")


def _coded(path: Path, said: pd.Series, codes: Mapping[str, object]) -> pd.Series:
    words = said.str.lower()
    unknown = ~words.isin(list(codes))
    if unknown.any():
        named = ", ".join(repr(brief(cell)) for cell in said[unknown].unique()[:3])
        _refuse(path, unknown, f"{said.name} {named}", f"Use {_listed(list(codes))}.")
    return words.map(codes)


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words[:-1]) + " or " + words[-1]


def _templates(path: Path, items: pd.DataFrame) -> pd.Series:
    names = templates(items["context"], items[OPTIONS].to_numpy().ravel())
    directions = items.groupby("domain")["direction"].agg(set)
    for domain, found in directions[directions.map(len) == 1].items():
        log.warning(
            "%s has only %s of %s: its templates are told apart by stimulus too, so that intervals come out "
            "narrower than templates make them. A column `template` would say which sentences share one.",
            *(path, *found, domain),
        )
    return items["direction"] + ": " + names
