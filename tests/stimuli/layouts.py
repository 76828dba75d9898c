"""Each published layout: how it is drawn, and how it is loaded unless a test says otherwise."""

from pathlib import Path

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

LOADS = {
    "fairface": lambda root, **choice: fairface.load(root, "fairface_label_train.csv", **CHOICE | choice),
    "cfd": lambda root, **choice: cfd.load(root, **CFD | choice),
    "utkface": lambda root, **choice: utkface.load(root, **UTKFACE | choice),
    "folder": lambda root, **choice: folder.load(root, **FOLDER | choice),
    "oasis": lambda root, **choice: oasis.load(root, "OASIS.csv", "images", **OASIS | choice),
    "nrc_vad": lambda root, **choice: nrc_vad.load(root, **NRC_VAD | choice),
    "nrc_vad_v2": lambda root, **choice: nrc_vad.load(root, **NRC_VAD | {"lowest": -1} | choice),
    "warriner": lambda root, **choice: lexicons.warriner(root, **WARRINER | choice),
}


def load(layout: str, root: Path, **choice):
    """What the loader makes of a folder that is drawn already."""
    return LOADS[layout](root, **choice)


def made(layout: str, root: Path, **choice):
    """What the loader makes of a freshly drawn folder."""
    return load(layout, getattr(drawn, layout)(root), **choice)
