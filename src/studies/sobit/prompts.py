"""Build the prompts of a So-B-IT audit: captions of a taxonomy and of frequent words as baseline."""

import pandas as pd

from src.configs import RunConfig
from src.errors import InputError
from src.stimuli import PROMPTS, Table, taxonomy, wordlists
from src.studies.sobit.config import SobitConfig


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
    frequent = wordlists.list_frequent_words(cfg.taxonomy, count)
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
