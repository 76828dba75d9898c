"""The built-in world's pictures, drawn once and kept like any other entry of a store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from src.configs import AbstractConfig, AvatarsConfig
from src.demo.avatars import avatar
from src.demo.scenes import scene
from src.storage import cache, versions

TABLE = "table.parquet"
# Of the hue of a background about that of its place.
PLACE_SD = 0.015
Drawn = Iterator[tuple[dict[str, Any], Image.Image]]


def faces(cfg: AvatarsConfig, store: Path) -> pd.DataFrame:
    """Draw avatars, whose groups overlap as people do.

    Args:
        cfg: see conf/faces/avatars.yaml. Every group is seen in all places alike.
        store: folder of the entries.

    Returns:
        Columns `id`, `group`, `race`, `gender`, `valence` (the expression's), `place`, `path`, `sha256`.
    """
    names = list(cfg.places)

    def draw() -> Drawn:
        for race, look in cfg.peoples.items():
            for gender, hair in cfg.genders.items():
                rng = _stream(cfg.seed, "faces", race, gender)
                seen = _stream(cfg.seed, "places", race, gender).permutation(cfg.per_group) % len(names)
                # Every group shows the same expressions: only what is planted tells them apart.
                for number, valence in enumerate(rng.permutation(_spread(cfg.per_group))):
                    name = f"{race}-{gender}-{number:04d}".lower()
                    place = names[seen[number]]
                    row = {"id": name, "group": f"{race} {gender}", "race": race, "gender": gender}
                    yield (
                        {**row, "valence": valence, "place": place},
                        avatar(
                            hue=rng.normal(look.hue, cfg.hue_sd),
                            crest=look.crest,
                            prominence=rng.uniform(0, 1),
                            hair=float(np.clip(rng.normal(hair, cfg.hair_sd), 0, 1)),
                            valence=valence,
                            place=rng.normal(cfg.places[place], PLACE_SD),
                            size=cfg.size,
                            rng=rng,
                        ),
                    )

    return _kept(store, {"role": "faces", **asdict(cfg)}, draw)


def scenes(cfg: AbstractConfig, store: Path) -> pd.DataFrame:
    """Draw abstract scenes: columns `id`, `valence`, `path`, `sha256`.

    Args:
        cfg: see conf/scenes/abstract.yaml.
        store: folder of the entries.
    """

    def draw() -> Drawn:
        rng = _stream(cfg.seed, "scenes")
        for number, valence in enumerate(rng.permutation(_spread(cfg.count))):
            yield {"id": f"scene-{number:04d}", "valence": valence}, scene(valence, cfg.size, cfg.noise, rng)

    return _kept(store, {"role": "scenes", **asdict(cfg)}, draw)


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
