"""Load words of any language with ratings of valence from a table of text."""

import codecs
from pathlib import Path

import pandas as pd

from src.configs import NormsConfig
from src.errors import InputError
from src.stimuli.csvs import ENCODING, read_csv, rescale_ratings
from src.stimuli.languages import normalise_words
from src.stimuli.table import LoadedStimuli

SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t"}
# Cells without a rating.
MISSING_RATINGS = ("", "NA", "N/A", "NaN", "nan", ".", "-")
REMEDY = "Set words.path to the table, or dataset.root to the folder above it."
HEADER_REMEDY = "Set words.word, words.valence and words.separator to what the file has."


def load(cfg: NormsConfig) -> LoadedStimuli:
    """Load the words of a table with their mean ratings of valence, rescaled to [0, 1].

    Rows without a word or a rating, and the words of `cfg.drop`, are left out; rows of the same word become
    one with their mean. The notes count them.

    Raises:
        InputError: the file is missing, in another encoding, or lacks a column; a rating is no number, or
            outside the scale; no row is left.
    """
    path, columns = Path(cfg.path), [cfg.word, cfg.valence]
    separator, encoding = SEPARATORS[cfg.separator], _find_encoding(path, cfg.encoding)
    read = read_csv(
        path, columns, REMEDY, header_remedy=HEADER_REMEDY, separator=separator, encoding=encoding
    )
    cells = pd.DataFrame({"word": read[cfg.word], "valence": read[cfg.valence], "row": read["row"]})
    rows, notes = _leave_out(cells, cfg)
    if rows.empty:
        raise InputError(f"{path}: no row with a word and a rating. {HEADER_REMEDY}")
    if cfg.decimal_comma:
        rows = rows.assign(valence=rows["valence"].str.replace(",", ".", regex=False))
    words, form_notes = normalise_words(rows["word"])
    scale = (cfg.low, cfg.high)
    valences = rescale_ratings(rows, "valence", "word", scale, path, "words", ("low", "high"))
    rated = pd.DataFrame({"word": words, "valence": valences})
    means = rated.groupby("word", sort=False)["valence"].mean().reset_index()
    if n_repeats := len(rated) - len(means):
        form_notes.append(f"{n_repeats} repeat a word, whose valence is the mean of its rows")
    predicted = ["ratings predicted by a model, not given by people"] if cfg.predicted else []
    return means, len(read), [*predicted, *notes, *form_notes]


def _leave_out(rows: pd.DataFrame, cfg: NormsConfig) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows with a word and a rating, and a note on each reason why others are left out."""
    reasons = pd.Series("", rows.index)
    reasons[rows["valence"].isin(MISSING_RATINGS)] = "without a rating"
    reasons[rows["word"].isin(cfg.drop)] = "left out by words.drop"
    reasons[rows["word"] == ""] = "without a word"
    counts = reasons[reasons != ""].value_counts(sort=False)
    return rows[reasons == ""], [f"{count} {reason}" for reason, count in counts.items()]


def _find_encoding(path: Path, name: str) -> str:
    """Return the encoding to read a file with; raise `InputError` if it is unknown or not the file's."""
    try:
        encoding = codecs.lookup(name).name
        encoding = ENCODING if encoding == "utf-8" else encoding
        if path.is_file():
            path.read_bytes().decode(encoding)
    except LookupError:
        raise InputError(f"words.encoding={name}: unknown. Name one as utf-8, latin-1 or cp1252.") from None
    except UnicodeError as error:
        raise InputError(
            f"{path}: not in words.encoding={name} ({error}). Set words.encoding to the file's, such as "
            "latin-1, cp1252 or utf-16."
        ) from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}. {REMEDY}") from None
    return encoding
