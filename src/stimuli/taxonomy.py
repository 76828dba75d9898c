"""Loaded words by category (So-B-IT, METHODS §4), and the captions that they stand in."""

from __future__ import annotations

import pandas as pd

from src.configs import TaxonomyConfig


def words(cfg: TaxonomyConfig) -> pd.DataFrame:
    """The words of a taxonomy, in the order of the list.

    Returns:
        `category`, `word`, `type`; a word may stand in several categories, in each once.

    Raises:
        InputError: see the contract.
    """
    rows = [
        {"category": category, "word": word, "type": kind}
        for category, kinds in cfg.categories.items()
        for kind, listed in kinds.items()
        for word in listed
    ]
    return pd.DataFrame(rows, columns=["category", "word", "type"])


def captioned(chosen: pd.DataFrame, cfg: TaxonomyConfig, article: str) -> pd.Series:
    """The caption of each word, by its type."""
    return pd.Series(
        [
            cfg.captions[kind]
            .replace("{article}", "a/an" if article == "literal" else "a")
            .replace("{word}", word)
            for word, kind in zip(chosen["word"], chosen["type"], strict=True)
        ],
        index=chosen.index,
    )


def frequent(cfg: TaxonomyConfig, count: int) -> list[str]:
    """The most frequent words of the language."""
    import wordfreq

    return [word for word in wordfreq.top_n_list(cfg.language, 2 * count) if word.isalpha()][:count]
