"""Define the schema of embedding association tests."""

from dataclasses import dataclass, field

from src.configs.exps import ExpConfig
from src.configs.fields import one_of

# Modality of the targets, then that of the attributes.
ORDERS = ("image_image", "image_text", "text_image", "text_text")


@dataclass
class SetConfig:
    """Items of a set: images, texts or both, with at most one source of each.

    Attributes:
        faces: groups of the dataset's faces.
        scenes: the scenes of highest or lowest valence, `protocol.extremes` of them.
        labels: groups of the dataset's labels.
        words: the words of highest or lowest valence, `protocol.extremes` of them.
        texts: texts, each of them inserted into `exp.templates`.
    """

    faces: list[str] = field(default_factory=list)
    scenes: str = one_of("", "highest", "lowest", default="")
    labels: list[str] = field(default_factory=list)
    words: str = one_of("", "highest", "lowest", default="")
    texts: list[str] = field(default_factory=list)


@dataclass
class EatConfig(ExpConfig):
    """Settings of embedding association tests (docs/methods.md, section 1).

    Attributes:
        sets: name -> items.
        tests: name -> names of the sets X, Y (targets), A and B (attributes).
        attributes: names of the sets A and B of a test of every pair of groups; empty for no such tests.
        groups: names of the groups to pair; null for all.
        file: file of tests in place of `sets`, `tests` and `attributes` (docs/association_tests.md).
        languages: languages of the file's tests, where it states them; null for all.
        templates: sentences for `texts` and for a file's texts, with `{}` in place of the text.
        orders: modalities of targets and attributes to test, where the sets have both.
    """

    study: str = "eat"
    sets: dict[str, SetConfig] = field(default_factory=dict)
    tests: dict[str, list[str]] = field(default_factory=dict)
    attributes: list[str] = field(default_factory=list)
    groups: list[str] | None = None
    file: str | None = None
    languages: list[str] | None = None
    templates: list[str] = field(default_factory=lambda: ["{}"])
    orders: list[str] = field(default_factory=lambda: [*ORDERS])

    @property
    def text_language(self) -> str:
        """Return the language of the texts: the only one of `languages`, or `language`."""
        return self.languages[0] if self.languages and len(self.languages) == 1 else self.language


CONFIGS = {"eat": EatConfig}
