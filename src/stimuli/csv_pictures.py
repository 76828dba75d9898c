"""Load pictures listed in a csv: faces with groups, and scenes with ratings."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from src.configs import FairFaceConfig, FolderConfig, OasisConfig
from src.errors import InputError
from src.stimuli import group_sampling, pictures
from src.stimuli.csvs import HEADER_REMEDY, check_filled, check_unique, read_csv, rescale_ratings
from src.stimuli.safe_paths import check_paths, convert_to_posix, refuse_links_out
from src.stimuli.table import LoadedStimuli

ABSENT_REMEDY = "Put the pictures next to the csv as the publisher's archive has them, or set faces.root."


def load_fairface(cfg: FairFaceConfig) -> LoadedStimuli:
    """Load FairFace (Kärkkäinen & Joo 2021): faces that annotators labelled with race, gender and age.

    Only the configured groups and, if set, ages are loaded. The csv has the columns `file` (a path in
    `root`), `age`, `gender` and `race`.
    """
    root = Path(cfg.root)
    path = root / cfg.csv
    remedy = (
        "Set dataset.root to the folder above fairface/, or faces.root to the csv's folder (see make data)."
    )
    header_remedy = f"{HEADER_REMEDY} For pictures of your own choose faces=folder."
    rows, notes = _read_listing(path, root, ["file", "age", "gender", "race"], remedy, header_remedy)
    selected_rows, group_notes = group_sampling.select_groups(rows, cfg, path, "age", cfg.ages)
    frame = selected_rows.assign(id=selected_rows["file"])
    frame["path"] = [str(root / name) for name in frame["file"]]
    frame = frame[["id", "group", "race", "gender", "age", "path", "row"]]
    frame, absent_notes = pictures.drop_absent(frame, path, root, "faces.root", ABSENT_REMEDY)
    frame, sample_notes = group_sampling.sample_groups(frame, cfg, path)
    return pictures.add_hashes(frame), len(rows), notes + group_notes + absent_notes + sample_notes


def load_folder(cfg: FolderConfig) -> LoadedStimuli:
    """Load a folder of pictures with a csv; if `group` has two columns, they are race and gender."""
    if not cfg.group:
        raise InputError("faces.group=[]: name the columns of the csv that make up a group's name.")
    root, file_column = Path(cfg.root), cfg.file
    path = root / cfg.csv
    remedy = "Set faces.root to the folder of the pictures, and faces.csv to a file in it or a full path."
    set_columns = (
        f"Set faces.file (now {cfg.file}) to the column of paths, faces.group to the columns of groups"
    )
    header_remedy = f"{set_columns}, or correct the header (commas separate columns)."
    rows, notes = _read_listing(
        path, root, [file_column, *cfg.group], remedy, header_remedy, refuse_empty=True
    )
    names = rows[list(cfg.group)].agg(" ".join, axis=1)
    frame = pd.DataFrame({"id": rows[file_column], "group": names, "row": rows["row"]})
    if len(cfg.group) == 2:
        frame["race"], frame["gender"] = rows[cfg.group[0]], rows[cfg.group[1]]
    frame["path"] = [str(root / name) for name in rows[file_column]]
    groups = sorted(set(frame["group"]))
    absent_remedy = f"Set faces.root to the folder that the paths begin in. {set_columns}."
    frame, absent_notes = pictures.drop_absent(frame, path, root, "faces.root", absent_remedy)
    if empty_groups := [name for name in groups if name not in set(frame["group"])]:
        raise InputError(
            f"{path}: groups without a face: {', '.join(empty_groups)}. Add some, or delete the rows."
        )
    frame, sample_notes = group_sampling.sample_groups(frame, cfg, path)
    return pictures.add_hashes(frame), len(rows), notes + absent_notes + sample_notes


def load_oasis(cfg: OasisConfig) -> LoadedStimuli:
    """Load OASIS (Kurdi, Lozano & Banaji 2017): 900 scenes with ratings of valence from 1 to 7.

    The csv has the columns `Theme` and `Valence_mean`; the pictures are `{Theme}.jpg`. Pictures with the same
    theme, such as Beach 1 and Beach 2, form a cluster.
    """
    root = Path(cfg.root)
    path = root / cfg.csv
    remedy = (
        "Set dataset.root to the folder above oasis/, or scenes.root to the csv's folder (see make data)."
    )
    refuse_links_out([path], root, "scenes.root")
    rows = read_csv(path, ["Theme", "Valence_mean"], remedy)
    check_paths(rows, "Theme", path, "scenes.root")
    check_unique(rows, "Theme", path)
    folder, scale = cfg.pictures, (cfg.lowest, cfg.highest)
    if not (root / folder).is_dir() and root.is_dir():
        # The archive was published both with Images/ and with images/.
        name_of_lower = {item.name.lower(): item.name for item in root.iterdir()}
        folder = name_of_lower.get(folder.lower(), folder)
    frame = pd.DataFrame(
        {
            "id": rows["Theme"],
            "valence": rescale_ratings(rows, "Valence_mean", "Theme", scale, path, "scenes"),
            # Scenes of one theme are numbered: Acorns 1, Acorns 2.
            "cluster": rows["Theme"].str.replace(r"\s*\d+$", "", regex=True),
            "path": [str(root / folder / f"{theme}.jpg") for theme in rows["Theme"]],
            "row": rows["row"],
        }
    )
    absent_remedy = "Put the pictures there, or set scenes.root and scenes.pictures to their folder."
    frame, notes = pictures.drop_absent(frame, path, root, "scenes.root", absent_remedy)
    frame, copy_notes = pictures.drop_copies(frame, path, cfg.duplicates, "scenes")
    return pictures.add_hashes(frame), len(rows), notes + copy_notes


def _read_listing(
    path: Path,
    root: Path,
    columns: Sequence[str],
    remedy: str,
    header_remedy: str,
    *,
    refuse_empty: bool = False,
) -> tuple[pd.DataFrame, list[str]]:
    """Read columns of a csv, the first of which has paths in `faces.root`; note converted paths."""
    refuse_links_out([path], root, "faces.root")
    rows, file_column = read_csv(path, columns, remedy, header_remedy=header_remedy), columns[0]
    for column in columns if refuse_empty else ():
        check_filled(rows, column, path)
    check_paths(rows, file_column, path, "faces.root")
    rows[file_column], notes = convert_to_posix(rows[file_column], root, path)
    check_unique(rows, file_column, path)
    return rows, notes
