"""Compute cosines of captions with all faces, in blocks that fit into memory."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from src.metrics import similarity

# Maximum number of cosines in memory, 8 bytes each; captions are processed in blocks, each with all faces.
MAX_COSINES = 2 * 10**7
# Maximum number of components of face vectors that are converted to float64 at a time.
MAX_COMPONENTS = 2**21


def compute_cosines(caption_vectors: Tensor, face_vectors: Tensor) -> Iterator[tuple[slice, np.ndarray]]:
    """Compute cosines of captions [W, D] with all faces [N, D] or [N, Q, D], a block of captions at a time.

    Yields:
        The slice of captions in the block, and their cosines [captions in the block, N], float64.
    """
    face_count = len(face_vectors)
    caption_step = max(1, MAX_COSINES // face_count)
    face_step = max(1, MAX_COMPONENTS // face_vectors[0].numel())
    for start in range(0, len(caption_vectors), caption_step):
        caption_slice = slice(start, min(start + caption_step, len(caption_vectors)))
        block = np.empty((caption_slice.stop - start, face_count))
        for face_start in range(0, face_count, face_step):
            face_slice = slice(face_start, face_start + face_step)
            cosines = similarity(caption_vectors[caption_slice], face_vectors[face_slice])
            torch.from_numpy(block)[:, face_slice] = cosines
        yield caption_slice, block
