"""Load VisoGender (Hall et al. 2023): photographs at work, listed by their addresses."""

from pathlib import Path

import pandas as pd

from src.configs import VisoGenderConfig
from src.errors import InputError, brief
from src.stimuli import people
from src.stimuli.csvs import check_filled, check_unique, read_csv
from src.stimuli.safe_paths import check_paths, refuse_links_out
from src.stimuli.table import LoadedStimuli

REMEDY = (
    "Set dataset.root to the folder that contains visogender/, or faces.root to the folder of the tsv files "
    "(see make data)."
)
ID = "IDX"
COLUMNS = {"Sector": "sector", "Occupation": "occupation", "Occupation_perceived_gender": "gender"}
# Columns of the table of two persons (OP), or of one person and an object (OO).
OPTIONAL = {
    "Participant": "participant",
    "Participant_perceived_gender": "participant_gender",
    "Object": "object",
}


def load(cfg: VisoGenderConfig) -> LoadedStimuli:
    """Load the pictures that the chosen tables list: `pictures`/IDX with any suffix, below `root`.

    The group is the perceived gender of the person of the occupation; `context` is OO for pictures of one
    person, and OP for those of two.
    """
    root = Path(cfg.root)
    listings = []
    for name in cfg.tables:
        path = root / name
        refuse_links_out([path], root, "faces.root")
        rows = read_csv(path, [ID, *COLUMNS], REMEDY, optional=[*OPTIONAL], separator="\t")
        for column in (ID, *COLUMNS):
            check_filled(rows, column, path)
        check_paths(rows, ID, path, "faces.pictures")
        check_unique(rows, ID, path)
        rows = rows.rename(columns=COLUMNS | OPTIONAL)
        rows["context"] = rows[ID].str.partition("_")[0]
        listings.append(rows)
    if not listings:
        raise InputError("faces.tables=[]: name the tsv files of the pictures, below faces.root.")
    rows = pd.concat(listings, ignore_index=True).fillna("")
    if rows[ID].duplicated().any():
        first = brief(rows[ID][rows[ID].duplicated()].iloc[0])
        raise InputError(f"{root}: {first} occurs in two of faces.tables. Choose one version of each table.")
    folder = root / cfg.pictures
    name_by_stem = {item.stem: item.name for item in sorted(folder.iterdir())} if folder.is_dir() else {}
    files = [f"{cfg.pictures}/{name_by_stem.get(number, number)}" for number in rows[ID]]
    listing = rows.drop(columns=ID).assign(file=files)
    frame, _, notes = people.build_faces(listing, cfg, folder, root)
    return frame, len(rows), notes
