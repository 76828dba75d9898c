"""Photographs of one form: the centre square, at one size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from src.stimuli.decoding import decode

Box = tuple[float, float, float, float]
# Shrinking goes in whole-number steps down to this many times the size, and by Lanczos from there.
GAP = 3.0


def standard(path: str | Path, size: int) -> np.ndarray:
    """The centre square of a picture, upright, as [size, size, 3] uint8 RGB."""
    # A JPEG of studio size is decoded at a half, a quarter or an eighth, never below twice the size.
    picture, _ = decode(path, min_edge=2 * size)
    scaled = picture.resize(
        (size, size), Image.Resampling.LANCZOS, box=square(*picture.size), reducing_gap=GAP
    )
    return np.asarray(scaled)


def square(width: int, height: int) -> Box:
    """Left, upper, right and lower edge of the centre square, in pixels, from the outer edges."""
    edge = min(width, height)
    left, upper = (width - edge) / 2, (height - edge) / 2
    return left, upper, left + edge, upper + edge


def carried(points: np.ndarray, width: int, height: int, size: int) -> np.ndarray:
    """Points of a photograph, in its standardised form.

    Args:
        points: [P, 2], x and y in the photograph's pixels: the centre of the first pixel is (0, 0).
        width, height: of the photograph, in pixels.
        size: edge of the standardised form, in pixels.

    Returns:
        [P, 2] in the pixels of the standardised form, likewise from the centre of the first.
    """
    left, upper, right, _ = square(width, height)
    scale = size / (right - left)
    return (points + 0.5 - [left, upper]) * scale - 0.5
