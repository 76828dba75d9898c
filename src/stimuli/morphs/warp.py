"""What warps share: to look up a picture at other places, and to average two."""

from __future__ import annotations

import cv2
import numpy as np

cv2.setNumThreads(1)  # one morph per core is faster than one morph on all of them


def at(field: np.ndarray, places: np.ndarray) -> np.ndarray:
    """A picture or a flow at other places, interpolated linearly; beyond its edge stands the edge.

    Args:
        field: [H, W, C].
        places: [h, w, 2], x and y in pixels from the centre of the first.

    Returns:
        [h, w, C] of the field's type.
    """
    x, y = (np.ascontiguousarray(places[..., axis], dtype=np.float32) for axis in (0, 1))
    return np.asarray(cv2.remap(field, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE))


def mean(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Mean of two pictures (uint8), halves rounded up: the same whichever comes first."""
    return np.asarray((a.astype(np.uint16) + b + 1) // 2, dtype=np.uint8)
