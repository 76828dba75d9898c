"""Define the schema of languages, in which words and labels are written."""

from dataclasses import dataclass, field

from omegaconf import MISSING

from src.configs.roles import InventedWordsConfig, TranslatedLabelsConfig

# Code of the language of the papers. Jobs in it have the same key, columns and names as before languages
# became configurable.
ENGLISH = "en"
# In the name of a protocol, before the language of a job that is not in English.
LANGUAGE_SUFFIX = "+language="
# Fields that decide the clusters of words and labels; templates and phrases are part of the stimuli.
CLUSTER_FIELDS = ("code", "stemmer", "plurals", "lower_case")


@dataclass
class LanguageConfig:
    """Language of words and labels (docs/languages.md).

    Attributes:
        lexicon: name of the language in the files and columns of NRC-VAD.
        flores: code in FLORES-200, such as `spa_Latn`, for tokenizers that need one (NLLB's).
        stemmer: algorithm of Snowball; null: words are their own stems.
        plurals: singular -> plural of words of labels that share a lemma, with `*` for what both begin with.
        lower_case: letter -> its lower case, where it differs from Unicode's default.
        templates: sentences of template_set=paper, with `{}` for the word.
        review: `draft`, or `reviewed: NAME` of the speaker who reviewed the templates.
        labels: labels in this language, in place of those of `labels=race_gender`; null: none.
        words: how the English words of `words=vader` are written in an invented language; null: not at all.
        unclaimed: whether to run models that do not claim the language.
    """

    code: str = MISSING  # code of ISO 639-1, or of 639-3 if it has none
    name: str = MISSING  # English name
    lexicon: str = MISSING
    flores: str = ""
    stemmer: str | None = None
    plurals: dict[str, str] = field(default_factory=dict)
    lower_case: dict[str, str] = field(default_factory=dict)
    templates: list[str] = field(default_factory=list)
    review: str = "draft"
    labels: TranslatedLabelsConfig | None = None
    words: InventedWordsConfig | None = None
    unclaimed: bool = False


def split_language(protocol: str) -> tuple[str, str]:
    """Split the name of a job's protocol into that of the protocol and that of the language.

    >>> split_language("paper+k=60+language=es+stemmer=None"), split_language("paper")
    (('paper+k=60', 'es+stemmer=None'), ('paper', 'en'))
    """
    name, separator, language = protocol.rpartition(LANGUAGE_SUFFIX)
    return (name, language) if separator else (protocol, ENGLISH)
