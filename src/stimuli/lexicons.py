"""Words with human ratings of valence."""

from __future__ import annotations

import importlib.resources
import re
from pathlib import Path

import numpy as np
import pandas as pd

from src.errors import InputError


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


def nrc_vad(path: Path) -> tuple[pd.DataFrame, int, list[str]]:
    """NRC-VAD v1: tab-separated, no header: word, valence, arousal, dominance in [0, 1].

    Only word and valence are read, so that an unreadable dominance costs no word. A word that
    reads `null` or `nan` is a word.

    Args:
        path: the lexicon, or the folder that holds it as its only .txt file.

    Raises:
        InputError: there is no such file, or a row has no number where the valence stands.
    """
    path = _only_text_file(path)
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: {error}. Save it as text in UTF-8.") from None
    rows: dict[str, float] = {}
    stands: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        cells = [cell.strip() for cell in line.split("\t")]
        try:
            word, valence = cells[0], float(cells[1])
        except (IndexError, ValueError):
            word, valence = "", 0.0
        if not word:
            raise InputError(
                f"{path}, row {number}: {line!r} is not word, tab, valence. Correct or delete the row."
            )
        if not 0 <= valence <= 1:
            raise InputError(
                f"{path}, row {number}: valence {cells[1]} of {word!r} is outside [0, 1]. "
                "Correct or delete the row."
            )
        if word in rows:
            raise InputError(
                f"{path}, row {number}: {word!r} stands in row {stands[word]} already. Delete one row."
            )
        rows[word], stands[word] = valence, number
    return pd.DataFrame({"word": list(rows), "valence": list(rows.values())}), len(rows), []


def _only_text_file(path: Path) -> Path:
    if path.is_file():
        return path
    found = sorted(path.glob("*.txt")) if path.is_dir() else []
    if len(found) != 1:
        raise InputError(
            f"{path}: {'no such file or folder' if not path.exists() else f'{len(found)} .txt files'}. "
            "Set words.path to the NRC-VAD lexicon, or dataset.root to the folder above nrc_vad/."
        )
    return found[0]
