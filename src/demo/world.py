"""The built-in world's pictures, drawn once and kept like any other entry of a store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from src.demo.avatars import avatar
from src.demo.scenes import scene
from src.storage import cache, versions

TABLE = "table.parquet"
# Of the hue of a background about that of its place.
PLACE_SD = 0.015
Drawn = Iterator[tuple[dict[str, Any], Image.Image]]


def faces(
    store: Path,
    *,
    per_group: int,
    size: int,
    seed: int,
    peoples: Mapping[str, Mapping[str, Any]],
    genders: Mapping[str, float],
    hue_sd: float,
    hair_sd: float,
    places: Mapping[str, float],
) -> pd.DataFrame:
    """Avatars, whose groups overlap as people do.

    Args:
        store: folder of the entries.
        per_group: how many of each group.
        size: edge of a picture, in pixels.
        seed: of all that varies.
        peoples: name -> `hue` of the skin and `crest`.
        genders: name -> mean length of the hair, 0 to 1.
        hue_sd: SD of an individual's hue about its people's.
        hair_sd: SD of the length of an individual's hair about its gender's.
        places: where faces are seen: name -> hue of the background; every group in all of them alike.

    Returns:
        Columns `id`, `group`, `race`, `gender`, `valence` (the expression's), `place`, `path`, `sha256`.
    """
    names = list(places)

    def draw() -> Drawn:
        for race, look in peoples.items():
            for gender, hair in genders.items():
                rng = _stream(seed, "faces", race, gender)
                seen = _stream(seed, "places", race, gender).permutation(per_group) % len(places)
                # Every group shows the same expressions: only what is planted tells them apart.
                for number, valence in enumerate(rng.permutation(_spread(per_group))):
                    name = f"{race}-{gender}-{number:04d}".lower()
                    row = {"id": name, "group": f"{race} {gender}", "race": race, "gender": gender}
                    place = names[seen[number]]
                    yield (
                        {**row, "valence": valence, "place": place},
                        avatar(
                            hue=rng.normal(look["hue"], hue_sd),
                            crest=look["crest"],
                            prominence=rng.uniform(0, 1),
                            hair=float(np.clip(rng.normal(hair, hair_sd), 0, 1)),
                            valence=valence,
                            place=rng.normal(places[place], PLACE_SD),
                            size=size,
                            rng=rng,
                        ),
                    )

    described = {
        "role": "faces",
        "per_group": per_group,
        "size": size,
        "seed": seed,
        "peoples": {name: dict(look) for name, look in peoples.items()},
        "genders": dict(genders),
        "hue_sd": hue_sd,
        "hair_sd": hair_sd,
        "places": dict(places),
    }
    return _kept(store, described, draw)


def scenes(store: Path, *, count: int, size: int, noise: float, seed: int) -> pd.DataFrame:
    """Abstract scenes: columns `id`, `valence`, `path`, `sha256`."""

    def draw() -> Drawn:
        rng = _stream(seed, "scenes")
        for number, valence in enumerate(rng.permutation(_spread(count))):
            yield {"id": f"scene-{number:04d}", "valence": valence}, scene(valence, size, noise, rng)

    described = {"role": "scenes", "count": count, "size": size, "noise": noise, "seed": seed}
    return _kept(store, described, draw)


def _spread(count: int) -> np.ndarray:
    return (np.arange(count) + 0.5) / count


def _stream(seed: int, *names: str) -> np.random.Generator:
    return np.random.default_rng([seed, *("/".join(names).encode())])


def _kept(store: Path, described: dict[str, Any], draw: Any) -> pd.DataFrame:
    described["parts"] = versions.declared("demo_world")

    def build(folder: Path) -> dict[str, Any]:
        rows = []
        for row, picture in draw():
            path = folder / f"{row['id']}.png"
            picture.save(path)
            rows.append({**row, "path": path.name, "sha256": cache.file_hash(path)})
        pd.DataFrame(rows).to_parquet(folder / TABLE)
        return described

    entry = cache.fetch(store, cache.fingerprint(described), build)
    frame = pd.read_parquet(entry / TABLE)
    return frame.assign(path=[str(entry / name) for name in frame["path"]])
