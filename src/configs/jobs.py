"""Schema of jobs: everything that a command composes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from src.configs.exps import ExpConfig, ProtocolConfig, TaxonomyConfig
from src.configs.fields import number, one_of
from src.configs.generative import LlmConfig, TaskConfig
from src.configs.models import ModelConfig
from src.configs.roles import RoleConfig


@dataclass
class DatasetConfig:
    """Folder of a dataset's real data; the four roles are groups of their own."""

    root: str | None = None


@dataclass
class DemoConfig:
    """Captions that toys are trained on: what is planted in the built-in world."""

    bias: float = number(0, 1)  # 0 (none) to 1: weight of the group's planted valence
    noise: float = number(0)  # SD of a word's valence rank about what the picture calls for
    planted: dict[str, float] = MISSING  # group -> planted valence
    traits: dict[str, list[str]] = field(default_factory=dict)  # two of them -> words for a face's look
    looks: dict[str, float] = field(default_factory=dict)  # group -> more of the first trait than half
    # Group, people, gender or place -> captions that are said of these faces more often than of others.
    probes: dict[str, list[str]] = field(default_factory=dict)


@dataclass
class DebiasConfig:
    """Projection of vectors before an experiment (docs/methods.md, section 3, "Debiasing").

    Attributes:
        name: for display.
        spurious: template of the prompts whose directions are removed, `{}` in place of a name of a group;
            empty: nothing is projected.
        nouns: last word of a group's name -> what its members are called; the rest of the name is an
            adjective, of a person where the last word is none of these.
        classes: phrases that should mean the same whatever the group, `{}` in its place; none: no
            calibration.
        strength: of the calibration, lambda.
        side: what is projected.
    """

    name: str = MISSING
    spurious: str = ""
    nouns: dict[str, list[str]] = field(default_factory=dict)
    classes: list[str] = field(default_factory=list)
    strength: float = number(0, default=0.0)
    side: str = one_of("texts", "images", "both", default="texts")


@dataclass
class TrainerConfig:
    """Device and processes of Lightning."""

    accelerator: str = MISSING
    workers: int = number(0)
    devices: Any = 1  # how many, or auto: all GPUs


@dataclass
class TrackingConfig:
    """Tracking store of MLflow."""

    uri: str = MISSING


@dataclass
class PicturesConfig:
    """Folders of drawn and morphed pictures."""

    stimuli: str = MISSING
    morphs: str = MISSING


@dataclass
class StoreConfig(PicturesConfig):
    """Folders of content-addressed entries."""

    dir: str = MISSING
    checkpoints: str = MISSING
    pictures: str = MISSING


@dataclass
class JobConfig:
    """Settings of every job."""

    seed: int = number(0, default=0)
    resume: bool = True
    plan: bool = False
    report: bool = True
    trainer: TrainerConfig = MISSING
    tracking: TrackingConfig = MISSING


@dataclass
class RunConfig(JobConfig):
    """One job: one model x one dataset x one experiment."""

    templates: list[str] = field(default_factory=list)
    dataset: DatasetConfig = MISSING
    demo: DemoConfig = MISSING
    faces: RoleConfig = MISSING
    scenes: RoleConfig = MISSING
    words: RoleConfig = MISSING
    labels: RoleConfig = MISSING
    taxonomy: TaxonomyConfig = MISSING
    model: ModelConfig = MISSING
    exp: ExpConfig = MISSING
    protocol: ProtocolConfig = MISSING
    debias: DebiasConfig = MISSING
    store: StoreConfig = MISSING


@dataclass
class AnswersConfig(PicturesConfig):
    """Folder of the log of answers, beside those of pictures."""

    answers: str = MISSING


@dataclass
class GenerateConfig(JobConfig):
    """One job: one generative model x one task.

    Attributes:
        answer: by the likelihood of each option (or of a token of it), or free; recorded answers are what
            they are.
        dataset, demo, faces, scenes, words, labels, templates, taxonomy: as `RunConfig` has them, of a task
            that shows pictures; of these `faces` alone decides numbers.
    """

    answer: str = one_of("likelihood", "likelihood_per_token", "generate")
    llm: LlmConfig = MISSING
    task: TaskConfig = MISSING
    store: AnswersConfig = MISSING
    templates: list[str] = field(default_factory=list)
    dataset: DatasetConfig | None = None
    demo: DemoConfig | None = None
    faces: RoleConfig | None = None
    scenes: RoleConfig | None = None
    words: RoleConfig | None = None
    labels: RoleConfig | None = None
    taxonomy: TaxonomyConfig | None = None
