"""Draw small copies of the layouts of published datasets."""

import itertools
from pathlib import Path

import numpy as np
from PIL import Image

from src import configs

CONTENTS = {"place": "lake", "weather": "snow", "material": "wood", "number": "two"}


def picture(path: Path, seed: int = 0, mode: str = "RGB", form: str = "JPEG") -> Path:
    """Draw a small picture of noise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (20, 24, len(mode)), dtype=np.uint8)
    Image.fromarray(pixels, mode=mode).save(path, format=form)
    return path


def avatars(per_group: int, size: int, peoples: dict, **options) -> configs.AvatarsConfig:
    """Configure avatars of men."""
    defaults = {"seed": 0, "genders": {"Men": 0.2}, "hue_sd": 0.1, "hair_sd": 0.1}
    return configs.AvatarsConfig(per_group=per_group, size=size, peoples=peoples, **defaults | options)


def fairface(root: Path, per_group: int = 3, genders=("Male", "Female")) -> Path:
    """Draw FairFace's layout: a csv next to train/."""
    rows = ["file,age,gender,race,service_test"]
    combinations = itertools.product(("Black", "East Asian", "White", "Indian"), genders, range(per_group))
    for number, (race, gender, index) in enumerate(combinations, start=1):
        name = f"train/{number}.jpg"
        picture(root / name, number)
        rows.append(f"{name},{['20-29', '30-39', 'more than 70'][index % 3]},{gender},{race},True")
    (root / "fairface_label_train.csv").write_text("\n".join(rows) + "\n")
    return root


def oasis(root: Path, count: int = 6) -> Path:
    """Draw OASIS's layout: lines end in a lone carriage return, and one theme in a blank."""
    rows = [",Theme,Category,Source,Valence_mean,Valence_SD,Valence_N"]
    for number in range(1, count + 1):
        theme = f"War {number}"
        valence = 1 + (number - 1) % 6
        rows.append(f"I{number},{theme}{' ' if number == 2 else ''},Scene,Pixabay,{valence},0.9,100")
        mode_and_form = ("RGBA", "PNG") if number == 3 else ("RGB", "JPEG")
        picture(root / "images" / f"{theme}.jpg", number, *mode_and_form)
    (root / "OASIS.csv").write_bytes("\r".join(rows).encode())
    return root


def nrc_vad(root: Path, more: int = 0) -> Path:
    """Write NRC-VAD's layout, with the oddities of the published file; `more` adds further words."""
    root.mkdir(parents=True, exist_ok=True)
    lines = ["abandon\t0.052\t0.519\t0.245", "abdominal\t0.490\t0.4\t0.445z", "null\t0.3\t0.2\t0.1"]
    lines += ["nan\t0.31\t0.2\t0.1", "a la carte\t0.7\t0.2\t0.1"]
    lines += [f"word {number}\t{number / more:.3f}\t0.2\t0.1" for number in range(more)]
    (root / "NRC-VAD-Lexicon.txt").write_text("\n".join(lines) + "\n")
    return root


def cfd(root: Path, people: int = 2) -> Path:
    """Draw CFD's layout: people of six groups, both extensions, and the hidden files of a Mac."""
    images, seed = root / "Images", 0
    for group, person in itertools.product(CFD_GROUPS, range(1, people + 1)):
        for expression in ("N", "HC") if person == 1 else ("N",):
            seed += 1
            suffix = {3: ".JPG", 6: ".jpeg"}.get(seed, ".jpg")
            name = f"CFD-{group}-00{person}-025-{expression}{suffix}"
            picture(images / "CFD" / f"{group}-00{person}" / name, seed)
    picture(images / "CFD" / "LF-200" / "CFD-LF-200-058-N.jpg", 50)
    picture(images / "CFD" / "LF-200" / "CFD-LF-200-N.jpg", 51)
    for name in (".DS_Store", "LF-200/._CFD-LF-200-058-N.jpg", "LF-200/read me.txt"):
        (images / "CFD" / name).write_bytes(b"no picture")
    picture(images / "CFD-MR" / "MF-300" / "CFD-MF-300-002-N.jpg", 52)
    for number, name in enumerate(("IF-601-519", "IF-644-306-1", "IF-644-306-2")):
        picture(images / "CFD-INDIA" / f"CFD-{name}-N.jpg", 60 + number)
    # A sheet of the norming workbook, saved as csv: titles come first, and a column has no name.
    sheet = [
        ["CFD 3.0", "", "", "", ""],
        ["S000", "S003", "R002", "", "R013"],
        ["Model", "AgeSelf", "AgeRated", "", "Attractive"],
        ["", "", "mean", "sd", "mean"],
        *([f"{group}-001", "NA", f"3{number}.5", "2", "4"] for number, group in enumerate(CFD_GROUPS)),
        ["IF601-519", "NA", "41.5", "2", "4"],
    ]
    (root / "norming.csv").write_text("\n".join(",".join(row) for row in sheet) + "\n")
    return root


CFD_GROUPS = ("AF", "AM", "BF", "BM", "WF", "WM")


def utkface(root: Path) -> Path:
    """Draw UTKFace's layout: faces of three ages of each gender and race, and five odd names."""
    for gender, race, age in itertools.product(range(2), range(5), (20, 30, 40)):
        name = f"{age}_{gender}_{race}_201701{gender}{race}{age}00000.jpg.chip.jpg"
        picture(root / name, 1000 * gender + 100 * race + age)
    # The first two have all parts of a name; the others lack gender or race.
    odd = ["24_0_1_20170116220224657 .jpg", "55_0_0_20170116232725357jpg", "39_1_20170116174525125.jpg"]
    odd += ["53__0_20170116184028385.jpg", "61_3_20170109150557335.jpg"]
    for seed, name in enumerate(odd):
        picture(root / f"{name}.chip.jpg", 2000 + seed)
    return root


def folder(root: Path) -> Path:
    """Draw a lab's pictures in two folders, listed in a csv."""
    rows = ["file,ethnicity,sex,site"]
    for number in range(12):
        name = f"{'left' if number % 2 else 'right'}/{number}.png"
        picture(root / name, number, form="PNG")
        rows.append(f"{name},{('Roma', 'Sami', 'Sorb')[number % 3]},{('F', 'M')[number // 6]},Oslo")
    (root / "faces.csv").write_text("\n".join(rows) + "\n")
    return root


def nrc_vad_v2(root: Path) -> Path:
    """Write NRC-VAD's second version: a header, a scale from -1, and a README."""
    root.mkdir(parents=True, exist_ok=True)
    lines = ["term\tvalence\tarousal\tdominance", "valence\t0.5\t0\t0", "abandon\t-1.000\t0.1\t-0.4"]
    lines += ["power surge\t0\t0.6\t0.5", "joy\t1\t0.7\t0.3"]
    (root / "NRC-VAD-Lexicon-v2.1.txt").write_text("\n".join(lines) + "\n")
    (root / "README.txt").write_text("about the lexicon\n")
    return root


def translations(root: Path) -> Path:
    """Write NRC-VAD's file of a language: the same translation twice, two in a cell, and none."""
    folder = root / "OneFilePerLanguage"
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["English Word\tValence\tArousal\tDominance\tSpanish Word", "abandon\t0.052\t0.5\t0.2\tdejar"]
    lines += [
        "leave\t0.25\t0.5\t0.2\tdejar",
        "joy\t0.98\t0.8\t0.7\talegría",
        "lad\t0.6\t0.4\t0.5\tchico; mozo",
    ]
    lines += ["yea\t0.7\t0.4\t0.5\tNO TRANSLATION", "nay\t0.3\t0.4\t0.5\t"]
    (folder / "Spanish-NRC-VAD-Lexicon.txt").write_text("\n".join(lines) + "\n", "utf-8")
    return root


def norms(root: Path) -> Path:
    """Write ratings of words: the same word twice, a row without a word, and one without a rating."""
    root.mkdir(parents=True, exist_ok=True)
    rows = ["Word,ValenceMean,ValenceSD", "niño,8.2,1", ",5,1", "maldad,1,1", "niño,6.2,1", "ayer,,1"]
    (root / "norms.csv").write_text("\n".join(rows) + "\n", "utf-8")
    return root


def warriner(root: Path) -> Path:
    """Write Warriner's ratings: a first column without a name."""
    root.mkdir(parents=True, exist_ok=True)
    ratings = {"aardvark": 6.26, "null": 4, "worst": 1, "best": 9}
    rows = [f"{number},{word},{mean},2.21" for number, (word, mean) in enumerate(ratings.items(), start=1)]
    (root / "BRM-emot-submit.csv").write_text("\n".join([",Word,V.Mean.Sum,V.SD.Sum", *rows]) + "\n")
    return root
