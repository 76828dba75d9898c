"""Schema of conf/: a misspelt key or a value of the wrong type dies when the config is composed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

from omegaconf import MISSING, DictConfig, OmegaConf

from src.errors import InputError

CHECKOUT = Path(__file__).resolve().parent.parent


def number(least: float, most: float = math.inf, *, default: Any = MISSING) -> Any:
    """A field whose value `check` holds between two bounds, both included."""
    return field(default=default, metadata={"least": least, "most": most})


def check(node: object, name: str = "") -> None:
    """Hold every number of a config within its bounds.

    Args:
        node: a config, or a part of it.
        name: of the part on the command line.

    Raises:
        InputError: naming field, value and bounds.
    """
    if isinstance(node, dict):
        for key, value in node.items():
            check(value, f"{name}.{key}")
    if not is_dataclass(node):
        return
    for entry in fields(node):
        value = getattr(node, entry.name)
        full = f"{name}.{entry.name}" if name else entry.name
        check(value, full)
        if "least" in entry.metadata and value is not None:
            least, most = entry.metadata["least"], entry.metadata["most"]
            if not least <= value <= most:
                allowed = f"at least {least}" if most == math.inf else f"from {least} to {most}"
                raise InputError(f"{full}={value}: must be {allowed}.")


@dataclass
class DatasetConfig:
    """Where real data lies; the four roles are groups of their own."""

    root: str | None = None


@dataclass
class DemoConfig:
    """Captions that toys are trained on: what is planted in the built-in world."""

    bias: float = number(0, 1)  # 0 (none) to 1: weight of the group's planted valence
    noise: float = number(0)  # SD of a word's valence rank about what the picture calls for
    planted: dict[str, float] = MISSING  # group -> planted valence


@dataclass
class RoleConfig:
    """One of the four roles of stimuli; the subclass names the loader (src/stimuli)."""


@dataclass
class PeopleConfig:
    """How a fictional people looks."""

    hue: float = number(0, 1)
    crest: str = MISSING


@dataclass
class AvatarsConfig(RoleConfig):
    """Drawn faces of fictional peoples."""

    per_group: int = number(1)
    size: int = number(8, 4096)
    seed: int = number(0, default=0)
    peoples: dict[str, PeopleConfig] = MISSING
    genders: dict[str, float] = MISSING
    hue_sd: float = number(0)
    hair_sd: float = number(0)


@dataclass
class FairFaceConfig(RoleConfig):
    """FairFace: a csv of labels beside folders of pictures."""

    root: str = MISSING
    csv: str = MISSING
    races: dict[str, list[str]] = MISSING
    genders: dict[str, list[str]] = MISSING
    ages: list[str] | None = None
    per_group: int | None = number(1)
    seed: int = number(0, default=0)


@dataclass
class AbstractConfig(RoleConfig):
    """Drawn abstract scenes."""

    count: int = number(1)
    size: int = number(8, 4096)
    noise: float = number(0)
    seed: int = number(0, default=0)


@dataclass
class OasisConfig(RoleConfig):
    """OASIS: a csv of ratings beside a folder of pictures."""

    root: str = MISSING
    csv: str = MISSING
    pictures: str = MISSING


@dataclass
class VaderConfig(RoleConfig):
    """Alphabetic words of the VADER lexicon."""

    count: int | None = number(1)
    seed: int = number(0, default=0)


@dataclass
class NrcVadConfig(RoleConfig):
    """NRC-VAD lexicon."""

    path: str = MISSING


@dataclass
class LabelsConfig(RoleConfig):
    """Race words x gender words."""

    race_words: dict[str, list[str]] = MISSING
    gender_words: dict[str, list[str]] = MISSING


@dataclass
class ModelConfig:
    """What every model has; `name` defaults to the YAML's."""

    name: str | None = None
    batch_size: int = number(1, default=256)


@dataclass
class ToyConfig(ModelConfig):
    """A small CLIP, trained on the captions of the dataset that it is run on."""

    image_size: int = number(8)
    patch_size: int = number(1)
    width: int = number(1)
    layers: int = number(1)
    heads: int = number(1)
    embed_dim: int = number(1)
    context_length: int = number(8)
    steps: int = number(0)  # 0: untrained
    pairs: int = number(2)
    learning_rate: float = number(0, 1)
    seed: int = number(0, default=0)


@dataclass
class PrecomputedConfig(ModelConfig):
    """Vectors that somebody else computed; `name` defaults to the folder's."""

    path: str = MISSING


@dataclass
class ExpConfig:
    """A pair of roles of opposite modality."""

    paper: str = MISSING
    targets: str = MISSING
    corpus: str = MISSING


@dataclass
class ProtocolConfig:
    """Every choice that the paper leaves open."""

    k: int = number(1)
    extremes: int = number(1)
    attributes: int = number(1)
    ddof: int = number(0, 1)


@dataclass
class DebiasConfig:
    """What is projected away before an experiment."""

    name: str = MISSING


@dataclass
class TrainerConfig:
    """Where Lightning computes."""

    accelerator: str = MISSING
    workers: int = number(0)


@dataclass
class TrackingConfig:
    """Where MLflow keeps runs."""

    uri: str = MISSING


@dataclass
class StoreConfig:
    """Where content-addressed entries lie."""

    dir: str = MISSING
    checkpoints: str = MISSING
    stimuli: str = MISSING


@dataclass
class RunConfig:
    """One job: one model x one dataset x one experiment."""

    seed: int = number(0, default=0)
    resume: bool = True
    plan: bool = False
    templates: list[str] = field(default_factory=list)
    dataset: DatasetConfig = MISSING
    demo: DemoConfig = MISSING
    faces: RoleConfig = MISSING
    scenes: RoleConfig = MISSING
    words: RoleConfig = MISSING
    labels: RoleConfig = MISSING
    model: ModelConfig = MISSING
    exp: ExpConfig = MISSING
    protocol: ProtocolConfig = MISSING
    debias: DebiasConfig = MISSING
    trainer: TrainerConfig = MISSING
    tracking: TrackingConfig = MISSING
    store: StoreConfig = MISSING


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
    "phrases": LabelsConfig,
    "toy": ToyConfig,
    "precomputed": PrecomputedConfig,
    "exp": ExpConfig,
    "protocol": ProtocolConfig,
    "debias": DebiasConfig,
    "trainer": TrainerConfig,
    "tracking": TrackingConfig,
}


def compose(overrides: list[str]) -> tuple[DictConfig, dict[str, str]]:
    """What `python -m src.run` would be given for these overrides.

    Returns:
        The config, and which YAML was chosen of each group.

    Raises:
        InputError: Hydra cannot compose it.
    """
    import hydra
    from hydra.errors import HydraException

    register()
    try:
        with hydra.initialize_config_dir(str(CHECKOUT / "conf"), version_base="1.3"):
            composed = hydra.compose("run", overrides, return_hydra_config=True)
    except HydraException as error:
        raise InputError(str(error)) from None
    choices = {str(group): str(choice) for group, choice in composed.hydra.runtime.choices.items()}
    content = composed._content
    assert isinstance(content, dict)
    del content["hydra"]
    return composed, choices


def register() -> None:
    """Make the schemas and the resolver `${checkout:}` known to Hydra."""
    from hydra.core.config_store import ConfigStore

    OmegaConf.register_new_resolver("checkout", lambda: str(CHECKOUT), replace=True)
    store = ConfigStore.instance()
    store.store(name="schema", node=RunConfig)
    for name, node in SCHEMAS.items():
        store.store(group="schema", name=name, node=node)
