"""Write the words and labels of a job in another language, and tell whose ratings words have."""

from dataclasses import replace
from functools import cache

import yaml
from omegaconf import OmegaConf

from src.configs.composition import CONF
from src.configs.jobs import RunConfig
from src.configs.languages import ENGLISH, LanguageConfig
from src.configs.roles import (
    RATED_LANGUAGE,
    LabelsConfig,
    NormsConfig,
    NrcVadConfig,
    RoleConfig,
    VaderConfig,
)

# Ratings of words: of the English words that they translate, of a model, of people who read these words.
TRANSLATED, PREDICTED, NATIVE = "translated", "predicted", "native"


def write_in(cfg: RunConfig, language: LanguageConfig) -> RunConfig:
    """Return a job with templates, words and labels in a language; words without a translation stay."""
    words, labels = cfg.words, cfg.labels
    if isinstance(words, VaderConfig):
        words = replace(words, translation=language.words)
    elif isinstance(words, NrcVadConfig):
        words = replace(words, translation=language.lexicon)
    if isinstance(labels, LabelsConfig):
        labels = replace(labels, translation=language.labels)
    return replace(cfg, language=language, templates=[*language.templates], words=words, labels=labels)


@cache
def load_english() -> LanguageConfig:
    """Load English as this repository defines it."""
    content = yaml.safe_load((CONF / "language" / f"{ENGLISH}.yaml").read_text("utf-8"))
    del content["defaults"]
    english = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(LanguageConfig), content))
    assert isinstance(english, LanguageConfig)
    return english


def classify_ratings(words: RoleConfig) -> str:
    """Return whose ratings words have: `TRANSLATED`, `PREDICTED` or `NATIVE`."""
    if isinstance(words, NormsConfig) and words.predicted:
        return PREDICTED
    translation = words.translation if isinstance(words, NrcVadConfig | VaderConfig) else None
    return NATIVE if translation in (None, RATED_LANGUAGE) else TRANSLATED
