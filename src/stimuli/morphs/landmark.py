"""Morphs by landmarks: each triangle between them is drawn to the mean shape, then averaged."""

from __future__ import annotations

import numpy as np
from scipy.spatial import Delaunay

from src.stimuli.morphs.warp import at, mean


def morph(a: np.ndarray, b: np.ndarray, points_a: np.ndarray, points_b: np.ndarray) -> np.ndarray:
    """The face half-way between two, in shape and in colour.

    Args:
        a, b: [size, size, 3] uint8.
        points_a, points_b: [P, 2], x and y of the same P landmarks in pixels; those that lie
            outside one of the pictures are not used.

    Returns:
        [size, size, 3] uint8. Swapping the parents gives the same bytes.
    """
    size = len(a)
    seen = (np.minimum(points_a, points_b) >= 0) & (np.maximum(points_a, points_b) <= size - 1)
    shape_a, shape_b = (
        np.concatenate([points[seen.all(axis=1)], _frame(size)]) for points in (points_a, points_b)
    )
    x, y = np.meshgrid(np.arange(size), np.arange(size))
    places = np.stack([x.ravel(), y.ravel()], axis=1).astype(np.float64)
    mesh = Delaunay((shape_a + shape_b) / 2)
    triangle = mesh.find_simplex(places)
    # Coordinates of each pixel within its triangle are the same in both parents.
    affine = mesh.transform[triangle]
    two = np.einsum("nij,nj->ni", affine[:, :2], places - affine[:, 2])
    weights = np.concatenate([two, 1 - two.sum(axis=1, keepdims=True)], axis=1)
    corners = mesh.simplices[triangle]
    warped_a, warped_b = (
        at(picture, np.einsum("nk,nkd->nd", weights, shape[corners]).reshape(size, size, 2))
        for picture, shape in ((a, shape_a), (b, shape_b))
    )
    return mean(warped_a, warped_b)


def _frame(size: int) -> np.ndarray:
    # Corners and points of the edges, which stay where they are; a pixel outside, so that every
    # pixel lies within a triangle.
    along = np.linspace(-1, size, 5)
    low, high = np.full(5, -1.0), np.full(5, float(size))
    sides = [(along, low), (along, high), (low, along), (high, along)]
    return np.unique(np.concatenate([np.stack(side, axis=1) for side in sides]), axis=0)
