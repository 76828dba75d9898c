"""Drawn faces of fictional peoples: group, individual variation, and an expression of its own.

The peoples are those of social psychology's studies of novel groups; they have colours and horns
that nobody has, so that no real people is drawn. The expression (mouth and brows) carries a
valence that is independent of the group, and so is the place where somebody stands: most of what varies
between pictures is not who is on them.
"""

from __future__ import annotations

import colorsys
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from src.errors import InputError

Colour = tuple[int, int, int]
SUPERSAMPLING = 4
# Saturation of the background.
GROUND = (0.4, 0.6)


def avatar(
    *,
    hue: float,
    crest: str,
    prominence: float,
    hair: float,
    valence: float,
    place: float,
    size: int,
    rng: np.random.Generator,
) -> Image.Image:
    """Draw one face.

    Args:
        hue: of the skin, in [0, 1].
        crest: `horns`, `ears` or `antennae`.
        prominence: of the crest: 0 hides it, 1 is large.
        hair: its length: 0 is none below the crown, 1 reaches below the chin.
        valence: of the expression, in [0, 1]: 0 frowns, 1 smiles.
        place: hue of the background, in [0, 1].
        size: edge of the square picture, in pixels.
        rng: source of the individual variation.

    Returns:
        An RGB picture of `size` x `size` pixels.
    """
    scale = size * SUPERSAMPLING
    picture = Image.new("RGB", (scale, scale), rgb(place, rng.uniform(*GROUND), rng.uniform(0.75, 1)))
    draw = ImageDraw.Draw(picture)
    centre = np.array([0.5, 0.54]) + rng.uniform(-0.05, 0.05, 2)
    radius = np.array([rng.uniform(0.23, 0.29), rng.uniform(0.27, 0.33)])
    skin = rgb(hue, rng.uniform(0.4, 0.6), rng.uniform(0.7, 0.95))
    hair_colour = rgb(rng.uniform(), rng.uniform(0.1, 0.4), rng.uniform(0.1, 0.3))

    def oval(at: np.ndarray, extent: np.ndarray, fill: Colour) -> None:
        low, high = (centre + at * radius - extent * radius), (centre + at * radius + extent * radius)
        draw.ellipse([*(low * scale), *(high * scale)], fill=fill)

    def line(points: np.ndarray, width: float, fill: Colour) -> None:
        at = [tuple(point) for point in (centre + points * radius) * scale]
        draw.line(at, fill=fill, width=max(1, round(width * scale)), joint="curve")

    def both(x: float, y: float) -> tuple[np.ndarray, np.ndarray]:
        return np.array([-x, y]), np.array([x, y])

    oval(np.array([0, 0.4 * hair - 0.15]), np.array([1.0 + 0.4 * hair, 0.85 + 0.55 * hair]), hair_colour)
    _crest(crest, prominence, both, oval, line, skin)
    oval(np.zeros(2), np.ones(2), skin)
    fringe = np.array([[x, -0.55 - 0.42 * np.sqrt(max(0.0, 1 - x * x))] for x in np.linspace(-0.8, 0.8, 9)])
    line(fringe, 0.06, hair_colour)

    spacing, height = rng.uniform(0.33, 0.45), rng.uniform(-0.2, -0.08)
    eye = rng.uniform(0.1, 0.15)
    smile = 2 * valence - 1
    for side in both(spacing, height):
        oval(side, np.array([eye, eye * 1.1]), (250, 250, 250))
        oval(side, np.array([eye * 0.5, eye * 0.55]), (20, 20, 30))
        tilt = -0.16 * smile * np.sign(side[0])
        ends = np.array([[side[0] - 0.16, side[1] - 0.26 + tilt], [side[0] + 0.16, side[1] - 0.26 - tilt]])
        line(ends, 0.03, (30, 20, 30))
    width = rng.uniform(0.42, 0.55)
    across = np.linspace(-1, 1, 13)
    curve = 0.5 + 0.38 * smile * (0.5 - across**2)
    line(np.stack([across * width, curve], axis=1), 0.045, (110, 10, 30))
    return picture.resize((size, size), Image.Resampling.LANCZOS)


def _crest(kind: str, size: float, both: Any, oval: Any, line: Any, skin: Colour) -> None:
    for side in both(0.62, -0.8):
        outward = np.sign(side[0])
        if kind == "horns":
            bend, tip = side + size * np.array([0.16 * outward, -0.35]), side + size * np.array([0, -0.6])
            line(np.array([side, bend, tip]), 0.05, (235, 225, 190))
        elif kind == "ears":
            oval(side + [(0.2 + 0.25 * size) * outward, 0.72], np.full(2, 0.36 * size), skin)
        elif kind == "antennae":
            root, tip = side * [0.5, 1.1], side * [0.7, 1.1] + [0, -0.5 * size]
            line(np.array([root, tip]), 0.02, skin)
            oval(tip, np.full(2, 0.12 * size), (250, 210, 60))
        else:
            raise InputError(f"faces.peoples: no crest is called {kind!r}; there are horns, ears, antennae.")


def rgb(hue: float, saturation: float, value: float) -> Colour:
    """A colour in 0 to 255, of a hue that goes round."""
    red, green, blue = colorsys.hsv_to_rgb(hue % 1, saturation, value)
    return round(255 * red), round(255 * green), round(255 * blue)
