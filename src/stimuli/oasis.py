"""Load OASIS (Kurdi, Lozano & Banaji 2017): 900 scenes with ratings of valence from 1 to 7."""

from pathlib import Path

import pandas as pd

from src.configs import OasisConfig
from src.stimuli.csvs import check_unique, read_csv, rescaled_ratings
from src.stimuli.pictures import add_hashes, drop_absent, drop_copies
from src.stimuli.safe_paths import check_paths, refuse_links_out
from src.stimuli.table import Loaded


def load(cfg: OasisConfig) -> Loaded:
    """Load scenes and their valence (csv columns `Theme`, `Valence_mean`); the pictures are `{Theme}.jpg`.

    Pictures of a theme, as Beach 1 and Beach 2, are a cluster.
    """
    root = Path(cfg.root)
    path = root / cfg.csv
    remedy = "Set dataset.root to the folder of oasis/, or scenes.root to that of the csv (see make data)."
    refuse_links_out([path], root, "scenes.root")
    rows = read_csv(path, ["Theme", "Valence_mean"], remedy)
    check_paths(rows, "Theme", path, "scenes.root")
    check_unique(rows, "Theme", path)
    # The archive was published with Images/ and with images/.
    names = {item.name.lower(): item.name for item in root.iterdir()}
    folder, scale = cfg.pictures, (cfg.lowest, cfg.highest)
    if not (root / folder).is_dir():
        folder = names.get(folder.lower(), folder)
    frame = pd.DataFrame(
        {
            "id": rows["Theme"],
            "valence": rescaled_ratings(rows, "Valence_mean", "Theme", scale, path, "scenes"),
            # Scenes of one theme are numbered: Acorns 1, Acorns 2.
            "cluster": rows["Theme"].str.replace(r"\s*\d+$", "", regex=True),
            "path": [str(root / folder / f"{theme}.jpg") for theme in rows["Theme"]],
            "row": rows["row"],
        }
    )
    absent_remedy = "Put the pictures there, or set scenes.root and scenes.pictures to their folder."
    frame, notes = drop_absent(frame, path, root, "scenes.root", absent_remedy)
    frame, copy_notes = drop_copies(frame, path, cfg.duplicates, "scenes")
    return add_hashes(frame), len(rows), notes + copy_notes
