"""NRC-VAD (Mohammad 2018, 2025): a lexicon in English, and translated into a hundred languages."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

from src.configs import NrcVadConfig
from src.errors import InputError, brief
from src.stimuli.csvs import filled, ratings, unique
from src.stimuli.lexicons import only_file

REMEDY = (
    "Set words.path to the NRC-VAD lexicon, or dataset.root to the folder above nrc_vad/. "
    "make data says how to get it."
)
# Of a file without a header, as version 1 was published.
COLUMNS = ["Word", "Valence", "Arousal", "Dominance"]
NUMBER = re.compile(r"[-+]?[\d.]+(e[-+]?\d+)?")
# Files beside the lexicon, without a header: one dimension each.
OTHER_DIMENSION = re.compile(r"(arousal|dominance|[ad]-?scores)\b", re.IGNORECASE)
UNTRANSLATED = ("", "NO TRANSLATION")
# Columns that a message names.
LISTED = 10


def load(cfg: NrcVadConfig) -> tuple[pd.DataFrame, int, list[str]]:
    """Read words and valences of a tab-separated file, with or without a header.

    Only the two columns are read, so that an unreadable dominance costs no word. A word that reads `null` or
    `nan` is a word. Several English words may share a translation: its valence is their mean.

    Args:
        cfg: see conf/words/nrc_vad.yaml. `path` is the lexicon, or the folder that holds it as its only .txt
            file but for a README.

    Returns:
        Columns `word` and `valence`, rescaled to [0, 1]; how many rows the lexicon has; which of them have
        no translation or share one.

    Raises:
        InputError: there is no such file, it holds words of several languages and `word` names none, a row
            has no word or number where they belong, or the scale is another one.
    """
    path, ends = only_file(Path(cfg.path), ".txt", REMEDY), (cfg.lowest, cfg.highest)
    if OTHER_DIMENSION.match(path.name):
        raise InputError(f"{path}: by its name it holds another dimension, not valence. {REMEDY}")
    header, rows = _table(path)
    languages = _languages(header, rows)
    place = _column(header, languages, cfg.word, path)
    valence = next(place for place, name in enumerate(header or COLUMNS) if name.lower() == "valence")
    frame = rows[[place, valence]].set_axis(["word", "valence"], axis=1).reset_index(names="row")
    translated = place != languages[0]
    notes = []
    if translated:
        frame = frame[~frame["word"].isin(UNTRANSLATED)]
        notes = [f"{len(rows) - len(frame)} have no {header[place]}"] if len(frame) < len(rows) else []
    filled(frame, "word", path)
    if not translated:
        unique(frame, "word", path)
    _version(frame, ends, path)
    rated = frame.assign(valence=ratings(frame, "valence", "word", ends, path, "words"))
    means = rated.groupby("word", sort=False)["valence"].mean().reset_index()
    if len(means) < len(rated):
        repeated = len(rated) - len(means)
        notes.append(f"{repeated} repeat a word of {header[place]}, whose valence is the mean of its rows")
    return means, len(rows), notes


def _table(path: Path) -> tuple[list[str], pd.DataFrame]:
    """The header, empty where there is none, and the cells below it, by row and place."""
    try:
        text = path.read_text("utf-8-sig")
        if "\0" in text:
            row = text.partition("\0")[0].count("\n") + 1
            raise UnicodeError(f"row {row} holds a NUL, as text in UTF-16 does")
    except (OSError, UnicodeError) as error:
        raise InputError(f"{path}: {error}. Save it as text in UTF-8 that may be read.") from None
    lines = {number: line for number, line in enumerate(text.splitlines(), start=1) if line.strip()}
    cells = {number: [cell.strip() for cell in line.split("\t")] for number, line in lines.items()}
    first = next(iter(cells), 0)
    header = cells.pop(first) if cells and _is_header(cells[first]) else []
    if not cells:
        raise InputError(f"{path}: no lines of word, tab, valence in it. Name another file: words.path=FILE.")
    if bare := next((number for number in cells if "\t" not in lines[number]), 0):
        raise InputError(
            f"{path}, row {bare}: no tab in {brief(lines[bare].strip())!r}. Write a tab between word and "
            "valence, or delete the row."
        )
    width = max(map(len, [header, *cells.values()]))
    padded = [[*row, *[""] * (width - len(row))] for row in cells.values()]
    rows = pd.DataFrame(padded, index=list(cells))
    for number, *extra in rows.iloc[:, len(COLUMNS) :].itertuples() if not header else ():
        if strange := next((cell for cell in extra if cell and not _is_number(cell)), ""):
            raise InputError(
                f"{path}, row {number}: {brief(strange)!r} after word, valence, arousal and dominance, and "
                "no header in row 1. Is it a translation? Write a header (English Word, Valence, Arousal, "
                "Dominance and the language, parted by tabs), and set words.word to one of its columns."
            )
    return header, rows


def _is_header(cells: list[str]) -> bool:
    """Whether a row names the columns; a word called `valence` has a number beside it."""
    return "valence" in map(str.lower, cells[1:]) and not any(map(_is_number, cells[1:]))


def _is_number(cell: str) -> bool:
    return NUMBER.fullmatch(cell) is not None


def _languages(header: list[str], rows: pd.DataFrame) -> list[int]:
    """Places of the columns that hold words; the first where none does."""
    dimensions = [name.lower() for name in COLUMNS[1:]]
    texts = [
        place
        for place, name in enumerate(header)
        if name.lower() not in dimensions and not all(map(_is_number, rows[place][rows[place] != ""]))
    ]
    return texts or [0]


def _column(header: list[str], languages: list[int], word: str | None, path: Path) -> int:
    """The place of the column of words."""
    if word is None:
        if len(languages) > 1:
            raise InputError(
                f"{path}, row 1: words stand in the columns {_listed(header, languages)}. "
                "Set words.word to one of them."
            )
        return languages[0]
    if not header:
        raise InputError(
            f"{path}, row 1: no header with a column {brief(word)}. Set words.word=null, or write one."
        )
    if header.count(word) != 1:
        problem = "several columns" if word in header else "no column"
        raise InputError(
            f"{path}, row 1: {problem} {brief(word)}; found {brief(', '.join(header))}. Set words.word to "
            f"one that holds words: {_listed(header, languages)}."
        )
    return header.index(word)


def _listed(header: list[str], places: list[int]) -> str:
    names = [brief(header[place]) if header else COLUMNS[0] for place in places]
    return ", ".join(names[:LISTED] + [f"{len(names) - LISTED} more"] * (len(names) > LISTED))


def _version(frame: pd.DataFrame, ends: tuple[float, float], path: Path) -> None:
    """Refuse a version whose scale is the other's."""
    valence = pd.to_numeric(frame["valence"], errors="coerce")
    negative = frame[valence.between(-1, 0, inclusive="left")]
    if ends == (0, 1) and len(negative):
        row, name, given = negative[["row", "word", "valence"]].iloc[0]
        raise InputError(
            f"{path}, row {row}: valence {given} of {brief(name)!r} is negative, on a scale from 0 to 1. "
            "Version 2 goes from -1 to 1: choose words=nrc_vad_v2, or set words.lowest=-1."
        )
    if ends == (-1, 1) and valence.between(0, 1).all():
        raise InputError(
            f"{path}: none of {len(frame)} valences is negative, on a scale from -1 to 1. Version 1 "
            "goes from 0 to 1: choose words=nrc_vad, or set words.lowest=0."
        )
