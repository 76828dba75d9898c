"""Schema of the experiments."""

from __future__ import annotations

from dataclasses import dataclass, field

from omegaconf import MISSING

from src.configs.fields import number, one_of


@dataclass
class ExpConfig:
    """What every experiment has."""

    paper: str = MISSING


@dataclass
class PropagationConfig(ExpConfig):
    """A pair of roles of opposite modality: bias of the representation and of what is retrieved."""

    targets: str = MISSING
    corpus: str = MISSING


@dataclass
class AuditConfig(ExpConfig):
    """Which groups' faces an encoder finds nearer to prompts (docs/methods.md, section 3).

    Attributes:
        attribute: its name in the results.
        template: of the prompts, `{}` in place of the word.
        sets: name -> words; of several sets the mean is taken, and named by `attribute`.
        pairs: of a positive and a negative word, for the IAT.
        measure: what the null is of.
        groups: whose faces; null: all of them.
    """

    attribute: str = MISSING
    template: str = MISSING
    sets: dict[str, list[str]] = MISSING
    pairs: list[list[str]] = field(default_factory=list)
    measure: str = one_of("cles", "iat", default="cles")
    groups: list[str] | None = None


@dataclass
class SobitConfig(ExpConfig):
    """Whose faces an encoder finds for the loaded words of a taxonomy (docs/methods.md, section 4).

    Attributes:
        measure: association (C), retrieval (composition of the top k) or strength (against frequent words).
        axes: of the faces' columns: race, gender, or both together.
    """

    measure: str = one_of("association", "retrieval", "strength")
    axes: list[str] = field(default_factory=lambda: ["race", "gender", "both"])


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
class ZeroShotConfig(ExpConfig):
    """How often the word that is nearest to a scene is one of its own: what a projection costs.

    Attributes:
        tolerance: a word is a scene's own if their valences' ranks (0 to 1) differ by no more.
    """

    targets: str = MISSING
    corpus: str = MISSING
    tolerance: float = number(0, 1)
