"""Measure how often a target is nearer to an item of A than to one of B: an intrinsic measure."""

import torch

from src.studies.propagation.measures import IntrinsicMeasure


def score(near, a, b, protocol):
    """Return the share of pairs in which A is nearer for each target and each A, [N, S]; a tie counts half.

    Args:
        near: similarities of N targets with the items of the corpus.
        a: positions of the items of each of S sets A.
        b: positions of the items of B.
        protocol: options of the protocol; unused.
    """
    to_b = near[:, b].sort(dim=1).values
    shares = []
    for items in a:
        to_a = near[:, items].contiguous()
        below, reached = (torch.searchsorted(to_b, to_a, right=right) for right in (False, True))
        shares.append((below + reached).double().mean(dim=1) / (2 * len(b)))
    return torch.stack(shares, dim=1)


SUPERIORITY = IntrinsicMeasure(label="probability of superiority", score=score, version=1)
FLAT = IntrinsicMeasure(label="one number for all", score=lambda near, a, b, protocol: near.mean())
