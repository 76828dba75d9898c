"""Draw the contents of pictures that are unrelated to valence: a place, the weather, a material and a number.

A picture shows one value of each content, and a word means one value of each, so that pictures and words
differ in many directions besides valence. In order of valence, the values follow a Halton sequence, so no
content predicts the valence; with independent draws, some content would by chance.
"""

import colorsys
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from PIL import ImageDraw
from scipy.stats import qmc

Colour = tuple[int, int, int]
# Copies of a group's own place among the choices of places: 7 of 12 of its pictures are there.
COPIES_OF_PLACE = 6
# Place -> hue of the background.
PLACES = {"dunes": 0.12, "meadow": 0.28, "lake": 0.45, "sky": 0.62, "heath": 0.78, "terrace": 0.97}
# Material -> colour of the frame.
MATERIALS: dict[str, Colour] = {
    "wood": (122, 74, 30), "stone": (105, 105, 110), "silver": (222, 226, 232), "velvet": (150, 20, 60),
}  # fmt: skip
# Weather -> colour of the sky.
SKIES: dict[str, Colour] = {
    "sun": (120, 190, 255), "rain": (60, 70, 100), "snow": (205, 215, 235), "fog": (165, 160, 150),
}  # fmt: skip
# Content -> its values.
CONTENTS: dict[str, tuple[str, ...]] = {
    "place": tuple(PLACES),
    "weather": tuple(SKIES),
    "material": tuple(MATERIALS),
    "number": ("one", "two", "three", "four"),
}
# Standard deviation of a background's hue around the hue of its place.
PLACE_SD = 0.015
# Width of the frame, bottom of the sky and top of the ground, as fractions of the picture's height.
FRAME, SKY, GROUND = 0.05, 0.15, 0.86


def to_rgb(hue: float, saturation: float, value: float) -> Colour:
    """Convert hue (cyclic), saturation and value, each from 0 to 1, to RGB from 0 to 255."""
    red, green, blue = colorsys.hsv_to_rgb(hue % 1, saturation, value)
    return round(255 * red), round(255 * green), round(255 * blue)


def draw_values(
    count: int, rng: np.random.Generator, *, of_group: bool, place: str | None = None
) -> list[dict[str, str]]:
    """Draw the contents of `count` pictures: for each, in order of valence, content -> value.

    All values of a content are (nearly) equally frequent. With `of_group`, one value of each content except
    the place is three times as frequent as the others, so that groups differ in many respects, as they do in
    photographs. `place`: place that is seven times as frequent as the others; None: no place is.
    """
    choices = []
    for name, values in CONTENTS.items():
        preferred = 2 * [values[rng.integers(len(values))]] if of_group and name != "place" else []
        if place and name == "place":
            preferred = COPIES_OF_PLACE * [place]
        choices.append([*values, *preferred])
    picked = _spread_over_combinations(count, list(map(len, choices)))
    return [dict(zip(CONTENTS, map(list.__getitem__, choices, row), strict=True)) for row in picked.tolist()]


def draw_background_colour(
    values: Mapping[str, str], saturation: float, value: float, rng: np.random.Generator
) -> Colour:
    """Draw the colour of a picture's background, whose hue shows the place."""
    return to_rgb(rng.normal(PLACES[values["place"]], PLACE_SD), saturation, value)


def draw_contents(
    draw: ImageDraw.ImageDraw, values: Mapping[str, str], rng: np.random.Generator, edge: int
) -> None:
    """Draw the weather at the top, the number as blocks at the bottom, and the material as the frame.

    `edge`: width and height of the picture in pixels.
    """
    draw.rectangle([0, 0, edge, SKY * edge], fill=SKIES[values["weather"]])
    for x, y in rng.uniform((0.05, 0.06), (0.95, 0.12), (9, 2)) * edge:
        if values["weather"] == "rain":
            draw.line([x, y - 0.03 * edge, x - 0.02 * edge, y + 0.03 * edge], (200, 215, 255), edge // 60)
        elif values["weather"] == "snow":
            draw.ellipse([x, y, x + 0.04 * edge, y + 0.04 * edge], fill=(255, 255, 255))
        elif values["weather"] == "fog":
            draw.line([x - 0.1 * edge, y, x + 0.1 * edge, y], (225, 225, 220), edge // 50)
    if values["weather"] == "sun":
        x = rng.uniform(0.2, 0.8)
        draw.ellipse([(x - 0.05) * edge, 0.045 * edge, (x + 0.05) * edge, 0.145 * edge], fill=(255, 225, 60))
    draw.rectangle([0, GROUND * edge, edge, edge], fill=(250, 250, 240))
    for index in range(CONTENTS["number"].index(values["number"]) + 1):
        left = 0.08 + 0.22 * index
        draw.rectangle([left * edge, GROUND * edge, (left + 0.16) * edge, edge], fill=(20, 20, 20))
    draw.rectangle(
        [0, 0, edge - 1, edge - 1], outline=MATERIALS[values["material"]], width=round(FRAME * edge)
    )


def add_meanings(texts: pd.DataFrame, order: pd.Series, names: Iterable[str] = CONTENTS) -> pd.DataFrame:
    """Add columns with the values of the contents `names` that texts mean.

    Values are assigned in the given order of the texts; texts that are equal in `order` mean the same.
    """
    position = order.rank(method="dense").astype(int) - 1
    choices = [len(values) for values in CONTENTS.values()]
    picked = _spread_over_combinations(position.max() + 1, choices)[position]
    columns = zip(CONTENTS.items(), picked.T, strict=True)
    meanings = {name: np.array(values)[indices] for (name, values), indices in columns}
    return texts.assign(**{name: meanings[name] for name in names})


def _spread_over_combinations(count: int, choices: Sequence[int]) -> np.ndarray:
    """Return indices that cover the combinations of choices evenly, [count, len(choices)].

    `choices`: number of choices in each column.
    """
    points = qmc.Halton(len(choices), scramble=False).random(count + 1)[1:]  # the first point is all 0
    return np.asarray((points * choices).astype(int))


def count_shared_contents(pictures: pd.DataFrame, texts: pd.DataFrame) -> np.ndarray:
    """Count the contents whose value a picture shows and a text means, [pictures, texts].

    The contents of photographs are unknown: they count as 0.
    """
    counts = np.zeros((len(pictures), len(texts)))
    for name in CONTENTS:
        if name in pictures:
            counts += pictures[name].to_numpy(dtype=str)[:, None] == texts[name].to_numpy(dtype=str)
    return counts
