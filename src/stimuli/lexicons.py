"""Load words with human ratings of valence."""

import importlib.resources
import re
from pathlib import Path

import numpy as np
import pandas as pd

from src.configs import VaderConfig, WarrinerConfig
from src.errors import InputError, first_few
from src.stimuli.csvs import check_filled, check_unique, read_csv, rescaled_ratings
from src.stimuli.safe_paths import refuse_links_out
from src.stimuli.table import Loaded


def vader(cfg: VaderConfig) -> Loaded:
    """Draw alphabetic words of the VADER lexicon, without replacement; valence = (mean + 4) / 8."""
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
            raise InputError(f"words.count={count}: VADER has {len(frame)} words of a-z. Set fewer, or null.")
        chosen = np.random.default_rng(cfg.seed).choice(len(frame), count, replace=False)
        notes.append(f"{len(frame) - count} left out by words.count={count}")
        frame = frame.iloc[np.sort(chosen)].reset_index(drop=True)
    return frame, len(entries), notes


def warriner(cfg: WarrinerConfig) -> Loaded:
    """Read ratings of English lemmas (Warriner, Kuperman & Brysbaert 2013), or another csv of rated words."""
    remedy = "Set words.path to the ratings, or dataset.root to the folder above warriner/. See make data."
    path, word = only_file(Path(cfg.path), ".csv", remedy), cfg.word
    header_remedy = "Set words.word and words.valence to its columns, or correct the comma-separated header."
    rows = read_csv(path, [word, cfg.valence], remedy, header_remedy=header_remedy)
    check_filled(rows, word, path)
    check_unique(rows, word, path)
    rated = rescaled_ratings(rows, cfg.valence, word, (cfg.lowest, cfg.highest), path, "words")
    return pd.DataFrame({"word": rows[word], "valence": rated}), len(rows), []


def only_file(path: Path, suffix: str, remedy: str) -> Path:
    """Return a file, or the only file of a suffix in a folder, ignoring a README."""
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
