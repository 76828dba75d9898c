"""Load words with human ratings of valence."""

import importlib.resources
import re
from pathlib import Path

import numpy as np
import pandas as pd

from src.configs import RATED_LANGUAGE, NrcVadConfig, VaderConfig, WarrinerConfig
from src.errors import InputError, brief, first_few
from src.stimuli import translations
from src.stimuli.csvs import check_filled, check_unique, read_csv, rescale_ratings
from src.stimuli.safe_paths import refuse_links_out
from src.stimuli.table import LoadedStimuli

# Columns of an NRC-VAD file without a header, such as the published version 1.
COLUMNS = ["Word", "Valence", "Arousal", "Dominance"]
NUMBER = re.compile(r"[-+]?[\d.]+(e[-+]?\d+)?")
# Names of headerless files of other dimensions, which are published together with the lexicon.
OTHER_DIMENSION = re.compile(r"(arousal|dominance|[ad]-?scores)\b", re.IGNORECASE)
UNTRANSLATED = ("", "NO TRANSLATION")
# Maximum number of columns that a message names.
MAX_LISTED = 10


def load_vader(cfg: VaderConfig) -> LoadedStimuli:
    """Load the words of the VADER lexicon that consist of a-z, or a sample of them.

    Mean ratings from -4 to 4 are rescaled to [0, 1]. With `cfg.translation`, the same words are written in an
    invented language.
    """
    text = (importlib.resources.files("vaderSentiment") / "vader_lexicon.txt").read_text("utf-8")
    entries = [line.split("\t")[:2] for line in text.splitlines() if line.strip()]
    alphabetic = [(word, (float(mean) + 4) / 8) for word, mean in entries if re.fullmatch("[a-z]+", word)]
    valences = dict(alphabetic)
    frame = pd.DataFrame({"word": list(valences), "valence": list(valences.values())})
    notes = [
        f"{len(entries) - len(alphabetic)} entries are emoticons or hold other signs than a-z",
        f"{len(alphabetic) - len(frame)} repeat a word, whose last rating is kept",
    ]
    if (count := cfg.count) is not None:
        if count > len(frame):
            raise InputError(f"words.count={count}: VADER has {len(frame)} words of a-z. Set fewer, or null.")
        sample = np.random.default_rng(cfg.seed).choice(len(frame), count, replace=False)
        notes.append(f"{len(frame) - count} left out by words.count={count}")
        frame = frame.iloc[np.sort(sample)].reset_index(drop=True)
    if cfg.translation:
        letters = str.maketrans(cfg.translation.letters)
        frame = frame.assign(word=[word.translate(letters) for word in frame["word"]])
        notes.append("words of an invented language, with the valences of the English words")
    return frame, len(entries), notes


def load_warriner(cfg: WarrinerConfig) -> LoadedStimuli:
    """Load ratings of English lemmas (Warriner, Kuperman & Brysbaert 2013), or another csv of rated words."""
    remedy = "Set words.path to the ratings, or dataset.root to the folder above warriner/. See make data."
    path, word = find_only_file(Path(cfg.path), ".csv", remedy), cfg.word
    header_remedy = "Set words.word and words.valence to its columns, or correct the comma-separated header."
    rows = read_csv(path, [word, cfg.valence], remedy, header_remedy=header_remedy)
    check_filled(rows, word, path)
    check_unique(rows, word, path)
    valences = rescale_ratings(rows, cfg.valence, word, (cfg.lowest, cfg.highest), path, "words")
    return pd.DataFrame({"word": rows[word], "valence": valences}), len(rows), []


def find_only_file(path: Path, suffix: str, remedy: str) -> Path:
    """Return the path if it is a file, or the only file with a suffix in a folder, apart from a README."""
    if path.is_file():
        return path
    if not path.is_dir():
        raise InputError(f"{path}: no such file or folder. {remedy}")
    files = sorted(item for item in path.iterdir() if item.suffix.lower() == suffix and item.is_file())
    files = [item for item in files if not item.name.lower().startswith((".", "readme"))]
    if len(files) != 1:
        names = f" ({first_few(item.name for item in files)})" if files else ""
        raise InputError(f"{path}: {len(files)} {suffix} files{names}, expected one. {remedy}")
    refuse_links_out(files, path, "words.path")
    return files[0]


def load_nrc_vad(cfg: NrcVadConfig) -> LoadedStimuli:
    """Load NRC-VAD (Mohammad 2018, 2025): an English lexicon, with translations into a hundred languages.

    The file is tab-separated, with or without a header. Only words and valences are read, so an unreadable
    dominance does not matter; `null` and `nan` are ordinary words. English words with the same translation
    become a single word with their mean valence. With `cfg.translation`, the words are the translations of
    the file of that language, each of several in a cell.
    """
    remedy = (
        "Set words.path to the NRC-VAD lexicon, or dataset.root to the folder of nrc_vad/ (see make data)."
    )
    scale, in_english = (cfg.lowest, cfg.highest), cfg.translation == RATED_LANGUAGE
    if in_english:
        path = find_only_file(Path(cfg.path), ".txt", remedy)
    else:
        path = translations.find_file(Path(cfg.path), cfg.translation)
    if OTHER_DIMENSION.match(path.name):
        raise InputError(f"{path}: its name says that it contains another dimension, not valence. {remedy}")
    header, rows = _read_rows(path)
    dimensions = [name.lower() for name in COLUMNS[1:]]
    # Columns of words; the first column if no column is recognised.
    word_columns = [
        index
        for index, name in enumerate(header)
        if name.lower() not in dimensions and not all(map(NUMBER.fullmatch, rows[index][rows[index] != ""]))
    ] or [0]
    if in_english or cfg.word is not None:
        word_column = _find_word_column(header, word_columns, cfg.word, path)
    else:
        word_column = translations.find_column(header, cfg.translation, path)
    valence_column = next(index for index, name in enumerate(header or COLUMNS) if name.lower() == "valence")
    frame = rows[[word_column, valence_column]].set_axis(["word", "valence"], axis=1).reset_index(names="row")
    is_translated = word_column != word_columns[0]
    notes = []
    if is_translated:
        frame = frame[~frame["word"].isin(UNTRANSLATED)]
        notes = [f"{len(rows) - len(frame)} have no {header[word_column]}"] if len(frame) < len(rows) else []
    check_filled(frame, "word", path)
    if not is_translated:
        check_unique(frame, "word", path)
    if not in_english:
        frame, split_notes = translations.split_cells(frame)
        notes = [translations.NOTE, *notes, *split_notes]
    if frame.empty:
        column = header[word_column] if header else "word"
        raise InputError(f"{path}: no lines with a word in the column {column!r:.80}. Add one for each word.")
    _check_version(frame, scale, path)
    ratings = frame.assign(valence=rescale_ratings(frame, "valence", "word", scale, path, "words"))
    means = ratings.groupby("word", sort=False)["valence"].mean().reset_index()
    if len(means) < len(ratings):
        n_repeats, language = len(ratings) - len(means), header[word_column]
        notes.append(f"{n_repeats} repeat a word of {language}, whose valence is the mean of its rows")
    return means, len(rows), notes


def _read_rows(path: Path) -> tuple[list[str], pd.DataFrame]:
    """Read the header (empty if absent) and a frame of the cells, by row number and column index."""
    try:
        text = path.read_text("utf-8-sig")
        if "\0" in text:
            row = text.partition("\0")[0].count("\n") + 1
            raise UnicodeError(f"row {row} contains a NUL character (the file may be UTF-16)")
    except (OSError, UnicodeError) as error:
        raise InputError(f"{path}: {error}. Make it readable, and save it as text in UTF-8.") from None
    lines = {number: line for number, line in enumerate(text.splitlines(), start=1) if line.strip()}
    cells = {number: [cell.strip() for cell in line.split("\t")] for number, line in lines.items()}
    first_row, (_, *other_cells) = next(iter(cells.items()), (0, [""]))
    # In a row of data, the word `valence` would be followed by a number.
    is_header = "valence" in map(str.lower, other_cells) and not any(map(NUMBER.fullmatch, other_cells))
    header = cells.pop(first_row) if is_header else []
    if not cells:
        raise InputError(f"{path}: no lines of word, tab, valence in it. Name another file: words.path=FILE.")
    if row := next((number for number in cells if "\t" not in lines[number]), 0):
        raise InputError(
            f"{path}, row {row}: no tab in {brief(lines[row].strip())!r}. Write word, tab, valence."
        )
    width = max(map(len, [header, *cells.values()]))
    padded = [[*line, *[""] * (width - len(line))] for line in cells.values()]
    rows = pd.DataFrame(padded, index=list(cells))
    for number, *extra_cells in rows.iloc[:, len(COLUMNS) :].itertuples() if not header else ():
        if word_cell := next((cell for cell in extra_cells if cell and not NUMBER.fullmatch(cell)), ""):
            raise InputError(
                f"{path}, row {number}: {brief(word_cell)!r} after word, valence, arousal and dominance, and "
                "no header in row 1. Is it a translation? Write a header (English Word, Valence, Arousal, "
                "Dominance and the language, separated by tabs), and set words.word to one of its columns."
            )
    return header, rows


def _find_word_column(header: list[str], word_columns: list[int], word: str | None, path: Path) -> int:
    """Return the index of the column with the name `word`, or of the only column of words if it is None."""
    if word is None:
        if len(word_columns) > 1:
            names = _format_columns(header, word_columns)
            raise InputError(f"{path}, row 1: several columns of words. Set words.word to one of {names}.")
        return word_columns[0]
    if not header:
        raise InputError(f"{path}, row 1: no header with {brief(word)}. Write one, or set words.word=null.")
    if header.count(word) != 1:
        problem = "several columns" if word in header else "no column"
        raise InputError(
            f"{path}, row 1: {problem} {brief(word)}; found {brief(', '.join(header))}. Set words.word to "
            f"one that contains words: {_format_columns(header, word_columns)}."
        )
    return header.index(word)


def _format_columns(header: list[str], columns: list[int]) -> str:
    names = [brief(header[index]) if header else COLUMNS[0] for index in columns]
    return first_few(names, MAX_LISTED)


def _check_version(frame: pd.DataFrame, scale: tuple[float, float], path: Path) -> None:
    """Refuse a version of the lexicon on the scale of the other version."""
    valence = pd.to_numeric(frame["valence"], errors="coerce")
    negative = frame[valence.between(-1, 0, inclusive="left")]
    if scale == (0, 1) and len(negative):
        row, name, value = negative[["row", "word", "valence"]].iloc[0]
        raise InputError(
            f"{path}, row {row}: valence {value} of {brief(name)!r} is negative, on a scale from 0 to 1. "
            "Version 2 goes from -1 to 1: choose words=nrc_vad_v2, or set words.lowest=-1."
        )
    if scale == (-1, 1) and valence.between(0, 1).all():
        raise InputError(
            f"{path}: none of {len(frame)} valences is negative, on a scale from -1 to 1. Version 1 "
            "goes from 0 to 1: choose words=nrc_vad, or set words.lowest=0."
        )
