"""Answers whose leaning is known, because it was planted."""

from __future__ import annotations

import numpy as np
import pandas as pd

from src.storage.cache import fingerprint
from src.studies.subtler.items import OPTIONS


def answers(items: pd.DataFrame, *, lean: float, seed: int) -> pd.DataFrame:
    """Items with `response`: the stereotype with probability `lean`, else one of the three by lot.

    So the stereotype is chosen with probability (1 + 2 lean)/3, either other option with (1 - lean)/3; among
    as many positive as negative items tau-c is lean (4 - lean)/3 in expectation, give or take 1/n, and del_PL
    is 100 lean.

    Args:
        items: see `items.read`.
        lean: in [0, 1].
        seed: of the lots, which else hang on the item alone.
    """
    drawn = np.array(
        [
            np.random.default_rng([seed, int(fingerprint([item, context]), 16)]).random(2)
            for item, context in zip(items["item"], items["context"], strict=True)
        ]
    )
    chosen = np.where(drawn[:, 0] < lean, OPTIONS.index("stereotype"), (3 * drawn[:, 1]).astype(int))
    options = items[list(OPTIONS)].to_numpy()
    return items.assign(response=options[np.arange(len(items)), chosen])
