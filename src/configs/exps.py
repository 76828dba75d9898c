"""Define the schema of the experiments and of their protocol."""

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from src.configs.fields import bounded_number, one_of, registered_name
from src.configs.languages import ENGLISH

# Intrinsic measures: name -> `module:attribute`.
INTRINSIC = {
    "sc_eat": "src.studies.propagation.sc_eat:SC_EAT",
    "difference": "src.studies.propagation.cosine_difference:DIFFERENCE",
}
# Extrinsic outcomes: name -> `module:attribute`.
EXTRINSIC = {
    "top_k": "src.studies.propagation.top_k:TOP_K",
    "zero_shot": "src.studies.propagation.nearest_class:NEAREST_CLASS",
    "harm": "src.studies.propagation.harm:HARM",
}
# Jobs with these measures have the same key, columns and names as before measures became configurable.
DEFAULT_MEASURES = {"intrinsic": "sc_eat", "extrinsic": "top_k"}


@dataclass
class ExpConfig:
    """Fields of every experiment."""

    paper: str = MISSING  # name of the experiment in its paper
    study: str = MISSING  # name of its study
    language: str = ENGLISH  # language of its own texts, if it has any

    @property
    def text_language(self) -> str:
        """Return the language of its own texts."""
        return self.language


@dataclass
class OtherStudyConfig(ExpConfig):
    """Experiment of a study defined elsewhere: `study` is its `module:attribute`."""

    options: dict[str, Any] = field(default_factory=dict)  # fields of the study's config class


@dataclass
class TaxonomyConfig:
    """Words to probe an encoder with, by category (docs/methods.md, section 4).

    Attributes:
        path: YAML or JSON that replaces `categories`: category -> words, or category -> type -> words.
    """

    name: str | None = None  # name for display; null: name of the file, or of the YAML
    captions: dict[str, str] = MISSING  # type of word -> caption with placeholders `{article}` and `{word}`
    categories: dict[str, dict[str, list[str]]] = field(default_factory=dict)  # category -> type -> words
    path: str | None = None
    types: str | None = None  # YAML, JSON or csv for words without a type in `path`: word -> type
    untyped: str | None = None  # type of words without a type in any file; null: such words are refused
    language: str = ENGLISH  # language of its words and captions, and of the baseline's frequent words
    vocabulary: str | None = None  # file of frequent words, most frequent first; null: wordfreq's list


@dataclass
class ClassesConfig:
    """Classes that faces are classified into (docs/methods.md, section 7).

    Attributes:
        name: name for display; null: name of the YAML.
        language: language of the classes and templates.
        templates: sentences of each class, with `{word}` and, optionally, `{article}`.
        nouns: last word of a group's name -> noun of the group's class; the words before it are an adjective.
            If the last word is not listed, the whole name is an adjective of "person".
        groups: group -> its classes, in place of the class made from its name; for all groups or for none.
        kinds: kind -> its classes, which belong to no group.
        harmful: kinds that count as harm.
    """

    name: str | None = None
    language: str = ENGLISH
    templates: list[str] = field(default_factory=list)
    nouns: dict[str, str] = field(default_factory=dict)
    groups: dict[str, list[str]] = field(default_factory=dict)
    kinds: dict[str, list[str]] = field(default_factory=dict)
    harmful: list[str] = field(default_factory=list)


@dataclass
class ProtocolConfig:
    """Choices that papers leave open, and numbers of draws; see conf/protocol/paper.yaml for each field."""

    k: int = bounded_number(1)
    extremes: int = bounded_number(1)
    set_size: int = bounded_number(1)
    ddof: int = bounded_number(0, 1)
    unit: str = one_of("item", "sentence", "template")
    targets: str = one_of("extremes", "all")
    strata: str = one_of("own", "all")
    attributes: str = one_of("corpus", "held_out")
    pooling: str = one_of("max", "mean")
    intrinsic: str = registered_name(INTRINSIC, default=DEFAULT_MEASURES["intrinsic"])
    extrinsic: str = registered_name(EXTRINSIC, default=DEFAULT_MEASURES["extrinsic"])
    placebo: int = bounded_number(0)
    bootstrap: int = bounded_number(0)
    attribute_draws: int = bounded_number(0)
    property_draws: int = bounded_number(0)
    faces_per_group: int = bounded_number(2)
    partitions: int = bounded_number(0)
    ties: str = one_of("half", "strict")
    iat: str = one_of("total", "by_pair")
    top_k: int = bounded_number(1)
    permutations: int = bounded_number(0)
    vocabulary: int = bounded_number(0)
    baseline: str = one_of("noun", "bare")
    article: str = one_of("right", "literal")
