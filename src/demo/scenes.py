"""Drawn abstract scenes whose roundness, warmth and brightness carry a valence."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw

from src.demo.avatars import SUPERSAMPLING, Colour, rgb


def scene(valence: float, size: int, noise: float, rng: np.random.Generator) -> Image.Image:
    """Draw one scene.

    Args:
        valence: in [0, 1]: 0 is dark, cold and spiky, 1 bright, warm and round.
        size: edge of the square picture, in pixels.
        noise: standard deviation by which each of the three cues strays from the valence.
        rng: source of the variation.

    Returns:
        An RGB picture of `size` x `size` pixels.
    """
    roundness, warmth, brightness = np.clip(valence + rng.normal(0, noise, 3), 0, 1)
    scale = size * SUPERSAMPLING
    picture = Image.new("RGB", (scale, scale), _colour(warmth, 0.45, 0.15 + 0.7 * brightness, rng))
    draw = ImageDraw.Draw(picture)
    for _ in range(rng.integers(4, 9)):
        centre = rng.uniform(0.1, 0.9, 2)
        radius = rng.uniform(0.08, 0.24)
        angle = rng.uniform(0, 2 * np.pi) + np.linspace(0, 2 * np.pi, 64, endpoint=False)
        # From a star of seven spikes to a disc.
        spikes = 1 - (1 - roundness) * 0.6 * (0.5 + 0.5 * np.cos(7 * (angle - angle[0])))
        outline = centre + radius * (spikes * np.stack([np.cos(angle), np.sin(angle)])).T
        fill = _colour(warmth, rng.uniform(0.5, 0.9), 0.2 + 0.75 * brightness, rng)
        draw.polygon([tuple(point) for point in outline * scale], fill=fill)
    return picture.resize((size, size), Image.Resampling.LANCZOS)


def _colour(warmth: float, saturation: float, value: float, rng: np.random.Generator) -> Colour:
    # From blue (0.62) by way of magenta to orange (1.08): the cold end never passes through green.
    hue = 0.62 + 0.46 * warmth + rng.normal(0, 0.03)
    return rgb(hue, saturation, np.clip(value + rng.normal(0, 0.04), 0, 1))
