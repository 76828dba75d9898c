"""Draw faces of fictional peoples that vary by group, individual and expression.

The names of the peoples come from studies of novel groups in social psychology. Their colours and crests
are unreal, so that no real people is depicted. The expression (mouth and brows) shows a valence. It is
independent of the group, as is the hue of the background, so that the group explains little of the variation.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from src.demo.contents import Colour, draw_background_colour, draw_contents, to_rgb
from src.errors import InputError

SUPERSAMPLING = 4  # factor by which pictures are drawn larger, before they are reduced
SATURATION = (0.4, 0.6)  # lowest and highest saturation of the background
PLAIN_VALUE = (0.35, 0.65)  # lowest and highest brightness of a plain grey background


def draw_avatar(
    *,
    hue: float,  # hue of the skin, in [0, 1]
    crest: str,  # horns, ears or antennae
    prominence: float,  # size of the crest: 0 hides it, 1 is large
    hair: float,  # length of the hair: 0 ends at the crown, 1 reaches below the chin
    valence: float,  # expression, in [0, 1]: 0 frowns, 1 smiles
    contents: Mapping[str, str]
    | None,  # place, weather, material, number (src/demo/contents.py); None: plain grey
    size: int,  # width and height of the picture in pixels
    rng: np.random.Generator,
    scene_rng: np.random.Generator | None = None,  # of the background and the contents; None: `rng`
    age: float = 0.0,  # share of white in the hair, and depth of the lines of the skin, 0 to 1
) -> Image.Image:
    """Draw one face as an RGB picture of `size` x `size` pixels, with individual variation from `rng`."""
    scale = size * SUPERSAMPLING
    scene_rng = scene_rng or rng
    if contents is None:
        colour = to_rgb(0.0, 0.0, scene_rng.uniform(*PLAIN_VALUE))
    else:
        colour = draw_background_colour(
            contents, scene_rng.uniform(*SATURATION), scene_rng.uniform(0.75, 1), scene_rng
        )
    picture = Image.new("RGB", (scale, scale), colour)
    draw = ImageDraw.Draw(picture)
    centre = np.array([0.5, 0.54]) + rng.uniform(-0.05, 0.05, 2)
    radius = np.array([rng.uniform(0.23, 0.29), rng.uniform(0.27, 0.33)])
    skin = to_rgb(hue, rng.uniform(0.4, 0.6), rng.uniform(0.7, 0.95))
    hair_hue, hair_saturation, hair_value = rng.uniform(), rng.uniform(0.1, 0.4), rng.uniform(0.1, 0.3)
    hair_colour = to_rgb(hair_hue, hair_saturation * (1 - age), hair_value + age * (1 - hair_value))

    # Points and extents are (x, y) in radii of the face, points relative to its centre; widths of lines are
    # fractions of the picture's width.
    def draw_oval(middle: np.ndarray, extent: np.ndarray, fill: Colour) -> None:
        low, high = (centre + middle * radius - extent * radius), (centre + middle * radius + extent * radius)
        draw.ellipse([*(low * scale), *(high * scale)], fill=fill)

    def draw_line(points: np.ndarray, width: float, fill: Colour) -> None:
        vertices = [tuple(point) for point in (centre + points * radius) * scale]
        draw.line(vertices, fill=fill, width=max(1, round(width * scale)), joint="curve")

    def mirror(x: float, y: float) -> tuple[np.ndarray, np.ndarray]:
        return np.array([-x, y]), np.array([x, y])

    draw_oval(np.array([0, 0.4 * hair - 0.15]), np.array([1.0 + 0.4 * hair, 0.85 + 0.55 * hair]), hair_colour)
    _draw_crest(crest, prominence, mirror, draw_oval, draw_line, skin)
    draw_oval(np.zeros(2), np.ones(2), skin)
    fringe = np.array([[x, -0.55 - 0.42 * np.sqrt(max(0.0, 1 - x * x))] for x in np.linspace(-0.8, 0.8, 9)])
    draw_line(fringe, 0.06, hair_colour)

    spacing, height = rng.uniform(0.33, 0.45), rng.uniform(-0.2, -0.08)
    eye = rng.uniform(0.1, 0.15)
    smile = 2 * valence - 1
    for side in mirror(spacing, height):
        draw_oval(side, np.array([eye, eye * 1.1]), (250, 250, 250))
        draw_oval(side, np.array([eye * 0.5, eye * 0.55]), (20, 20, 30))
        tilt = -0.16 * smile * np.sign(side[0])
        ends = np.array([[side[0] - 0.16, side[1] - 0.26 + tilt], [side[0] + 0.16, side[1] - 0.26 - tilt]])
        draw_line(ends, 0.03, (30, 20, 30))
    width = rng.uniform(0.42, 0.55)
    across = np.linspace(-1, 1, 13)
    curve = 0.5 + 0.5 * smile * (0.5 - across**2)
    draw_line(np.stack([across * width, curve], axis=1), 0.07, (110, 10, 30))
    if age:
        for side in (*mirror(0.7, 0.2), *mirror(0.6, 0.4)):
            draw_line(np.array([side, side + [0, 0.3]]), 0.04 * age, (60, 50, 50))
    if contents is not None:
        draw_contents(draw, contents, scene_rng, scale)
    return picture.resize((size, size), Image.Resampling.LANCZOS)


def _draw_crest(
    kind: str, prominence: float, mirror: Any, draw_oval: Any, draw_line: Any, skin: Colour
) -> None:
    for side in mirror(0.62, -0.8):
        outward = np.sign(side[0])
        if kind == "horns":
            bend, tip = np.array([0.16 * outward, -0.35]), np.array([0, -0.6])
            draw_line(
                np.array([side, side + prominence * bend, side + prominence * tip]), 0.05, (235, 225, 190)
            )
        elif kind == "ears":
            draw_oval(side + [(0.2 + 0.25 * prominence) * outward, 0.72], np.full(2, 0.36 * prominence), skin)
        elif kind == "antennae":
            root, tip = side * [0.5, 1.1], side * [0.7, 1.1] + [0, -0.5 * prominence]
            draw_line(np.array([root, tip]), 0.02, skin)
            draw_oval(tip, np.full(2, 0.12 * prominence), (250, 210, 60))
        else:
            raise InputError(f"faces.peoples: expected a crest of horns, ears or antennae, got {kind!r}.")
