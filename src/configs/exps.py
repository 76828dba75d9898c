"""Schema of the experiments and of their protocol."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from src.configs.fields import named, number, one_of
from src.configs.scores import EXTRINSIC, FIRST, INTRINSIC


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


@dataclass
class ProtocolConfig:
    """Every choice that the paper leaves open, and how much is drawn to say what a rho is worth."""

    k: int = number(1)
    extremes: int = number(1)
    set_size: int = number(1)
    ddof: int = number(0, 1)
    unit: str = one_of("item", "sentence", "template")
    targets: str = one_of("extremes", "all")
    strata: str = one_of("own", "all")
    attributes: str = one_of("corpus", "held_out")
    pooling: str = one_of("max", "mean")
    intrinsic: str = named(INTRINSIC, default=FIRST["intrinsic"])
    extrinsic: str = named(EXTRINSIC, default=FIRST["extrinsic"])
    placebo: int = number(0)
    bootstrap: int = number(0)
    attribute_draws: int = number(0)
    property_draws: int = number(0)
    faces_per_group: int = number(2)
    partitions: int = number(0)
    ties: str = one_of("half", "strict")
    iat: str = one_of("total", "by_pair")
    top_k: int = number(1)
    permutations: int = number(0)
    vocabulary: int = number(0)
    baseline: str = one_of("noun", "bare")
    article: str = one_of("right", "literal")
