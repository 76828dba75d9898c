"""Define the schema of experiments on matched pictures."""

from dataclasses import dataclass, field

from src.configs.exps import ExpConfig
from src.configs.fields import one_of


@dataclass
class MatchedConfig(ExpConfig):
    """Settings of an experiment on sets of pictures (docs/methods.md, section 8).

    Attributes:
        measure: retrieval (captions retrieve pictures) or carry_over (pictures retrieve words).
        subject: column of the table of faces that names what the scene of a set shows.
        templates: captions of every subject, with `{word}` and, optionally, `{article}`.
        captions: subject -> its captions, in place of the templates.
        groups: names of the groups to compare; null for all.
        incomplete: what to do with sets that lack a group: drop or use.
        sides: two lists of groups that Bias@K compares; empty: the groups themselves, if there are only two.
        shares: csv of real shares; its columns are real_share, group and the value of `subject`, such as
            occupation; null for none.
    """

    study: str = "matched"
    measure: str = one_of("retrieval", "carry_over", default="retrieval")
    subject: str = "occupation"
    templates: list[str] = field(default_factory=lambda: ["a photo of {article} {word}"])
    captions: dict[str, list[str]] = field(default_factory=dict)
    groups: list[str] | None = None
    incomplete: str = one_of("drop", "use", default="drop")
    sides: list[list[str]] = field(default_factory=list)
    shares: str | None = None


CONFIGS = {"matched": MatchedConfig}
