"""Build the prompts of a So-B-IT audit: captions of a taxonomy and of frequent words as baseline."""

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

# Maximum number of cosines in memory, 8 bytes each: those of a block of captions with all faces.
MAX_COSINES = 2 * 10**7
# Maximum number of face vectors that are converted to float64 at a time.
MAX_FACES = 2**21


def words(cfg: RunConfig) -> pd.DataFrame:
    """Return the words of the job's taxonomy: `category, word, type, caption`.

    Raises:
        InputError: see `src.stimuli.taxonomy.load_words`.
    """
    word_rows = taxonomy.load_words(cfg.taxonomy)
    return word_rows.assign(caption=taxonomy.compose_captions(word_rows, cfg.taxonomy, cfg.protocol.article))


def baseline(cfg: RunConfig) -> list[str]:
    """Return the baseline captions of frequent words; an empty list if the measure needs no baseline.

    Raises:
        InputError: the vocabulary has too few words, or strength lacks a baseline.
    """
    assert isinstance(cfg.exp, SobitConfig)
    measure, count = cfg.exp.measure, cfg.protocol.vocabulary
    if measure == "strength" and not count:
        raise InputError("protocol.vocabulary=0: strength needs captions of frequent words. Set it to 1000.")
    if measure == "retrieval" or not count:
        return []
    frequent = taxonomy.list_frequent_words(cfg.taxonomy, count)
    if cfg.protocol.baseline == "bare":
        return frequent
    nouns = pd.DataFrame({"word": frequent, "type": "noun"})
    # Two words may give the same caption: the first counts.
    return list(dict.fromkeys(taxonomy.compose_captions(nouns, cfg.taxonomy, cfg.protocol.article)))


def prompts(cfg: RunConfig) -> Table:
    """Return all distinct sentences of the job: `id` (the sentence), `sentence`.

    Raises:
        InputError: see `words` and `baseline`.
    """
    sentences = sorted({*words(cfg)["caption"], *baseline(cfg)})
    return Table(PROMPTS, pd.DataFrame({"id": sentences, "sentence": sentences}), len(sentences))


def cosines(texts: Tensor, faces: Tensor) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield cosines of captions [W, D] with all faces [N, D] or [N, Q, D], a block of captions at a time.

    Yields:
        Slice of the captions, and their cosines [captions, N], float64.
    """
    caption_step = max(1, MAX_COSINES // len(faces))
    face_step = max(1, MAX_FACES // faces[0].numel())
    for start in range(0, len(texts), caption_step):
        caption_slice = slice(start, min(start + caption_step, len(texts)))
        block = np.empty((caption_slice.stop - start, len(faces)))
        for face_start in range(0, len(faces), face_step):
            face_slice = slice(face_start, face_start + face_step)
            torch.from_numpy(block)[:, face_slice] = similarity(texts[caption_slice], faces[face_slice])
        yield caption_slice, block
