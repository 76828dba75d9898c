"""Words with human ratings of valence."""

from __future__ import annotations

import importlib.resources
import re
from pathlib import Path

import numpy as np
import pandas as pd

from src.errors import InputError, brief
from src.stimuli.csvs import filled, ratings, read_csv, unique
from src.stimuli.within import no_link_out


def vader(count: int | None, seed: int) -> tuple[pd.DataFrame, int, list[str]]:
    """Alphabetic words of the VADER lexicon; valence = (mean + 4) / 8.

    Args:
        count: draw so many of them, without replacement; None takes all.
        seed: of the draw.

    Returns:
        Columns `word` and `valence`; how many entries the lexicon has; what was left out.

    Raises:
        InputError: the lexicon has fewer words than `count`.
    """
    text = (importlib.resources.files("vaderSentiment") / "vader_lexicon.txt").read_text("utf-8")
    entries = [line.split("\t")[:2] for line in text.splitlines() if line.strip()]
    alphabetic = [(word, (float(mean) + 4) / 8) for word, mean in entries if re.fullmatch("[a-z]+", word)]
    rated = dict(alphabetic)
    frame = pd.DataFrame({"word": list(rated), "valence": list(rated.values())})
    notes = [
        f"{len(entries) - len(alphabetic)} entries are emoticons or hold other signs than a-z",
        f"{len(alphabetic) - len(frame)} repeat a word, whose last rating is kept",
    ]
    if count is not None:
        if count > len(frame):
            raise InputError(
                f"words.count={count}: VADER has {len(frame)} alphabetic words. Ask for fewer, or null."
            )
        chosen = np.random.default_rng(seed).choice(len(frame), count, replace=False)
        notes.append(f"{len(frame) - count} left by words.count={count}")
        frame = frame.iloc[np.sort(chosen)].reset_index(drop=True)
    return frame, len(entries), notes


def nrc_vad(path: Path, lowest: float) -> tuple[pd.DataFrame, int, list[str]]:
    """NRC-VAD (Mohammad 2018, 2025): tab-separated word, valence, arousal, dominance.

    Only word and valence are read, so that an unreadable dominance costs no word. A word that
    reads `null` or `nan` is a word. Version 1 was published with a header and without, version 2
    has one; it holds expressions of several words besides.

    Args:
        path: the lexicon, or the folder that holds it as its only .txt file but for a README.
        lowest: of the scale, which ends at 1: 0 in version 1, -1 in version 2.

    Returns:
        Columns `word` and `valence`, rescaled to [0, 1]; how many words the lexicon has; nothing.

    Raises:
        InputError: there is no such file, a row has no number where the valence stands, or the
            scale is that of the other version.
    """
    remedy = (
        "Set words.path to the NRC-VAD lexicon, or dataset.root to the folder above nrc_vad/. "
        "make data says how to get it."
    )
    path = _only_file(path, ".txt", remedy)
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}. Save it as text in UTF-8 that may be read.") from None
    rows: dict[str, float] = {}
    stands: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        cells = [cell.strip() for cell in line.split("\t")]
        if not line.strip() or (number == 1 and _is_header(cells)):
            continue
        word, valence = _word(cells, lowest, f"{path}, row {number}")
        if word in rows:
            raise InputError(
                f"{path}, row {number}: {brief(word)!r} stands in row {stands[word]} already. Delete one row."
            )
        rows[word], stands[word] = valence, number
    if not rows:
        raise InputError(f"{path}: no lines of word, tab, valence in it. Name another file: words.path=FILE.")
    if lowest < 0 and min(rows.values()) >= 0:
        raise InputError(
            f"{path}: none of {len(rows)} valences is negative, on a scale from {lowest:g} to 1. Version 1 "
            "goes from 0 to 1: choose words=nrc_vad, or set words.lowest=0."
        )
    valences = [(valence - lowest) / (1 - lowest) for valence in rows.values()]
    return pd.DataFrame({"word": list(rows), "valence": valences}), len(rows), []


def warriner(path: Path) -> tuple[pd.DataFrame, int, list[str]]:
    """Ratings of English lemmas (Warriner, Kuperman & Brysbaert 2013); valence = (mean - 1) / 8.

    Args:
        path: the csv with columns `Word` and `V.Mean.Sum`, or the folder that holds it as its only
            .csv file.

    Returns:
        Columns `word` and `valence`; how many words there are; nothing.

    Raises:
        InputError: there is no such file, a word is missing or stands twice, or a rating lies outside 1 to 9.
    """
    remedy = (
        "Set words.path to the ratings, or dataset.root to the folder above warriner/. "
        "make data says how to get it."
    )
    path = _only_file(path, ".csv", remedy)
    rows = read_csv(path, ["Word", "V.Mean.Sum"], remedy)
    filled(rows, "Word", path)
    unique(rows, "Word", path)
    valence = ratings(rows, "V.Mean.Sum", "Word", 9, path)
    return pd.DataFrame({"word": rows["Word"], "valence": valence}), len(rows), []


def _is_header(cells: list[str]) -> bool:
    """Whether a row names the columns; a word called `valence` has a number beside it."""
    return len(cells) > 1 and cells[1].lower() == "valence"


def _word(cells: list[str], lowest: float, place: str) -> tuple[str, float]:
    try:
        word, valence = cells[0], float(cells[1])
    except (IndexError, ValueError):
        word, valence = "", 0.0
    if not word or "\0" in word:
        line = "\t".join(cells)
        raise InputError(f"{place}: {brief(line)!r} is not word, tab, valence. Correct or delete the row.")
    if lowest == 0 and -1 <= valence < 0:
        raise InputError(
            f"{place}: valence {brief(cells[1])} of {brief(word)!r} is negative, on a scale from 0 to 1. "
            "Version 2 goes from -1 to 1: choose words=nrc_vad_v2, or set words.lowest=-1."
        )
    if not lowest <= valence <= 1:
        raise InputError(
            f"{place}: valence {brief(cells[1])} of {brief(word)!r} is outside [{lowest:g}, 1]. "
            "Correct or delete the row."
        )
    return word, valence


def _only_file(path: Path, suffix: str, remedy: str) -> Path:
    if path.is_file():
        return path
    if not path.is_dir():
        raise InputError(f"{path}: no such file or folder. {remedy}")
    found = sorted(
        item
        for item in path.iterdir()
        if item.suffix.lower() == suffix
        and item.is_file()
        and not item.name.lower().startswith((".", "readme"))
    )
    if len(found) != 1:
        names = f" ({', '.join(item.name for item in found[:5])})" if found else ""
        raise InputError(f"{path}: {len(found)} {suffix} files{names}, where one is looked for. {remedy}")
    no_link_out(found, path, "words.path")
    return found[0]
