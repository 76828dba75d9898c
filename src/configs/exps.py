"""Schema of the experiments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING


@dataclass
class ExpConfig:
    """Fields of every experiment.

    Attributes:
        paper: name of the experiment in its paper.
        study: name of the study that it belongs to.
    """

    paper: str = MISSING
    study: str = MISSING


@dataclass
class OtherStudyConfig(ExpConfig):
    """Experiment of a study that is defined elsewhere.

    Attributes:
        study: `module:attribute` of it.
        options: fields of the study's own config class.
    """

    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class TaxonomyConfig:
    """Words that an encoder is asked about, by category (docs/methods.md, section 4).

    Attributes:
        name: of the list; null: the file's, or the YAML's.
        captions: type of word -> caption, `{article}` and `{word}` in their places; the types are its keys.
        categories: category -> type -> words.
        path: another list instead of `categories`: a YAML or JSON file, category -> type -> words, or
            category -> words.
        types: second file, word -> type, for a list of category -> words: a YAML, a JSON, or a csv.
        untyped: type of the words for which no file names one.
        language: of the frequent words of the baseline.
        vocabulary: file of these, one a line, the most frequent first; null: wordfreq's.
    """

    name: str | None = None
    captions: dict[str, str] = MISSING
    categories: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    path: str | None = None
    types: str | None = None
    untyped: str | None = None
    language: str = "en"
    vocabulary: str | None = None
