"""Define the schema of jobs: the complete config of a command."""

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from src.configs.exps import ClassesConfig, ExpConfig, ProtocolConfig, TaxonomyConfig
from src.configs.fields import bounded_number, one_of
from src.configs.generative import LlmConfig, TaskConfig
from src.configs.languages import LanguageConfig
from src.configs.models import ModelConfig
from src.configs.perturbations import PerturbConfig
from src.configs.roles import RoleConfig


@dataclass
class DatasetConfig:
    """Location of published datasets; the config groups of the four roles choose among them."""

    root: str | None = None  # folder with a subfolder per published dataset; null: they are not used


@dataclass
class DemoConfig:
    """Training captions of toys, with the associations planted in the built-in world.

    Attributes:
        planted: group, place or age -> shift of the valence rank.
        traits: trait (two of them) -> words that describe appearance.
        looks: group -> shift of the probability that a caption has a word of the first trait.
        probes: place, ethnicity, gender or group -> captions that describe it.
        languages: code -> language of captions, equally many in each; empty: English.
        translated_bias: factor of the bias in captions in other languages than English.
    """

    bias: float = bounded_number(0, 1)  # weight of all planted associations, from 0 (none) to 1
    # Above 0, as weights of texts divide by it.
    noise: float = bounded_number(0.001)  # SD of a word's valence rank around the picture's valence rank
    planted: dict[str, float] = MISSING
    traits: dict[str, list[str]] = field(default_factory=dict)
    looks: dict[str, float] = field(default_factory=dict)
    probes: dict[str, list[str]] = field(default_factory=dict)
    languages: dict[str, LanguageConfig] = field(default_factory=dict)
    translated_bias: float = bounded_number(0, 1, default=1.0)


@dataclass
class DebiasConfig:
    """Projection of vectors before an experiment (docs/methods.md, section 3, "Debiasing").

    Attributes:
        nouns: last word of a group's name -> nouns for its members; the words before it are an adjective. If
            the last word of a name is not listed, the whole name is an adjective of "person".
        classes: sentences whose vectors should not depend on the group, with `{}` for the group; empty: no
            calibration.
    """

    name: str = MISSING  # name for display
    spurious: str = ""  # prompt whose directions are removed, with `{}` for the group; empty: no projection
    nouns: dict[str, list[str]] = field(default_factory=dict)
    classes: list[str] = field(default_factory=list)
    strength: float = bounded_number(0, default=0.0)  # strength of the calibration, lambda
    side: str = one_of("texts", "images", "both", default="texts")  # vectors to project


@dataclass
class TrainerConfig:
    """Device and processes of Lightning."""

    accelerator: str = MISSING  # cpu, gpu, or auto: a GPU if there is one
    workers: int = bounded_number(0)  # processes that load pictures; 0: the main process loads them
    devices: Any = 1  # number of GPUs, or auto: all of them


@dataclass
class TrackingConfig:
    """Tracking store of MLflow."""

    uri: str = MISSING  # sqlite:///FILE, or the address of an MLflow server


@dataclass
class PicturesConfig:
    """Folders of drawn and morphed pictures."""

    stimuli: str = MISSING  # folder of drawn stimuli
    morphs: str = MISSING  # folder of morphs


@dataclass
class StoreConfig(PicturesConfig):
    """Folders of content-addressed entries."""

    dir: str = MISSING  # folder of embeddings
    checkpoints: str = MISSING  # folder of trained toys
    pictures: str = MISSING  # folder of decoded and resized pictures
    verifications: str = "${checkout:}/data/verifications"  # folder of the outcomes of `src.encoders verify`


@dataclass
class JobConfig:
    """Settings of every job."""

    seed: int = bounded_number(0, default=0)  # random seed of the analysis
    resume: bool = True  # whether to reuse the results of finished jobs
    plan: bool = False  # whether to print what would be done, and do nothing
    report: bool = True  # whether to write a report after a sweep
    trainer: TrainerConfig = MISSING
    tracking: TrackingConfig = MISSING


@dataclass
class RunConfig(JobConfig):
    """One job: one model x one dataset x one experiment."""

    language: LanguageConfig = MISSING
    templates: list[str] = field(default_factory=list)  # sentences with {} for the word
    dataset: DatasetConfig = MISSING
    demo: DemoConfig = MISSING
    faces: RoleConfig = MISSING
    scenes: RoleConfig = MISSING
    words: RoleConfig = MISSING
    labels: RoleConfig = MISSING
    taxonomy: TaxonomyConfig = MISSING
    classes: ClassesConfig = MISSING
    model: ModelConfig = MISSING
    exp: ExpConfig = MISSING
    protocol: ProtocolConfig = MISSING
    debias: DebiasConfig = MISSING
    perturb: PerturbConfig = MISSING
    store: StoreConfig = MISSING


@dataclass
class AnswersConfig(PicturesConfig):
    """Folders of a job of a generative model."""

    answers: str = MISSING  # folder of the logs of answers


@dataclass
class GenerateConfig(JobConfig):
    """One job: one generative model x one task.

    Attributes:
        answer: how a model answers: by the likelihood of each option, in total or per token, or by generated
            text; no effect on recorded answers.
        dataset, demo, faces, scenes, words, labels, templates, taxonomy: as in `RunConfig`, for a task with
            pictures; null for other tasks. Only `faces` affects numbers.
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
