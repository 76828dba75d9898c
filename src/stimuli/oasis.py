"""OASIS (Kurdi, Lozano & Banaji 2017): 900 scenes with ratings of valence from 1 to 7."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from src.configs import OasisConfig
from src.stimuli.csvs import ratings, read_csv, unique
from src.stimuli.duplicates import distinct
from src.stimuli.pictures import hashed, present
from src.stimuli.safe_paths import no_link_out, paths_below


def load(cfg: OasisConfig) -> tuple[pd.DataFrame, int, list[str]]:
    """Read scenes and their valence, rescaled to [0, 1].

    Args:
        cfg: see conf/scenes/oasis.yaml. `csv` has the columns `Theme` and `Valence_mean`; the pictures are
            named `{Theme}.jpg`.

    Returns:
        Columns `id` (the theme), `valence`, `path`, `sha256`, `conversions`; rows of the csv; what was
        left out.

    Raises:
        InputError: files are missing or unreadable, a rating lies off the scale, or a picture occurs twice.
    """
    root = Path(cfg.root)
    path = root / cfg.csv
    remedy = (
        "Set dataset.root to the folder that holds oasis/, or scenes.root to the one of the csv. "
        "make data says how to get it."
    )
    no_link_out([path], root, "scenes.root")
    rows = read_csv(path, ["Theme", "Valence_mean"], remedy)
    paths_below(rows, "Theme", path, "scenes.root")
    unique(rows, "Theme", path)
    # The archive was published with Images/ and with images/.
    found = {item.name.lower(): item.name for item in root.iterdir()}
    folder = cfg.pictures
    if not (root / folder).is_dir():
        folder = found.get(folder.lower(), folder)
    frame = pd.DataFrame(
        {
            "id": rows["Theme"],
            "valence": ratings(rows, "Valence_mean", "Theme", (cfg.lowest, cfg.highest), path, "scenes"),
            "path": [str(root / folder / f"{theme}.jpg") for theme in rows["Theme"]],
            "row": rows["row"],
        }
    )
    nowhere = "Put the pictures there, or set scenes.root and scenes.pictures to where Theme.jpg of each is."
    frame, notes = present(frame, path, root, "scenes.root", nowhere)
    frame, copies = distinct(frame, path, cfg.duplicates, "scenes")
    return hashed(frame), len(rows), notes + copies
