"""Load each published layout, with usual settings where a test names none."""

from pathlib import Path

from src import configs
from src.stimuli import csv_pictures, lexicons, named_faces
from tests.stimuli import drawn

FACES = {"per_group": None, "seed": 0}


def faces(races: dict[str, str], men: str, women: str, **settings) -> dict:
    """Return settings of faces whose groups have one name each."""
    groups = {"races": {race: [name] for race, name in races.items()}}
    return {**FACES, **groups, "genders": {"Men": [men], "Women": [women]}, **settings}


FAIRFACE = faces({"Asian": "East Asian", "Black": "Black"}, "Male", "Female", ages=None)
FAIRFACE |= {"csv": "fairface_label_train.csv"}
CFD = faces({"Asian": "A", "Black": "B", "White": "W"}, "M", "F", expressions=["N"], norming=None)
CFD |= {"pictures": ["Images/CFD"]}
UTKFACE = faces({"Asian": "2", "Black": "1", "White": "0"}, "0", "1", ages=None)
FOLDER = {**FACES, "csv": "faces.csv", "file": "file", "group": ["ethnicity", "sex"]}
OASIS = {"csv": "OASIS.csv", "pictures": "images", "lowest": 1, "highest": 7}
NRC_VAD = {"word": None, "lowest": 0, "highest": 1}
WARRINER = {"word": "Word", "valence": "V.Mean.Sum", "lowest": 1, "highest": 9}
LAYOUTS = {
    "fairface": (csv_pictures.load_fairface, configs.FairFaceConfig, FAIRFACE),
    "cfd": (named_faces.load_cfd, configs.CfdConfig, CFD),
    "utkface": (named_faces.load_utkface, configs.UtkFaceConfig, UTKFACE),
    "folder": (csv_pictures.load_folder, configs.FolderConfig, FOLDER),
    "oasis": (csv_pictures.load_oasis, configs.OasisConfig, OASIS),
    "nrc_vad": (lexicons.load_nrc_vad, configs.NrcVadConfig, NRC_VAD),
    "nrc_vad_v2": (lexicons.load_nrc_vad, configs.NrcVadConfig, NRC_VAD | {"lowest": -1}),
    "warriner": (lexicons.load_warriner, configs.WarrinerConfig, WARRINER),
}


def load(layout: str, root: Path, **settings):
    """Load a folder that has been drawn, with settings in place of the usual ones."""
    loader, config_class, defaults = LAYOUTS[layout]
    path_field = "root" if "root" in config_class.__dataclass_fields__ else "path"
    return loader(config_class(**{path_field: str(root)} | defaults | settings))


def made(layout: str, root: Path, **settings):
    """Draw a folder, and load it."""
    return load(layout, getattr(drawn, layout)(root), **settings)
