"""Each published layout: how it is drawn, and how it is loaded unless a test says otherwise."""

from pathlib import Path

from src.configs import (
    CfdConfig,
    FairFaceConfig,
    FolderConfig,
    NrcVadConfig,
    OasisConfig,
    UtkFaceConfig,
    WarrinerConfig,
)
from src.stimuli import cfd, fairface, folder, lexicons, nrc_vad, oasis, utkface
from tests.stimuli import drawn

CHOICE = {
    "races": {"Asian": ["East Asian"], "Black": ["Black"]},
    "genders": {"Men": ["Male"], "Women": ["Female"]},
    "ages": None,
    "per_group": None,
    "seed": 0,
}
CFD = {
    "races": {"Asian": ["A"], "Black": ["B"], "White": ["W"]},
    "genders": {"Men": ["M"], "Women": ["F"]},
    "expressions": ["N"],
    "per_group": None,
    "seed": 0,
    "pictures": ["Images/CFD"],
    "norming": None,
}
UTKFACE = {
    "races": {"Asian": ["2"], "Black": ["1"], "White": ["0"]},
    "genders": {"Men": ["0"], "Women": ["1"]},
    "ages": None,
    "per_group": None,
    "seed": 0,
}
FOLDER = {"csv": "faces.csv", "file": "file", "group": ["ethnicity", "sex"], "per_group": None, "seed": 0}
OASIS = {"lowest": 1, "highest": 7}
NRC_VAD = {"word": None, "lowest": 0, "highest": 1}
WARRINER = {"word": "Word", "valence": "V.Mean.Sum", "lowest": 1, "highest": 9}

LAYOUTS = {
    "fairface": (fairface.load, FairFaceConfig, {"csv": "fairface_label_train.csv", **CHOICE}),
    "cfd": (cfd.load, CfdConfig, CFD),
    "utkface": (utkface.load, UtkFaceConfig, UTKFACE),
    "folder": (folder.load, FolderConfig, FOLDER),
    "oasis": (oasis.load, OasisConfig, {"csv": "OASIS.csv", "pictures": "images", **OASIS}),
    "nrc_vad": (nrc_vad.load, NrcVadConfig, NRC_VAD),
    "nrc_vad_v2": (nrc_vad.load, NrcVadConfig, NRC_VAD | {"lowest": -1}),
    "warriner": (lexicons.warriner, WarrinerConfig, WARRINER),
}


def load(layout: str, root: Path, **choice):
    """What the loader makes of a folder that is drawn already."""
    loader, config, usual = LAYOUTS[layout]
    place = "root" if "root" in config.__dataclass_fields__ else "path"
    return loader(config(**{place: str(root)} | usual | choice))


def made(layout: str, root: Path, **choice):
    """What the loader makes of a freshly drawn folder."""
    return load(layout, getattr(drawn, layout)(root), **choice)
