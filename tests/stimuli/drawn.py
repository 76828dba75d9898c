"""The layouts of published datasets, filled with drawn pictures."""

from pathlib import Path

import numpy as np
from PIL import Image


def picture(path: Path, seed: int = 0, mode: str = "RGB", form: str = "JPEG") -> Path:
    """A small picture of noise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    channels = len(mode)
    pixels = np.random.default_rng(seed).integers(0, 256, (20, 24, channels), dtype=np.uint8)
    Image.fromarray(pixels, mode=mode).save(path, format=form)
    return path


def fairface(root: Path, per_group: int = 3, genders=("Male", "Female")) -> Path:
    """FairFace's layout: a csv beside train/."""
    rows = ["file,age,gender,race,service_test"]
    number = 0
    for race in ("Black", "East Asian", "White", "Indian"):
        for gender in genders:
            for age in range(per_group):
                number += 1
                name = f"train/{number}.jpg"
                picture(root / name, number)
                rows.append(f"{name},{['20-29', '30-39', 'more than 70'][age % 3]},{gender},{race},True")
    (root / "fairface_label_train.csv").write_text("\n".join(rows) + "\n")
    return root


def oasis(root: Path, count: int = 6) -> Path:
    """OASIS's layout: lines end in a lone carriage return, one theme in a blank."""
    rows = [",Theme,Category,Source,Valence_mean,Valence_SD,Valence_N"]
    for number in range(1, count + 1):
        theme = f"War {number}"
        rows.append(f"I{number},{theme}{' ' if number == 2 else ''},Scene,Pixabay,{number},0.9,100")
        rgba = number == 3
        picture(
            root / "images" / f"{theme}.jpg", number, "RGBA" if rgba else "RGB", "PNG" if rgba else "JPEG"
        )
    (root / "OASIS.csv").write_bytes("\r".join(rows).encode())
    return root


def nrc_vad(root: Path) -> Path:
    """NRC-VAD's layout, with the oddities of the published file."""
    root.mkdir(parents=True, exist_ok=True)
    lines = [
        "abandon\t0.052\t0.519\t0.245",
        "abdominal\t0.490\t0.4\t0.445z",
        "null\t0.3\t0.2\t0.1",
        "nan\t0.31\t0.2\t0.1",
        "a la carte\t0.7\t0.2\t0.1",
    ]
    (root / "NRC-VAD-Lexicon.txt").write_text("\n".join(lines) + "\n")
    return root
