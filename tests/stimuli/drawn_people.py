"""Draw small copies of the layouts of datasets of people: shapes of noise, no people."""

import csv
import io
import itertools
import json
import tarfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from omegaconf import OmegaConf

from src import configs
from src.configs import registry
from src.configs.composition import SCHEMAS
from src.stimuli import loaders
from tests.paths import CHECKOUT
from tests.stimuli.drawn import picture


@cache
def configure(name: str) -> Any:
    """Return the settings of conf/faces/NAME.yaml, and the function that loads faces with them."""
    content: Any = OmegaConf.to_container(OmegaConf.load(CHECKOUT / f"conf/faces/{name}.yaml"))
    content.pop("defaults")
    cfg = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(SCHEMAS[name]), content | {"root": ""}))
    configs.check(cfg, "faces")
    reference, source = loaders.LOADERS[type(cfg)]
    assert source == f"faces={name}"
    return cfg, registry.load("loader", source, {source: reference}, FunctionType)


def load(name: str, root: Path, **settings):
    """Load a drawn layout with the settings of conf/faces/NAME.yaml, unless others are given."""
    cfg, function = configure(name)
    return function(replace(cfg, root=str(root), **settings))


def made(name: str, root: Path, **settings):
    """Draw a layout, and load it."""
    globals()[name](root)
    return load(name, root, **settings)


def write_csv(path: Path, rows: list[dict], delimiter: str = ",") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)


def change_cell(path: Path, row: int, column: str, value: str, delimiter: str = ",") -> None:
    """Change a cell of a csv; rows are counted from 1, with the header."""
    rows = list(csv.DictReader(path.open(newline=""), delimiter=delimiter))
    rows[row - 2][column] = value
    write_csv(path, rows, delimiter)


FHIBE = "fhibe.20250716.u.gT5_rFTA_downsampled_public"
FHIBE_FACES = f"{FHIBE}/data/processed/fhibe_face_crop_align/fhibe_face_crop_align.csv"
FHIBE_PICTURES = f"{FHIBE}/data/processed/fhibe_downsampled/fhibe_downsampled.csv"
COLOURS = ["[198, 180, 157]", "[189, 163, 137]", "[175, 148, 120]", "[164, 131, 103]", "[136, 105, 81]"]
COLOURS += ["[102, 78, 65]"]
SHE, HE, THEY = "'0. She/her/hers'", "'1. He/him/his'", "'2. They/them/their'"
ANCESTRIES = ("'5. Western Africa'", "'11. Asia', '15. Southern Asia'", "'17. Europe'")
# Pronouns, ancestry and age of each subject; the first twelve are two of each group.
SUBJECTS = [
    (f"[{pronoun}]", f"[{ancestry}]", age)
    for (pronoun, ancestry), age in zip(
        itertools.product(
            (SHE, HE), ("'5. Western Africa'", "'11. Asia', '15. Southern Asia'", "'17. Europe'")
        ),
        ("18", "29", "30", "41", "59", "88"),
        strict=True,
    )
    for _ in range(2)
]
SUBJECTS += [
    (f"[{SHE}, {THEY}]", "['0. Africa']", "40"),
    (f"[{HE}]", "['1. Northern Africa', '20. Southern Europe']", "40"),
    ("['5. Prefer not to say']", "['0. Africa']", "40"),
    (f"[{HE}]", "['26. Polynesia']", "40"),
    (f"[{HE}]", "['0. Africa']", ""),
]


def fhibe(root: Path) -> Path:
    """Draw FHIBE's layout: people with several values, without an age, and a picture of two people."""
    faces, full = [], []
    for number, (pronoun, ancestry, age) in enumerate(SUBJECTS):
        subject = f"s{number:02}"
        person = {
            "subject_id": subject,
            "age": age,
            "pronoun": pronoun,
            "ancestry": ancestry,
            "natural_skin_color": f"{number % 6}. {COLOURS[number % 6]}",
            "apparent_skin_color": f"['{number % 6}. {COLOURS[number % 6]}']",
            "segments": str([{"polygon": [{"x": 1.5, "y": 2}] * 50}]),
        }
        for image in range(2 if number == 0 else 1):
            # Subjects 2 and 3 share a picture.
            shared = "i2" if number == 3 else f"i{number}{'b' * image}"
            folder = f"data/raw/fhibe_downsampled/s{2 if number == 3 else number:02}/{shared}"
            for rows, name in (
                (full, f"main_{shared}"),
                (faces, f"faces_crop_and_align_{shared}_{subject}"),
            ):
                picture(root / FHIBE / folder / f"{name}.png", 100 * len(rows) + number, form="PNG")
                box = "[3, 4.5, 10, 12]" if rows is full else "[1000, 900, 300, 300]"
                place = {"filepath": f"{folder}/{name}.png", "json_path": f"{folder}/{name}.json"}
                rows.append(place | person | {"face_bbox": box, "is_primary": number != 3})
    write_csv(root / FHIBE_FACES, faces)
    write_csv(root / FHIBE_PICTURES, full)
    return root


FACET_VALUES = {
    "gender_presentation_": ("masc", "fem", "non_binary", "na"),
    "age_presentation_": ("young", "middle", "older", "na"),
    "skin_tone_": (*map(str, range(1, 11)), "na"),
}


def facet(root: Path) -> Path:
    """Draw FACET's layout: people who share pictures, ties, boxes beyond a picture and without area."""
    rows = []
    for number, (gender, tone) in enumerate(itertools.product(("masc", "fem"), (1, 3, 4, 6, 8, 10))):
        rows.append(_write_person(len(rows), f"p{number // 2}.jpg", gender, {tone: 2, tone + 1: 1}))
    rows.append(_write_person(12, "p0.jpg", "fem", {1: 1, 2: 1}, x=-4.5, y=3, width=400, height=400))
    rows.append(_write_person(13, "p1.jpg", "masc", {1: 1}) | {"gender_presentation_fem": 1})
    rows.append(_write_person(14, "p2.jpg", "non_binary", {1: 1}))
    rows.append(_write_person(15, "p3.jpg", "masc", {"na": 3}))
    rows.append(_write_person(16, "p4.jpg", "masc", {1: 1}, width=0))
    rows.append(_write_person(17, "absent.jpg", "masc", {1: 1}))
    write_csv(root / "annotations/annotations.csv", rows)
    for number in range(6):
        picture(root / f"imgs_{1 + number % 3}" / f"p{number}.jpg", number)
    return root


def _write_person(number: int, name: str, gender: str, tones: dict, **box) -> dict:
    box = {"x": number % 2 * 10, "y": 2, "width": 9 + number % 3, "height": 12, "dict_attributes": {}} | box
    row = {"person_id": 1000 + number, "filename": name, "class1": ("doctor", "nurse")[number % 2]}
    row |= {"class2": "", "bounding_box": json.dumps(box)}
    row |= {prefix + value: 0 for prefix, values in FACET_VALUES.items() for value in values}
    row |= {f"skin_tone_{tone}": votes for tone, votes in tones.items() if tone != 11}
    return row | {f"gender_presentation_{gender}": 1, "age_presentation_young": 1}


def sispi(root: Path, *, pack: bool = True) -> Path:
    """Draw SISPI's layout: a tar of pictures named after their labels, and files that are none."""
    labels = itertools.product(
        ("doctor", "flight attendant"), (7, 102), ("female", "male"), ("asian", "black", "latin", "white")
    )
    for seed, (occupation, number, gender, ethnicity) in enumerate(labels):
        picture(root / f"SISPI_images/{occupation}_{number}_{gender}_{ethnicity}.jpg", seed)
    for name in ("._doctor_7_female_asian.jpg", "README.md", "doctor_7_female.jpg"):
        (root / "SISPI_images" / name).write_bytes(b"none")
    if pack:
        with tarfile.open(root / "SISPI_images.tar", "w") as tar:
            tar.add(root / "SISPI_images", "./SISPI_images")
    return root


RACES = ("Asian", "Black", "Indian", "Latino", "Middle Eastern", "White")


def social_counterfactuals(root: Path) -> Path:
    """Draw SocialCounterfactuals' layout: Parquet files with pictures, of three kinds of sets."""
    rows = []
    for scene, occupation in enumerate(("fire fighter", "nurse")):
        for race, gender in itertools.product(RACES, ("male", "female")):
            caption = f"A picture of a {race} {gender} {occupation}"
            rows.append(("race", race, "gender", gender, f"{occupation}_{scene}", caption))
    for first, second, a2_type in (("obese", "male", "gender"), ("tattooed", "Indian", "race")):
        rows.append(("physical", first, a2_type, second, "nurse_0", f"A {first} {second} nurse"))
    names = ("a1_type", "a1", "a2_type", "a2", "counterfactual_set", "caption")
    folder = root / "data"
    folder.mkdir(parents=True)
    files = [picture(root / "drawn.jpg", number).read_bytes() for number in range(len(rows))]
    for number, rows_of_file in enumerate((slice(0, 14), slice(14, None))):
        columns = {name: [row[i] for row in rows[rows_of_file]] for i, name in enumerate(names)}
        columns["a1a2"] = ["-".join(row[1:4:2]) for row in rows[rows_of_file]]
        columns["image"] = [{"bytes": content, "path": None} for content in files[rows_of_file]]
        path = folder / f"train-0000{number}-of-00002-0123456789abcdef.parquet"
        pq.write_table(pa.table(columns), path, row_group_size=5)
    return root


def pairs(root: Path) -> Path:
    """Draw PAIRS' layout: folders of scenarios with four pictures, one of them oddly named."""
    scenarios = ("occupations/black_apron", "occupations/taxi", "status/phone", "potential_crime/money")
    for seed, (scenario, race, gender) in enumerate(
        itertools.product(scenarios, ("black", "white"), ("man", "woman"))
    ):
        odd = "1" if (scenario, race, gender) == ("status/phone", "white", "man") else ""
        picture(root / f"data/{scenario}/{race}_{gender}{odd}.png", seed, form="PNG")
    (root / "data/occupations/.DS_Store").write_bytes(b"none")
    return root


ADDRESS_COLUMN = "URL type (Type NA if can't find)"


def visogender(root: Path) -> Path:
    """Draw VisoGender's layout: two tables with different columns, and pictures without one."""
    tables: dict[str, list[dict]] = {"OO": [], "OP": []}
    kinds = itertools.product(("teacher", "baker"), ("masculine", "feminine"), ("masculine", "feminine"))
    for number, (occupation, gender, other) in enumerate(kinds, start=1):
        shared = {"Sector": "education", "Specialisation": "a_b", "Occupation": occupation}
        ends = {"Occupation_perceived_gender": gender}
        address = {ADDRESS_COLUMN: f'https://pictures.example/{number}.jpeg?w=600&h="1'}
        end = {"Error codes": "", "Annotator": "Ann"}
        single = {"IDX": f"OO_{number}", **shared, "Object": "board", **address, "LICENSE OK?": "Yes"}
        tables["OO"].append(single | ends | end)
        double = {"IDX": f"OP_{number}", **shared, "Participant": "student", **address, "Licence": "Yes"}
        tables["OP"].append(double | ends | {"Participant_perceived_gender": other} | end)
    for seed, (name, rows) in enumerate(tables.items()):
        write_tsv(root / f"{name}_Visogender.tsv", rows)
        for row in rows[: 7 if name == "OO" else 8]:
            number = int(row["IDX"].partition("_")[2])
            form = ("JPEG", "jpeg") if number % 2 else ("PNG", "png")
            picture(root / "pictures" / f"{row['IDX']}.{form[1]}", 100 * seed + number, form=form[0])
    return root


def write_tsv(path: Path, rows: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    output = io.StringIO()
    for row in [dict(zip(rows[0], rows[0], strict=True)), *rows]:
        output.write("\t".join(row.values()) + "\n")
    path.write_text(output.getvalue())
