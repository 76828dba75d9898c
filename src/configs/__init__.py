"""Schema of conf/: a misspelt key or a value of the wrong type dies when the config is composed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING, DictConfig, OmegaConf

from src.configs import launchers, registry, studies
from src.configs.broken_yaml import ERRORS, broken_yaml
from src.configs.datasets import check_dataset
from src.configs.exps import ExpConfig, OtherStudyConfig, TaxonomyConfig
from src.configs.fields import check, named, number, one_of
from src.configs.generative import (
    CausalConfig,
    HfConfig,
    LlmConfig,
    MultimodalConfig,
    PlantedConfig,
    RecordedConfig,
    ServerConfig,
    TaskConfig,
    TinyConfig,
    TinyVlmConfig,
    VlmHfConfig,
    WeightsConfig,
)
from src.configs.models import (
    FAMILIES,
    Blip2Config,
    EncoderConfig,
    ModelConfig,
    OpenClipConfig,
    OtherEncoderConfig,
    PrecomputedConfig,
    PretrainedConfig,
    ToyConfig,
)
from src.configs.places import CHECKOUT, CODE, CONF
from src.configs.roles import (
    AbstractConfig,
    AvatarsConfig,
    CfdConfig,
    FairFaceConfig,
    FolderConfig,
    LabelsConfig,
    MorphsConfig,
    NrcVadConfig,
    OasisConfig,
    OtherLayoutConfig,
    PeopleConfig,
    RoleConfig,
    UtkFaceConfig,
    VaderConfig,
    WarrinerConfig,
)
from src.configs.scores import EXTRINSIC, FIRST, INTRINSIC
from src.errors import InputError

__all__ = [
    "CHECKOUT",
    "CODE",
    "CONF",
    "FAMILIES",
    "FIRST",
    "AbstractConfig",
    "AvatarsConfig",
    "Blip2Config",
    "CausalConfig",
    "CfdConfig",
    "DatasetConfig",
    "DebiasConfig",
    "DemoConfig",
    "EncoderConfig",
    "ExpConfig",
    "FairFaceConfig",
    "FolderConfig",
    "GenerateConfig",
    "HfConfig",
    "JobConfig",
    "LabelsConfig",
    "LlmConfig",
    "ModelConfig",
    "MorphsConfig",
    "MultimodalConfig",
    "NrcVadConfig",
    "OasisConfig",
    "OpenClipConfig",
    "OtherEncoderConfig",
    "OtherLayoutConfig",
    "OtherStudyConfig",
    "PeopleConfig",
    "PicturesConfig",
    "PlantedConfig",
    "PrecomputedConfig",
    "PretrainedConfig",
    "ProtocolConfig",
    "RecordedConfig",
    "RoleConfig",
    "RunConfig",
    "ServerConfig",
    "StoreConfig",
    "TaskConfig",
    "TaxonomyConfig",
    "TinyConfig",
    "TinyVlmConfig",
    "ToyConfig",
    "TrackingConfig",
    "TrainerConfig",
    "UtkFaceConfig",
    "VaderConfig",
    "VlmHfConfig",
    "WarrinerConfig",
    "WeightsConfig",
    "check",
    "check_dataset",
    "compose",
    "names",
    "register",
    "registry",
    "studies",
]


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


# The schemas stand in a group of their own: in the groups that they describe they would be
# found by a glob.
SCHEMAS: dict[str, type] = {
    "dataset": DatasetConfig,
    "demo": DemoConfig,
    "avatars": AvatarsConfig,
    "fairface": FairFaceConfig,
    "abstract": AbstractConfig,
    "oasis": OasisConfig,
    "vader": VaderConfig,
    "nrc_vad": NrcVadConfig,
    "warriner": WarrinerConfig,
    "cfd": CfdConfig,
    "utkface": UtkFaceConfig,
    "folder": FolderConfig,
    "morphs": MorphsConfig,
    "phrases": LabelsConfig,
    "layout": OtherLayoutConfig,
    **{name: config for name, (config, _) in FAMILIES.items()},
    "encoder": OtherEncoderConfig,
    "study": OtherStudyConfig,
    "taxonomy": TaxonomyConfig,
    "protocol": ProtocolConfig,
    "debias": DebiasConfig,
    "trainer": TrainerConfig,
    "tracking": TrackingConfig,
    "recorded": RecordedConfig,
    "hf": HfConfig,
    "openai_compatible": ServerConfig,
    "planted": PlantedConfig,
    "tiny": TinyConfig,
    "vlm_hf": VlmHfConfig,
    "tiny_vlm": TinyVlmConfig,
}


def compose(overrides: list[str], entry: str = "run") -> tuple[DictConfig, dict[str, str]]:
    """Compose the config of `python -m src.run` for overrides.

    Args:
        overrides: as they are typed.
        entry: another one: `generate`.

    Returns:
        The config, and which YAML was chosen of each group.

    Raises:
        InputError: Hydra cannot compose it.
    """
    import hydra
    from hydra.errors import HydraException

    register()
    try:
        with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
            composed = hydra.compose(entry, overrides, return_hydra_config=True)
    except HydraException as error:
        raise InputError(str(error)) from None
    except ERRORS as error:
        if message := broken_yaml(error, [CONF]):
            raise InputError(message) from None
        raise
    check_dataset(composed.hydra)
    choices = {str(group): str(choice) for group, choice in composed.hydra.runtime.choices.items()}
    content = composed._content
    assert isinstance(content, dict)
    del content["hydra"]
    return composed, choices


def register() -> None:
    """Make the schemas, the launchers' settings and the resolver `${checkout:}` known to Hydra."""
    from hydra.core.config_store import ConfigStore

    from src.configs import schema_source

    OmegaConf.register_new_resolver("checkout", lambda: str(CHECKOUT), replace=True)
    store = ConfigStore.instance()
    store.store(name="schema", node=RunConfig)
    store.store(name="generate_schema", node=GenerateConfig)
    schema_source.register(SCHEMAS | studies.config_classes())
    for name, node in launchers.LAUNCHERS.items():
        store.store(group="hydra/launcher", name=name, node=node)
