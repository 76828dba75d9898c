"""Find the translations of NRC-VAD: a file per language, with a column that is named after the language."""

import re
from pathlib import Path

import pandas as pd

from src.errors import InputError, brief, first_few
from src.stimuli.languages import normalise_words
from src.stimuli.safe_paths import refuse_links_out

FOLDER = "OneFilePerLanguage"
# End of the names of the files, after the name of the language and, in the release of 2018, its code.
SUFFIX = re.compile(r"(-[a-z]{2,3}(-[A-Z][A-Za-z]+)?)?-NRC-VAD-Lexicon\.txt")
# End of the names of the columns: `Spanish Word`; `Spanish`, or `Spanish-es` in the release of 2018.
COLUMN_SUFFIX = re.compile(r"( Word|-[a-z]{2,3}(-[A-Z][A-Za-z]+)?)?")
SEPARATORS = re.compile(r"\s*[;,/|、，；]\s*")
NOTE = "machine translations of English words, with the valences of the English words"


def find_file(path: Path, language: str) -> Path:
    """Return the path if it is a file, or the file of a language in a folder or its OneFilePerLanguage.

    Raises:
        InputError: there is no such file, or there are several.
    """
    if path.is_file():
        return path
    if not path.is_dir():
        raise InputError(f"{path}: no such file or folder. Set words.path to the folder of NRC-VAD.")
    folders = [path, *(item for item in sorted(path.rglob(FOLDER)) if item.is_dir())]
    texts = [item for folder in folders for item in sorted(folder.glob("*.txt")) if item.is_file()]
    files = [
        item
        for item in texts
        if item.name.startswith(language) and SUFFIX.fullmatch(item.name.removeprefix(language))
    ]
    if len(files) != 1:
        names = first_few(item.name for item in files or texts) or "no .txt file"
        raise InputError(
            f"{path}: {len(files)} files of {language}, expected {FOLDER}/{language}-NRC-VAD-Lexicon.txt of "
            f"version 1 (version 2 has no translations); it contains {names}. Unpack {FOLDER} of the "
            "publisher's zip there, or set words.path to the file."
        )
    refuse_links_out(files, path, "words.path")
    return files[0]


def find_column(header: list[str], language: str, path: Path) -> int:
    """Return the index of the only column that is named after a language, or raise `InputError`."""
    columns = [
        index
        for index, name in enumerate(header)
        if name.startswith(language) and COLUMN_SUFFIX.fullmatch(name.removeprefix(language))
    ]
    if len(columns) != 1:
        raise InputError(
            f"{path}, row 1: {len(columns)} columns of {language}, expected {language} Word; found "
            f"{brief(', '.join(header)) or 'no header'}. Use the publisher's file, or set words.word to the "
            "column."
        )
    return columns[0]


def split_cells(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Make a row of each of several translations in a cell, and normalise them; return also notes.

    Args:
        frame: rows with `word`, the cell, and further columns, which are repeated.
    """
    parts = frame["word"].map(lambda cell: [*dict.fromkeys(filter(None, SEPARATORS.split(cell)))])
    has_several = int((parts.map(len) > 1).sum())
    notes = (
        [f"cells with several translations, each of which is a word: {has_several}"] if has_several else []
    )
    # A cell of separators alone remains as it is.
    words = parts.where(parts.map(len) > 0, frame["word"])
    rows = frame.assign(word=words).explode("word", ignore_index=True)
    words, form_notes = normalise_words(rows["word"].astype(str))
    return rows.assign(word=words), [*notes, *form_notes]
