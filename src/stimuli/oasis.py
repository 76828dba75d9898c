"""Load OASIS (Kurdi, Lozano & Banaji 2017): 900 scenes with ratings of valence from 1 to 7."""

from pathlib import Path

import pandas as pd

from src.configs import OasisConfig
from src.stimuli.csvs import check_unique, read_csv, rescaled_ratings
from src.stimuli.pictures import distinct, hashed, present
from src.stimuli.safe_paths import check_paths, no_link_out
from src.stimuli.table import Loaded


def load(cfg: OasisConfig) -> Loaded:
    """Load scenes and their valence (csv columns `Theme`, `Valence_mean`); the pictures are `{Theme}.jpg`."""
    root = Path(cfg.root)
    path = root / cfg.csv
    remedy = "Set dataset.root to the folder of oasis/, or scenes.root to that of the csv (see make data)."
    no_link_out([path], root, "scenes.root")
    rows = read_csv(path, ["Theme", "Valence_mean"], remedy)
    check_paths(rows, "Theme", path, "scenes.root")
    check_unique(rows, "Theme", path)
    # The archive was published with Images/ and with images/.
    items = {item.name.lower(): item.name for item in root.iterdir()}
    folder, scale = cfg.pictures, (cfg.lowest, cfg.highest)
    if not (root / folder).is_dir():
        folder = items.get(folder.lower(), folder)
    frame = pd.DataFrame(
        {
            "id": rows["Theme"],
            "valence": rescaled_ratings(rows, "Valence_mean", "Theme", scale, path, "scenes"),
            "path": [str(root / folder / f"{theme}.jpg") for theme in rows["Theme"]],
            "row": rows["row"],
        }
    )
    absent_remedy = "Put the pictures there, or set scenes.root and scenes.pictures to their folder."
    frame, notes = present(frame, path, root, "scenes.root", absent_remedy)
    frame, copies = distinct(frame, path, cfg.duplicates, "scenes")
    return hashed(frame), len(rows), notes + copies
