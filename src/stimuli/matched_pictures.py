"""Load datasets of matched pictures, whose sets show the same scene with another person."""

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import pandas as pd

from src.configs import PairsConfig, SispiConfig, SocialCounterfactualsConfig
from src.errors import InputError, brief, first_few
from src.stimuli import people, shards
from src.stimuli.safe_paths import refuse_links_out
from src.stimuli.safe_yaml import is_text
from src.stimuli.table import LoadedStimuli

SISPI_EXAMPLE, PAIRS_EXAMPLE = "doctor_102_female_black.jpg", "occupations/taxi/black_man.png"
SISPI_NAME = r"(?P<occupation>[^.].*)_(?P<number>\d+)_(?P<gender>[A-Za-z]+)_(?P<ethnicity>[A-Za-z]+)\.jpe?g"
# One published name ends in a number: status/phone/white_man1.png.
PAIRS_NAME = (
    r"(?P<section>[^./][^/]*)/(?P<scene>[^./][^/]*)/(?P<race>[a-z]+)_(?P<gender>[a-z]+)\d*\.(png|jpe?g)"
)
COUNTERFACTUAL_COLUMNS = ("counterfactual_set", "caption", "a1_type", "a1", "a2_type", "a2")
COUNTERFACTUAL_REMEDY = (
    "Set dataset.root to the folder that contains social_counterfactuals/, or faces.root to the one that "
    "contains data/ (see make data)."
)
PICTURE = "image"  # column of the pictures
SUFFIXES = (".jpg", ".jpeg", ".png")


def load_sispi(cfg: SispiConfig) -> LoadedStimuli:
    """Load SISPI (Gomez 2025): generated professionals, named by occupation, number, gender and ethnicity.

    The pictures are in a tar, which is read in place, or in a folder. Pictures of an occupation with the same
    number are a set (column `scene`).
    """
    root = Path(cfg.root)
    names, source = _list_names(root, cfg.pictures)
    listing, n_pictures, notes = _match_names(names, SISPI_NAME, SISPI_EXAMPLE, source, names_only=True)
    listing["occupation"] = listing["occupation"].str.replace("_", " ")
    listing["scene"] = listing["occupation"] + " " + listing.pop("number")
    listing["file"] = [f"{cfg.pictures}/{name}" for name in listing["file"]]
    frame, _, table_notes = people.build_faces(listing, cfg, source, root)
    return frame, n_pictures, notes + table_notes


def load_pairs(cfg: PairsConfig) -> LoadedStimuli:
    """Load PAIRS (Fraser & Kiritchenko 2024): scenarios with a man and a woman, each Black and white.

    A scenario is a folder of four pictures, and a set (column `scene`).
    """
    root = Path(cfg.root)
    names, source = _list_names(root, cfg.pictures)
    listing, n_pictures, notes = _match_names(names, PAIRS_NAME, PAIRS_EXAMPLE, source)
    if absent := sorted({*cfg.sections} - {*listing["section"]}):
        raise InputError(
            f"{source}: no pictures in {', '.join(absent)}; its folders are "
            f"{first_few(sorted({*listing['section']}), 10)}. Set faces.sections to some of them."
        )
    is_chosen = listing["section"].isin(cfg.sections)
    notes += [f"{int((~is_chosen).sum())} pictures of other sections"] * (not is_chosen.all())
    listing["scenario"] = listing["scene"].str.replace("_", " ")
    listing["scene"] = listing["section"] + "/" + listing["scene"]
    listing["file"] = [f"{cfg.pictures}/{name}" for name in listing["file"]]
    frame, _, table_notes = people.build_faces(listing[is_chosen].reset_index(drop=True), cfg, source, root)
    return frame, n_pictures, notes + table_notes


def load_social_counterfactuals(cfg: SocialCounterfactualsConfig) -> LoadedStimuli:
    """Load SocialCounterfactuals (Howard et al. 2024): generated people of an occupation, in sets.

    Parquet files contain the pictures, which are read in place. Each set varies two attributes, `a1` and
    `a2`, of the types race, gender or physical; these types become columns of lower-case values. The
    occupation is the end of the caption.
    """
    root = Path(cfg.root)
    folder = root / cfg.pictures
    paths = sorted(folder.glob("*.parquet"))
    if not paths:
        raise InputError(f"{folder}: no Parquet files. {COUNTERFACTUAL_REMEDY}")
    refuse_links_out(paths, root, "faces.root")
    listings = []
    for path in paths:
        rows = shards.read_texts(path, COUNTERFACTUAL_COLUMNS, COUNTERFACTUAL_REMEDY)
        width = len(str(len(rows)))  # of equal length, so that ids sort by row
        rows["file"] = [f"{cfg.pictures}/{path.name}/{PICTURE}/{row:0{width}d}" for row in range(len(rows))]
        rows["row"] = range(len(rows))
        _check_attributes(rows, path)
        listings.append(rows)
    rows = pd.concat(listings, ignore_index=True)
    if rows.empty:
        raise InputError(f"{folder}: no rows in its Parquet files. Fetch them again.")
    attributes = {number: rows[f"a{number}"].str.lower() for number in (1, 2)}
    columns = {}
    for name in sorted({*rows["a1_type"], *rows["a2_type"]}):
        second = attributes[2].where(rows["a2_type"] == name, "")
        columns[name] = attributes[1].where(rows["a1_type"] == name, second)
    columns["scene"] = rows["a1_type"] + " " + rows["a2_type"] + " " + rows["counterfactual_set"]
    occupations = list(map(_read_occupation, rows["caption"], rows["a2"]))
    columns["occupation"] = pd.Series(occupations, rows.index)
    listing = rows[["file", "row"]].assign(**columns)
    frame, _, notes = people.build_faces(listing, cfg, folder, root)
    return frame, len(rows), notes


def _check_attributes(rows: pd.DataFrame, path: Path) -> None:
    """Refuse rows without a set, or whose attributes lack a type or have the same one."""
    texts = rows[[*COUNTERFACTUAL_COLUMNS]]
    names = {"file", "row", "scene", "occupation"}
    for is_bad, problem in (
        ((texts.drop(columns="caption") == "").any(axis=1), "no set, attribute or type of an attribute"),
        (rows["a1_type"] == rows["a2_type"], "the same type of both attributes"),
        (rows["a1_type"].isin(names) | rows["a2_type"].isin(names), "a type that names another column"),
    ):
        if is_bad.any():
            raise InputError(
                f"{path}, row {int(rows['row'][is_bad].iloc[0])}: {problem} ({int(is_bad.sum())} such rows). "
                "Fetch the file again."
            )


def _read_occupation(caption: str, attribute: str) -> str:
    """Return what follows the last occurrence of an attribute in a caption, without a final full stop.

    >>> _read_occupation("A photo of a Latino male fire fighter.", "male")
    'fire fighter'
    """
    start = caption.casefold().rfind(f" {attribute.casefold()} ")
    return caption[start + len(attribute) + 2 :].strip(" .") if start >= 0 else ""


def _list_names(root: Path, pictures: str) -> tuple[list[str], Path]:
    """List the files in a folder or tar below `root` by their paths in it, and return it."""
    source = root / pictures
    refuse_links_out([source], root, "faces.root")
    if source.is_dir():
        paths = sorted(path for path in source.rglob("*") if path.is_file())
        refuse_links_out(paths, root, "faces.root")
        return [path.relative_to(source).as_posix() for path in paths], source
    if not source.is_file() or source.suffix != ".tar":
        raise InputError(
            f"{source}: no such folder or tar. Set dataset.root to the folder that contains {root.name}/, or "
            "faces.root and faces.pictures to the pictures (see make data)."
        )
    return shards.list_tar_members(source, "faces.pictures"), source


def _match_names(
    names: Sequence[str], pattern: str, example: str, source: Path, *, names_only: bool = False
) -> tuple[pd.DataFrame, int, list[str]]:
    """Read labels from the paths of pictures, or from their names alone.

    Returns `file`, `row` (the position from 1 in `names`) and the regex groups of `pattern` for each matching
    picture, the number of all pictures, and notes on other files.
    """
    paths = [PurePosixPath(name) for name in names]
    is_picture = [path.suffix.lower() in SUFFIXES and path.name[0] != "." for path in paths]
    labels, others = [], []
    for row, (path, name) in enumerate(zip(paths, names, strict=True), start=1):
        match = re.fullmatch(pattern, path.name if names_only else name, re.ASCII | re.DOTALL)
        if match and not is_text(name):
            raise InputError(f"{source}: the name {brief(name)!r} is not UTF-8. Rename the picture.")
        if is_picture[row - 1] and match:
            labels.append({"file": name, "row": row, **match.groupdict()})
        elif is_picture[row - 1]:
            others.append(name)
    if not labels:
        content = f"{len(others)} pictures, first {brief(others[0])!r}" if others else "no picture"
        raise InputError(
            f"{source}: no picture is named like {example}; found {content}. Set faces.root and "
            "faces.pictures to the pictures as they were published."
        )
    files = [name for name, usable in zip(names, is_picture, strict=True) if not usable]
    notes = [f"{len(files)} files are not pictures ({first_few(files, 3)})"] if files else []
    if others:
        notes.append(f"{len(others)} pictures are not named like {example} ({first_few(others, 3)})")
    return pd.DataFrame(labels), len(labels) + len(others), notes
