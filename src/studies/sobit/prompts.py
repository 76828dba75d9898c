"""What a So-B-IT audit says: captions of a taxonomy, and of frequent words as their baseline."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from src.configs import RunConfig
from src.errors import InputError
from src.metrics import similarity
from src.stimuli import PROMPTS, Table, taxonomy
from src.studies.sobit.config import SobitConfig

# Numbers in memory at a time: cosines of some captions with all faces, 8 bytes each.
BLOCK = 2 * 10**7
# Vectors of faces that are made float64 at a time.
ROWS = 2**21


def words(cfg: RunConfig) -> pd.DataFrame:
    """The words of the job's taxonomy: `category, word, type, caption`.

    Raises:
        InputError: see `src.stimuli.taxonomy.words`.
    """
    found = taxonomy.words(cfg.taxonomy)
    return found.assign(caption=taxonomy.captioned(found, cfg.taxonomy, cfg.protocol.article))


def baseline(cfg: RunConfig) -> list[str]:
    """Captions of the frequent words that the job's measure is held against; none where it needs none.

    Raises:
        InputError: there are not so many words, or strength has nothing to be held against.
    """
    assert isinstance(cfg.exp, SobitConfig)
    count = cfg.protocol.vocabulary
    if cfg.exp.measure == "retrieval":
        return []
    if not count:
        if cfg.exp.measure == "strength":
            raise InputError(
                "protocol.vocabulary=0: strength is the share of frequent words' captions that are no "
                "stronger. Set it to 1000 or more."
            )
        return []
    frequent = taxonomy.frequent(cfg.taxonomy, count)
    if cfg.protocol.baseline == "bare":
        return frequent
    nouns = pd.DataFrame({"word": frequent, "type": "noun"})
    # Of two spellings of one caption the first counts.
    return list(dict.fromkeys(taxonomy.captioned(nouns, cfg.taxonomy, cfg.protocol.article)))


def prompts(cfg: RunConfig) -> Table:
    """All that the job says, each sentence once: `id` (the sentence), `sentence`.

    Raises:
        InputError: see `words` and `baseline`.
    """
    said = sorted({*words(cfg)["caption"], *baseline(cfg)})
    return Table(PROMPTS, pd.DataFrame({"id": said, "sentence": said}), len(said))


def places(table: Table, sentences: list[str]) -> np.ndarray:
    """Rows of sentences in the table of prompts."""
    found: np.ndarray = pd.Index(table.frame["sentence"]).get_indexer(pd.Index(sentences))
    return found


def cosines(texts: Tensor, faces: Tensor) -> Iterator[tuple[slice, np.ndarray]]:
    """Cosines of captions with all faces, some captions at a time.

    Args:
        texts: [W, D].
        faces: [N, D], or [N, Q, D].

    Yields:
        Which captions, and [captions, N], float64.
    """
    count = max(1, BLOCK // len(faces))
    step = max(1, ROWS // faces[0].numel())
    for start in range(0, len(texts), count):
        chosen = slice(start, min(start + count, len(texts)))
        found = np.empty((chosen.stop - start, len(faces)))
        for first in range(0, len(faces), step):
            some = slice(first, first + step)
            torch.from_numpy(found)[:, some] = similarity(texts[chosen], faces[some])
        yield chosen, found
