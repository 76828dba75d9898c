"""Load folders of pictures without a csv (`faces=ieat`); paths of folders are the groups.

The defaults are iEAT's concepts; for other folders use `faces=ieat faces.root=DIR faces.groups=null`.
Pictures listed in a csv are loaded by `faces=folder`.
"""

import os
from pathlib import Path

import pandas as pd

from src.configs import PictureFoldersConfig
from src.errors import InputError, brief, did_you_mean, first_few
from src.stimuli.group_sampling import sample_groups
from src.stimuli.pictures import add_hashes
from src.stimuli.safe_paths import refuse_links_out
from src.stimuli.safe_yaml import is_text
from src.stimuli.table import LoadedStimuli

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp")
REMEDY = "Set faces.root to a folder of folders of pictures, and faces.groups to some of these folders."


def load(cfg: PictureFoldersConfig) -> LoadedStimuli:
    """Load the pictures of folders.

    A picture's group is the path of its folder relative to `root`, with `/` as separator. Pictures in `root`
    itself have no group; like those in folders that are not chosen they are left out, with a note.
    """
    root = Path(cfg.root)
    if not root.is_dir():
        raise InputError(f"{root}: no such folder. {REMEDY}")
    paths = sorted(root.rglob("*"))
    # os.path.isdir does not raise for a link into a folder without permission.
    for link in (path for path in paths if path.is_symlink() and os.path.isdir(path)):  # noqa: PTH112
        name = link.relative_to(root).as_posix()
        if cfg.groups is None or any(f"{group}/".startswith(f"{name}/") for group in cfg.groups):
            raise InputError(f"{link}: links to folders are not followed. Replace the link by the folder.")
    # Archives packed on a Mac contain a metadata file `._NAME` for each picture NAME.
    pictures = (path for path in paths if path.suffix.lower() in SUFFIXES and path.name[0] != ".")
    files = [path for path in pictures if path.is_file()]
    groups = [path.parent.relative_to(root).as_posix() for path in files]
    known = sorted({*groups} - {"."})
    if not known:
        raise InputError(f"{root}: no pictures in its folders. {REMEDY}")
    chosen = known if cfg.groups is None else cfg.groups
    if absent := sorted({*chosen} - {*known}):
        raise InputError(
            f"{root}: no pictures in {', '.join(absent)}.{did_you_mean(absent[0], known)} Its folders: "
            f"{first_few(known, 30)}. {REMEDY}"
        )
    rows = [(path, group) for path, group in zip(files, groups, strict=True) if group in chosen]
    refuse_links_out([path for path, _ in rows], root, "faces.root")
    if bad_path := next((path for path, _ in rows if not is_text(str(path))), None):
        raise InputError(f"{brief(bad_path, 1000)}: the name is not UTF-8. Rename the picture.")
    frame = pd.DataFrame(
        {
            "id": [path.relative_to(root).as_posix() for path, _ in rows],
            "group": [group for _, group in rows],
            "path": [str(path) for path, _ in rows],
        }
    )
    sample, notes = sample_groups(frame, cfg, root)
    if left_out := len(files) - len(rows):
        notes = [f"{left_out} pictures in root itself or in other folders", *notes]
    return add_hashes(sample), len(files), notes
