"""Schema of the four roles of stimuli."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from src.configs.fields import number, one_of


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
    places: dict[str, float] = MISSING


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
    duplicates: str = one_of("stop", "drop", default="stop")


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
    lowest: float = MISSING  # of the scale of ratings
    highest: float = MISSING
    duplicates: str = one_of("stop", "drop", default="stop")


@dataclass
class VaderConfig(RoleConfig):
    """Alphabetic words of the VADER lexicon."""

    count: int | None = number(1)
    seed: int = number(0, default=0)


@dataclass
class NrcVadConfig(RoleConfig):
    """NRC-VAD lexicon."""

    path: str = MISSING
    word: str | None = None  # column of the words; null: the only one that holds texts
    lowest: float = MISSING  # of the scale of ratings: 0 in version 1, -1 in version 2
    highest: float = MISSING


@dataclass
class LabelsConfig(RoleConfig):
    """Race words x gender words."""

    race_words: dict[str, list[str]] = MISSING
    gender_words: dict[str, list[str]] = MISSING


@dataclass
class CfdConfig(RoleConfig):
    """Chicago Face Database: race, gender and expression stand in the file names."""

    root: str = MISSING
    pictures: list[str] = MISSING
    norming: str | None = None
    races: dict[str, list[str]] = MISSING
    genders: dict[str, list[str]] = MISSING
    expressions: list[str] = MISSING
    per_group: int | None = number(1)
    seed: int = number(0, default=0)
    duplicates: str = one_of("stop", "drop", default="stop")


@dataclass
class UtkFaceConfig(RoleConfig):
    """UTKFace: age, gender and race stand in the file names."""

    root: str = MISSING
    races: dict[str, list[str]] = MISSING
    genders: dict[str, list[str]] = MISSING
    ages: list[int] | None = None  # youngest and oldest, both included
    per_group: int | None = number(1)
    seed: int = number(0, default=0)
    duplicates: str = one_of("stop", "drop", default="stop")


@dataclass
class FolderConfig(RoleConfig):
    """Any folder of pictures beside a csv that says whose they are."""

    root: str = MISSING
    csv: str = MISSING
    file: str = MISSING
    group: list[str] = MISSING  # columns whose values, joined by a blank, name the group
    per_group: int | None = number(1)
    seed: int = number(0, default=0)
    duplicates: str = one_of("stop", "drop", default="stop")


@dataclass
class MorphsConfig(RoleConfig):
    """Morphs of pairs of faces within a group."""

    parents: RoleConfig = MISSING
    method: str = one_of("flow", "landmark", "stylegan2")
    per_group: int = number(1)
    size: int = number(16, 4096)
    seed: int = number(0, default=0)
    workers: int = number(0, default=0)  # 0: one per core
    landmarks: str | None = None  # folder of landmark files, or a csv
    generator: str | None = None  # TorchScript file of a generator
    perceptual: str | None = None  # TorchScript file of a perceptual network; null: a pyramid of pixels
    steps: int = number(1, default=125)


@dataclass
class WarrinerConfig(RoleConfig):
    """Ratings of Warriner, Kuperman & Brysbaert 2013, or another csv of rated words."""

    path: str = MISSING
    word: str = MISSING  # column of the words
    valence: str = MISSING  # column of the ratings
    lowest: float = MISSING  # of the scale of ratings
    highest: float = MISSING


@dataclass
class OtherLayoutConfig(RoleConfig):
    """Files in a layout whose loader is defined elsewhere.

    Attributes:
        loader: `module:attribute` of it.
        options: its arguments.
    """

    loader: str = MISSING
    options: dict[str, Any] = field(default_factory=dict)
