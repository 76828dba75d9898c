"""Draw what pictures show beside people and valence: a place, the weather, a material and a number.

A picture shows one value of each content, and a word means one of each, whatever its valence: pictures and
words differ in many directions, of which valence is one. In the order of their valence, contents follow a
Halton sequence: no content tells the valence, not even by chance, as it would by independent draws.
"""

import colorsys
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from PIL import ImageDraw
from scipy.stats import qmc

Colour = tuple[int, int, int]
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


def rgb(hue: float, saturation: float, value: float) -> Colour:
    """Convert hue (cyclic), saturation and value to a colour in 0 to 255."""
    red, green, blue = colorsys.hsv_to_rgb(hue % 1, saturation, value)
    return round(255 * red), round(255 * green), round(255 * blue)


def draw_values(count: int, rng: np.random.Generator, *, of_group: bool) -> list[dict[str, str]]:
    """Draw one value of each content for each picture, in the order of their valence.

    All values of a content are (nearly) equally frequent. Of pictures of a group, one value of each content
    except the place is three times as frequent as the others: groups differ in many respects, as in
    photographs.
    """
    choices = []
    for name, values in CONTENTS.items():
        preferred = 2 * [values[rng.integers(len(values))]] if of_group and name != "place" else []
        choices.append([*values, *preferred])
    picked = _spread(count, list(map(len, choices)))
    return [dict(zip(CONTENTS, map(list.__getitem__, choices, row), strict=True)) for row in picked.tolist()]


def background_colour(
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


def add_meanings(texts: pd.DataFrame, order: pd.Series, names: Iterable[str] = CONTENTS) -> pd.DataFrame:
    """Add the contents `names` that texts mean; texts that share a place in the `order` mean the same."""
    place = order.rank(method="dense").astype(int) - 1
    picked = _spread(place.max() + 1, [len(values) for values in CONTENTS.values()])[place]
    columns = zip(CONTENTS.items(), picked.T, strict=True)
    meant = {name: np.array(values)[numbers] for (name, values), numbers in columns}
    return texts.assign(**{name: meant[name] for name in names})


def _spread(count: int, choices: Sequence[int]) -> np.ndarray:
    """Return a number below each of `choices` for each item, spread over all their combinations."""
    points = qmc.Halton(len(choices), scramble=False).random(count + 1)[1:]  # the first is 0 throughout
    return np.asarray((points * choices).astype(int))


def count_shared_contents(pictures: pd.DataFrame, texts: pd.DataFrame) -> np.ndarray:
    """Count the contents that each picture shows and each text means, [pictures, texts].

    Pictures that were not drawn here show none.
    """
    counts = np.zeros((len(pictures), len(texts)))
    for name in CONTENTS:
        if name in pictures:
            counts += pictures[name].to_numpy(dtype=str)[:, None] == texts[name].to_numpy(dtype=str)
    return counts
