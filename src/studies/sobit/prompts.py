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

# Maximum number of cosines in memory, 8 bytes each; captions are processed in blocks, each with all faces.
MAX_COSINES = 2 * 10**7
# Maximum number of components of face vectors that are converted to float64 at a time.
MAX_COMPONENTS = 2**21


def load_words(cfg: RunConfig) -> pd.DataFrame:
    """Load the words of the job's taxonomy with their captions: `category, word, type, caption`.

    Raises:
        InputError: see `src.stimuli.taxonomy.load_words`.
    """
    word_rows = taxonomy.load_words(cfg.taxonomy)
    return word_rows.assign(caption=taxonomy.compose_captions(word_rows, cfg.taxonomy, cfg.protocol.article))


def compose_baseline(cfg: RunConfig) -> list[str]:
    """Compose the baseline: captions of frequent words; an empty list if the measure needs no baseline.

    Raises:
        InputError: the language has too few frequent words, or strength has no baseline.
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
    # Two words may have the same caption, which counts once.
    return list(dict.fromkeys(taxonomy.compose_captions(nouns, cfg.taxonomy, cfg.protocol.article)))


def build_prompts(cfg: RunConfig) -> Table:
    """Build the table of all distinct sentences of the job: `id` (the sentence), `sentence`.

    Raises:
        InputError: see `load_words` and `compose_baseline`.
    """
    sentences = sorted({*load_words(cfg)["caption"], *compose_baseline(cfg)})
    return Table(PROMPTS, pd.DataFrame({"id": sentences, "sentence": sentences}), len(sentences))


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
