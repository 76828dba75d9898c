"""Compute the face half-way between two: warp both by optical flow or landmarks, and average them."""

import cv2
import numpy as np
from scipy.spatial import Delaunay

cv2.setNumThreads(1)  # a morph per core is faster than a single morph on all cores

# Disagreement between the two flows, in pixels of a picture of 224 x 224, at which their weight is halved.
HALVING_ERROR = 2.0
# SD, in the same pixels, of the Gaussian blur that fills in displacements where weights are low.
BLUR = 4.0
ITERATIONS = 2  # fixed-point iterations of the equation in `morph_by_flow`


def morph_by_flow(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Compute the face half-way between two by optical flow.

    The displacement u at a point m of the middle face is the mean of two flows: the flow from a to b at the
    corresponding point of a, m - u/2, and the reversed flow from b to a at m + u/2; a few iterations solve
    this equation. Where the two flows disagree, for example where only one face has hair, u is taken from
    the surroundings, so that the faces are cross-faded rather than smeared. Swapping a and b only changes
    the sign of u: the morph is identical to the last bit.

    All pictures are [size, size, 3] uint8.
    """
    a_to_b, b_to_a = _compute_flow(a, b), _compute_flow(b, a)
    size = len(a)
    grid = np.stack(np.meshgrid(np.arange(size), np.arange(size)), axis=-1).astype(np.float32)
    scale, u = size / 224, np.zeros_like(a_to_b)
    for _ in range(ITERATIONS):
        forward, backward = _sample_at(a_to_b, grid - u / 2), _sample_at(b_to_a, grid + u / 2)
        squared_error = ((forward + backward) ** 2).sum(-1, keepdims=True)
        weight = 1 / (1 + squared_error / (HALVING_ERROR * scale) ** 2)
        weighted_flow = np.concatenate([(forward - backward) / 2 * weight, weight], axis=-1)
        blurred_flow = cv2.GaussianBlur(weighted_flow, (0, 0), BLUR * scale)
        u = np.asarray(blurred_flow[..., :2] / blurred_flow[..., 2:])
    return _average(_sample_at(a, grid - u / 2), _sample_at(b, grid + u / 2))


def _compute_flow(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    # A new instance for each pair, so that no state carries over from the previous pair.
    dis = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
    grey_a, grey_b = (cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY) for picture in (a, b))
    return np.asarray(dis.calc(grey_a, grey_b, None))  # type: ignore[call-overload]


def morph_by_landmarks(
    a: np.ndarray, b: np.ndarray, points_a: np.ndarray, points_b: np.ndarray
) -> np.ndarray:
    """Compute the face half-way between two by landmarks: warp both to the mean landmarks, and average.

    Pictures are [size, size, 3] uint8; landmarks are (x, y) in pixels, [P, 2]. A landmark outside either
    picture is not used. Swapping the parents gives the same bytes.
    """
    size = len(a)
    is_inside = (np.minimum(points_a, points_b) >= 0) & (np.maximum(points_a, points_b) <= size - 1)
    # Fixed points at the corners and edges, one pixel outside, so that every pixel lies in a triangle.
    steps = np.linspace(-1, size, 5)
    low, high = np.full(5, -1.0), np.full(5, float(size))
    sides = [(steps, low), (steps, high), (low, steps), (high, steps)]
    border = np.unique(np.concatenate([np.stack(side, axis=1) for side in sides]), axis=0)
    vertices_a, vertices_b = (
        np.concatenate([points[is_inside.all(axis=1)], border]) for points in (points_a, points_b)
    )
    x, y = np.meshgrid(np.arange(size), np.arange(size))
    pixels = np.stack([x.ravel(), y.ravel()], axis=1).astype(np.float64)
    mesh = Delaunay((vertices_a + vertices_b) / 2)
    triangle = mesh.find_simplex(pixels)
    # The barycentric coordinates of a pixel in its triangle are the same in both parents.
    affine = mesh.transform[triangle]
    first_two_weights = np.einsum("nij,nj->ni", affine[:, :2], pixels - affine[:, 2])
    last_weight = 1 - first_two_weights.sum(axis=1, keepdims=True)
    weights = np.concatenate([first_two_weights, last_weight], axis=1)
    corners = mesh.simplices[triangle]
    warped_a, warped_b = (
        _sample_at(picture, np.einsum("nk,nkd->nd", weights, vertices[corners]).reshape(size, size, 2))
        for picture, vertices in ((a, vertices_a), (b, vertices_b))
    )
    return _average(warped_a, warped_b)


def _sample_at(array: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Sample a picture or a flow [H, W, C] at points [h, w, 2], by linear interpolation.

    Points are x and y in pixels, with the centre of the first pixel at (0, 0); edges are extended outwards.
    """
    x, y = (np.ascontiguousarray(points[..., axis], dtype=np.float32) for axis in (0, 1))
    return np.asarray(cv2.remap(array, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE))


def _average(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Average two uint8 pictures, rounding halves up, so that their order does not matter."""
    return np.asarray((a.astype(np.uint16) + b + 1) // 2, dtype=np.uint8)
