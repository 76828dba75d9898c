"""Draw the pictures of the built-in world once, and store them in the cache."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image, ImageDraw

from src.configs import FACE_BOX, AbstractConfig, AvatarsConfig
from src.demo.avatars import SATURATION, SUPERSAMPLING, draw_avatar
from src.demo.contents import CONTENTS, PLACES, draw_background_colour, draw_contents, draw_values, to_rgb
from src.errors import InputError
from src.storage import cache, versions

TABLE = "table.parquet"
Drawings = Iterator[tuple[dict[str, Any], Image.Image]]  # a row of the table, and its picture


def draw_faces(cfg: AvatarsConfig, store: Path) -> pd.DataFrame:
    """Draw avatars (see conf/faces/avatars.yaml), whose groups overlap in appearance and contents.

    Returns a table with a row per face and the columns `id`, `group`, `race`, `gender`, `valence` (of the
    expression), one per content (`CONTENTS`; empty on plain grey), `path` and `sha256`; `person` with several
    pictures of each, `age` with ages, `set` and `occupation` with sets.
    """
    check_avatars(cfg)

    def draw() -> Drawings:
        for race, appearance in cfg.peoples.items():
            for gender, hair in cfg.genders.items():
                rng = _make_rng(cfg.seed, "faces", race, gender)
                contents, ranks = _draw_scenes_of_faces(cfg, race, gender, rng)
                plain = _draw_plain_numbers(cfg, race, gender)
                # All groups have the same expressions; only training captions associate groups with valence.
                for number, rank in enumerate(ranks):
                    person_rng, scene_rng = _choose_generators(cfg, race, gender, number, rng)
                    valence = _convert_to_valence(rank, cfg.per_group)
                    name = f"{race}-{gender}-{number:04d}".lower()
                    row = {"id": name, "group": f"{race} {gender}", "race": race, "gender": gender}
                    row |= _describe_person(cfg, race, gender, number, contents[rank]["place"])
                    values = None if number in plain else contents[rank]
                    yield (
                        {**row, "valence": valence, **(values or dict.fromkeys(CONTENTS, ""))},
                        draw_avatar(
                            hue=person_rng.normal(appearance.hue, cfg.hue_sd),
                            crest=appearance.crest,
                            prominence=person_rng.uniform(0, 1),
                            hair=float(np.clip(person_rng.normal(hair, cfg.hair_sd), 0, 1)),
                            valence=valence,
                            contents=values,
                            size=cfg.size,
                            rng=person_rng,
                            scene_rng=scene_rng,
                            age=cfg.ages.get(row.get("age", ""), 0.0),
                        ),
                    )

    # The description of older pictures lacks the fields that leave them as they are.
    late = {"per_person": 1, "sets": {}, "ages": {}, "places": {}, "plain": 0.0}.items()
    drawn = {name: value for name, value in asdict(cfg).items() if name != FACE_BOX}
    drawn = {name: value for name, value in drawn.items() if (name, value) not in late}
    return _draw_once(store, {"role": "faces", **drawn}, draw)


def check_avatars(cfg: AvatarsConfig) -> None:
    """Check that sets and places name places and groups, and ages a share, or raise `InputError`."""
    groups = {f"{race} {gender}" for race in cfg.peoples for gender in cfg.genders}
    if cfg.sets and {*cfg.sets} != {*PLACES}:
        raise InputError(
            f"faces.sets: expected an occupation for each of {', '.join(PLACES)}; got {', '.join(cfg.sets)}."
        )
    if cfg.sets and cfg.places:
        raise InputError(
            "faces.places: a set shows the same place with every group. Leave out sets or places."
        )
    if cfg.sets and cfg.plain:
        raise InputError(
            "faces.plain: a set shows the same place with every group. Leave out sets, or set faces.plain=0."
        )
    for group, place in cfg.places.items():
        if group not in groups or place not in PLACES:
            raise InputError(
                f"faces.places.{group}={place}: expected a group ({', '.join(sorted(groups))}) and its place "
                f"({', '.join(PLACES)})."
            )
    for age, level in cfg.ages.items():
        if not 0 <= level <= 1:
            raise InputError(f"faces.ages.{age}={level:g}: must be from 0 to 1.")


def _draw_scenes_of_faces(
    cfg: AvatarsConfig, race: str, gender: str, rng: np.random.Generator
) -> tuple[list[dict[str, str]], np.ndarray]:
    """Return the contents of a group's pictures by valence rank, and the rank of each picture."""
    if cfg.sets:  # the same for every group
        contents = draw_values(cfg.per_group, _make_rng(cfg.seed, "contents", "sets"), of_group=False)
        return contents, _make_rng(cfg.seed, "sets").permutation(cfg.per_group)
    contents = draw_values(
        cfg.per_group,
        _make_rng(cfg.seed, "contents", race, gender),
        of_group=True,
        place=cfg.places.get(f"{race} {gender}"),
    )
    return contents, rng.permutation(cfg.per_group)


def _draw_plain_numbers(cfg: AvatarsConfig, race: str, gender: str) -> set[int]:
    """Draw the numbers of a group's pictures on plain grey."""
    order = _make_rng(cfg.seed, "plain", race, gender).permutation(cfg.per_group)
    return {*order[: round(cfg.plain * cfg.per_group)].tolist()}


def _choose_generators(
    cfg: AvatarsConfig, race: str, gender: str, number: int, rng: np.random.Generator
) -> tuple[np.random.Generator, np.random.Generator]:
    """Return the generators of a picture's person and of its scene: what pictures share has one seed."""
    person = scene = rng
    if cfg.per_person > 1:
        person = _make_rng(cfg.seed, "persons", race, gender, str(number // cfg.per_person))
    if cfg.sets:
        scene = _make_rng(cfg.seed, "sets", str(number))
    return person, scene


def _describe_person(cfg: AvatarsConfig, race: str, gender: str, number: int, place: str) -> dict[str, str]:
    """Return `age`, `person`, `set` and `occupation` of a picture, as far as the config has them."""
    person = number // cfg.per_person
    row = {}
    if cfg.ages:
        row["age"] = [*cfg.ages][person % len(cfg.ages)]
    if cfg.per_person > 1:
        row["person"] = f"{race}-{gender}-person-{person:04d}".lower()
    if cfg.sets:
        row |= {"set": f"set-{number:04d}", "occupation": cfg.sets[place]}
    return row


def draw_scenes(cfg: AbstractConfig, store: Path) -> pd.DataFrame:
    """Draw abstract scenes (see conf/scenes/abstract.yaml).

    Returns a table with a row per scene and the columns `id`, `valence`, one per content, `path`, `sha256`.
    """

    def draw() -> Drawings:
        rng = _make_rng(cfg.seed, "scenes")
        contents = draw_values(cfg.count, _make_rng(cfg.seed, "contents"), of_group=False)
        for number, rank in enumerate(rng.permutation(cfg.count)):
            valence = _convert_to_valence(rank, cfg.count)
            row = {"id": f"scene-{number:04d}", "valence": valence, **contents[rank]}
            yield row, draw_scene(valence, contents[rank], cfg.size, cfg.noise, rng)

    return _draw_once(store, {"role": "scenes", **asdict(cfg)}, draw)


def _convert_to_valence(rank: int, count: int) -> float:
    return (rank + 0.5) / count  # evenly over 0 to 1


def _make_rng(seed: int, *names: str) -> np.random.Generator:
    return np.random.default_rng([seed, *("/".join(names).encode())])


def _draw_once(store: Path, description: dict[str, Any], draw: Any) -> pd.DataFrame:
    """Return the table of the pictures that `draw` yields; draw them only if the store lacks them.

    `description`: everything that determines the pictures.
    """
    description["parts"] = versions.declared_versions("demo_world")

    def build(folder: Path) -> dict[str, Any]:
        rows = []
        for row, picture in draw():
            path = folder / f"{row['id']}.png"
            picture.save(path)
            rows.append({**row, "path": path.name, "sha256": cache.file_hash(path)})
        pd.DataFrame(rows).to_parquet(folder / TABLE)
        return description

    entry = cache.fetch(store, cache.fingerprint(description), build)
    frame = pd.read_parquet(entry / TABLE)
    return frame.assign(path=[str(entry / name) for name in frame["path"]])


def draw_scene(
    valence: float, contents: Mapping[str, str], size: int, noise: float, rng: np.random.Generator
) -> Image.Image:
    """Draw an abstract scene as an RGB picture that shows a valence by roundness, warmth and brightness.

    Valence 0 is spiky, cold and dark; valence 1 is round, warm and bright. Each of the three cues deviates
    from the valence with standard deviation `noise`.
    """
    roundness, warmth, brightness = np.clip(valence + rng.normal(0, noise, 3), 0, 1)
    scale = size * SUPERSAMPLING
    colour = draw_background_colour(contents, rng.uniform(*SATURATION), rng.uniform(0.75, 1), rng)
    picture = Image.new("RGB", (scale, scale), colour)
    draw = ImageDraw.Draw(picture)
    # Shapes lie near the corners, where pictures of faces do not show the group.
    for corner in 2 * list(itertools.product((0.12, 0.88), (0.25, 0.75))):
        centre = rng.normal(corner, 0.04)
        radius = rng.uniform(0.09, 0.16)
        angle = rng.uniform(0, 2 * np.pi) + np.linspace(0, 2 * np.pi, 64, endpoint=False)
        # Roundness 0 gives a star of seven spikes, 1 a disc.
        spikes = 1 - (1 - roundness) * 0.6 * (0.5 + 0.5 * np.cos(7 * (angle - angle[0])))
        outline = centre + radius * (spikes * np.stack([np.cos(angle), np.sin(angle)])).T
        saturation = rng.uniform(0.5, 0.9)
        # Hues run from blue (0.62) through magenta to orange (1.08), and avoid green.
        hue = 0.62 + 0.46 * warmth + rng.normal(0, 0.03)
        value = np.clip(0.2 + 0.75 * brightness + rng.normal(0, 0.04), 0, 1)
        draw.polygon([tuple(point) for point in outline * scale], fill=to_rgb(hue, saturation, value))
    draw_contents(draw, contents, rng, scale)
    return picture.resize((size, size), Image.Resampling.LANCZOS)
