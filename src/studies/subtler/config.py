"""Define the schema of the tasks on subtler biases."""

from dataclasses import dataclass

from omegaconf import MISSING

from src.configs.fields import bounded_number, one_of
from src.configs.generative import TaskConfig


@dataclass
class SubtlerConfig(TaskConfig):
    """Settings of the choice of one of three options to complete a sentence (docs/methods.md, section 5).

    Attributes:
        path: csv of items with the published columns, in place of `language`, `domains` and `count`, which
            are then not used; null: items are composed from the domains.
        language: folder of conf/domain with the domains.
        domains: names of YAMLs in this folder, or paths of other ones.
        count: number of items composed from each domain, rounded down to a multiple of 12.
        stereotype: what the column `stereotype` of the file `path` has: the option that a stereotype suggests
            (`by_polarity`, as in composed items), or always the positive option (`positive`; results are then
            given both as published and corrected).
        question: text with the fields `{context}`, `{first}`, `{second}` and `{third}`.
        bootstrap: has no effect, as intervals come from a jackknife; accepted because `task=poem` has this
            field. It is in the hashes of finished jobs: another value computes them again.
        max_unmatched: maximum share of a stratum's answers that match no option; above it, a reason with
            examples is given instead of τ, p and del (differences of choice rates between
            positive and negative items).
    """

    study: str = "subtler"
    path: str | None = None
    language: str = MISSING
    domains: list[str] = MISSING
    count: int = bounded_number(12)
    stereotype: str = one_of("by_polarity", "positive")
    question: str = MISSING
    bootstrap: int = bounded_number(0, default=2000)
    max_unmatched: float = bounded_number(0, 1, default=0.25)


CONFIGS = {"subtler": SubtlerConfig}
