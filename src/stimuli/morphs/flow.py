"""Morphs by dense optical flow: both faces are drawn to the middle, then averaged. No weights."""

from __future__ import annotations

import cv2
import numpy as np

from src.stimuli.morphs.warp import at, mean

# What a flow says is believed up to about this error of its way there and back, in pixels at 224.
DOUBT = 2.0
# Blur of the flow, in pixels at 224: neighbours carry where a place is not believed.
REACH = 4.0
STEPS = 2


def morph(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The face half-way between two.

    The displacement u at a point m of the middle is the mean of what the two flows say: the flow
    from a to b at the place of a that it comes from, m - u/2, and the reversed flow from b to a at
    m + u/2 (a few steps of this equation). Where the two contradict each other, as where one face
    has hair and the other has none, u is taken from the surroundings: there the faces
    are cross-faded rather than smeared. Swapping a and b turns the sign of u and nothing else, so the
    morph is the same to the last bit.

    Args:
        a, b: [size, size, 3] uint8.

    Returns:
        [size, size, 3] uint8.
    """
    there, back = _flow(a, b), _flow(b, a)
    size = len(a)
    grid = np.stack(np.meshgrid(np.arange(size), np.arange(size)), axis=-1).astype(np.float32)
    u = np.zeros_like(there)
    for _ in range(STEPS):
        ahead, behind = at(there, grid - u / 2), at(back, grid + u / 2)
        u = _believed((ahead - behind) / 2, ahead + behind, size / 224)
    return mean(at(a, grid - u / 2), at(b, grid + u / 2))


def _flow(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    # Made anew for each pair: it holds nothing over from the one before.
    dis = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
    grey_a, grey_b = (cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY) for picture in (a, b))
    return np.asarray(dis.calc(grey_a, grey_b, None))  # type: ignore[call-overload]


def _believed(u: np.ndarray, error: np.ndarray, scale: float) -> np.ndarray:
    weight = 1 / (1 + (error**2).sum(-1, keepdims=True) / (DOUBT * scale) ** 2)
    carried = np.concatenate([u * weight, weight], axis=-1)
    blurred = cv2.GaussianBlur(carried, (0, 0), REACH * scale)
    return np.asarray(blurred[..., :2] / blurred[..., 2:])
