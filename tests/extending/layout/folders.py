"""Load faces from a folder of pictures for each group: a file layout in a single file."""

from pathlib import Path

import pandas as pd

from src.errors import InputError
from src.stimuli.pictures import hash_pictures


def load(root, suffix=".png"):
    """Read faces; the folder that a picture lies in names its group.

    Returns:
        Columns `id`, `group`, `path`, `sha256`, `conversions`; the number of files; what was left out.
    """
    files = sorted(path for path in Path(root).glob("*/*") if path.is_file())
    paths = [path for path in files if path.suffix == suffix]
    if not paths:
        raise InputError(
            f"{root}: expected pictures {suffix} in folders of groups, got none. Set faces.options.root."
        )
    frame = pd.DataFrame(
        {"id": [f"{path.parent.name}/{path.name}" for path in paths], "path": map(str, paths)}
    )
    frame["group"] = [path.parent.name for path in paths]
    frame["sha256"], frame["conversions"] = hash_pictures(paths)
    others = len(files) - len(paths)
    return frame, len(files), [f"{others} are no {suffix}"] if others else []
