"""Standardise photographs: crop the centre square, and resize it."""

from pathlib import Path

import numpy as np
from PIL import Image

from src.stimuli.pictures import decode

Box = tuple[float, float, float, float]
# Pictures are reduced by whole factors down to this multiple of the size, and by Lanczos from there.
REDUCING_GAP = 3.0


def standardise(path: str | Path, size: int) -> np.ndarray:
    """Read the centre square of a picture, upright, as [size, size, 3] uint8 RGB."""
    # A large JPEG is decoded at a half, a quarter or an eighth, but never below twice the target size.
    picture, _ = decode(path, min_edge=2 * size)
    scaled = picture.resize(
        (size, size), Image.Resampling.LANCZOS, box=centre_square(*picture.size), reducing_gap=REDUCING_GAP
    )
    return np.asarray(scaled)


def centre_square(width: int, height: int) -> Box:
    """Return the left, upper, right and lower edge of the centre square, in pixels from the outer edges."""
    edge = min(width, height)
    left, upper = (width - edge) / 2, (height - edge) / 2
    return left, upper, left + edge, upper + edge


def standardise_points(points: np.ndarray, width: int, height: int, size: int) -> np.ndarray:
    """Transform points of a photograph to its standardised form of edge `size`.

    Points are x and y in pixels, [P, 2]: the centre of the first pixel is (0, 0).
    """
    left, upper, right, _ = centre_square(width, height)
    scale = size / (right - left)
    return (points + 0.5 - [left, upper]) * scale - 0.5
