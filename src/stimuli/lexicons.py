"""Words with human ratings of valence."""

from __future__ import annotations

import importlib.resources
import re
from pathlib import Path

import numpy as np
import pandas as pd

from src.configs import VaderConfig, WarrinerConfig
from src.errors import InputError
from src.stimuli.csvs import filled, ratings, read_csv, unique
from src.stimuli.safe_paths import no_link_out


def vader(cfg: VaderConfig) -> tuple[pd.DataFrame, int, list[str]]:
    """Draw alphabetic words of the VADER lexicon, without replacement; valence = (mean + 4) / 8.

    Args:
        cfg: see conf/words/vader.yaml.

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
    if (count := cfg.count) is not None:
        if count > len(frame):
            raise InputError(
                f"words.count={count}: VADER has {len(frame)} alphabetic words. Ask for fewer, or null."
            )
        chosen = np.random.default_rng(cfg.seed).choice(len(frame), count, replace=False)
        notes.append(f"{len(frame) - count} left by words.count={count}")
        frame = frame.iloc[np.sort(chosen)].reset_index(drop=True)
    return frame, len(entries), notes


def warriner(cfg: WarrinerConfig) -> tuple[pd.DataFrame, int, list[str]]:
    """Read ratings of English lemmas (Warriner, Kuperman & Brysbaert 2013), or another csv of rated words.

    Args:
        cfg: see conf/words/warriner.yaml. `path` is the csv, or the folder that holds it as its only .csv
            file.

    Returns:
        Columns `word` and `valence`, rescaled to [0, 1]; how many words there are; nothing.

    Raises:
        InputError: there is no such file or column, a word is missing or stands twice, or a rating lies off
            the scale.
    """
    remedy = (
        "Set words.path to the ratings, or dataset.root to the folder above warriner/. "
        "make data says how to get it."
    )
    path, word = only_file(Path(cfg.path), ".csv", remedy), cfg.word
    lacking = (
        "Set words.word and words.valence to columns of it, or correct the header (commas part columns)."
    )
    rows = read_csv(path, [word, cfg.valence], remedy, lacking=lacking)
    filled(rows, word, path)
    unique(rows, word, path)
    rated = ratings(rows, cfg.valence, word, (cfg.lowest, cfg.highest), path, "words")
    return pd.DataFrame({"word": rows[word], "valence": rated}), len(rows), []


def only_file(path: Path, suffix: str, remedy: str) -> Path:
    """Return a file, or the only file of a suffix in a folder, a README aside.

    Raises:
        InputError: there is none, or the folder holds several or a link that leads out of it.
    """
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
