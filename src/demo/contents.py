"""Draw what pictures show beside people and valence: a place, the weather, a material and a number.

A picture shows one value of each content, and a word means one of each, whatever its valence: pictures and
words differ in many directions, of which valence is one.
"""

import hashlib
from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd
from PIL import ImageDraw

from src.demo.colours import Colour, rgb

# Hue of the background.
PLACES = {"dunes": 0.12, "meadow": 0.28, "lake": 0.45, "sky": 0.62, "heath": 0.78, "terrace": 0.97}
# Colour of the frame.
MATERIALS: dict[str, Colour] = {
    "wood": (122, 74, 30), "stone": (105, 105, 110), "silver": (222, 226, 232), "velvet": (150, 20, 60),
}  # fmt: skip
# Colour of the sky.
SKIES: dict[str, Colour] = {
    "sun": (120, 190, 255), "rain": (60, 70, 100), "snow": (205, 215, 235), "fog": (165, 160, 150),
}  # fmt: skip
CONTENTS: dict[str, tuple[str, ...]] = {
    "place": tuple(PLACES),
    "weather": tuple(SKIES),
    "material": tuple(MATERIALS),
    "number": ("one", "two", "three", "four"),
}
# Standard deviation of a background's hue around that of its place.
PLACE_SD = 0.015
# Shares of the picture's edge: width of the frame, lower end of the sky, upper end of the ground.
FRAME, SKY, GROUND = 0.05, 0.15, 0.86


def draw_values(count: int, rng: np.random.Generator, *, of_group: bool) -> list[dict[str, str]]:
    """Draw one value of each content for each picture.

    All values of a content are equally frequent. Of pictures of a group, one value of each content except the
    place is three times as frequent as the others: groups differ in many respects, as in photographs.
    """
    columns = {}
    for name, values in CONTENTS.items():
        preferred = 2 * [values[rng.integers(len(values))]] if of_group and name != "place" else []
        columns[name] = np.resize([*values, *preferred], count)[rng.permutation(count)]
    return [{name: str(column[row]) for name, column in columns.items()} for row in range(count)]


def background(
    values: Mapping[str, str], saturation: float, value: float, rng: np.random.Generator
) -> Colour:
    """Return the colour of a picture's background, whose hue shows the place."""
    return rgb(rng.normal(PLACES[values["place"]], PLACE_SD), saturation, value)


def draw_contents(
    draw: ImageDraw.ImageDraw, values: Mapping[str, str], rng: np.random.Generator, edge: int
) -> None:
    """Draw weather at the top, as many blocks at the bottom as the number says, and the frame's material."""
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


def meanings(words: Iterable[str]) -> np.ndarray:
    """Return the value that each word means of each content, as its number, [words, contents]."""
    digests = [hashlib.sha256(word.encode()).digest() for word in words]
    counts = [len(values) for values in CONTENTS.values()]
    return np.array([[digest[n] % count for n, count in enumerate(counts)] for digest in digests])


def contents_of(pictures: pd.DataFrame) -> np.ndarray | None:
    """Return the value that each picture shows of each content, as its number, [pictures, contents].

    Return None for pictures that were not drawn here.
    """
    if not {*CONTENTS} <= {*pictures.columns}:
        return None
    numbers = [pictures[name].map(values.index) for name, values in CONTENTS.items()]
    return np.stack(numbers, axis=1)
