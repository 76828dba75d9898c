"""Which function reads which kind of stimuli: a config's class names its loader."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from src import configs
from src.configs import PicturesConfig
from src.errors import InputError
from src.stimuli.pictures import remarks
from src.stimuli.table import Table, checked

if TYPE_CHECKING:
    import pandas as pd

# Stimuli, how many the source announces, and why the two differ.
Loaded = tuple["pd.DataFrame", int, list[str]]


def _avatars(cfg: configs.AvatarsConfig, store: PicturesConfig) -> Loaded:
    from src.demo import world

    frame = world.faces(
        Path(store.stimuli),
        per_group=cfg.per_group,
        size=cfg.size,
        seed=cfg.seed,
        peoples={name: vars(look) for name, look in cfg.peoples.items()},
        genders=cfg.genders,
        hue_sd=cfg.hue_sd,
        hair_sd=cfg.hair_sd,
        places=cfg.places,
    )
    return frame, len(frame), []


def _morphs(cfg: configs.MorphsConfig, store: PicturesConfig) -> Loaded:
    from src.stimuli import morphs

    faces = parents(cfg.parents, store)
    frame, expected, notes = morphs.load(
        faces.frame,
        Path(store.morphs),
        method=cfg.method,
        per_group=cfg.per_group,
        size=cfg.size,
        seed=cfg.seed,
        workers=cfg.workers,
        landmarks=cfg.landmarks,
        generator=cfg.generator,
        perceptual=cfg.perceptual,
        steps=cfg.steps,
    )
    return frame, expected, notes + [f"of the parents, {note}" for note in faces.notes]


def parents(chosen: configs.RoleConfig, store: PicturesConfig) -> Table:
    """The faces that morphs are made of.

    Raises:
        InputError: they cannot be read, or are morphs themselves.
    """
    if isinstance(chosen, configs.MorphsConfig):
        raise InputError("faces.parents: morphs are not morphed again. Choose other parents.")

    def nested(text: str) -> str:
        # Loaders speak of `faces.races`; a parent's setting lies one level lower.
        names = "|".join(vars(chosen))
        return re.sub(rf"(?<![\w./])faces\.(?=(?:{names})\b)", "faces.parents.", text)

    try:
        table = faces(chosen, store)
    except InputError as error:
        raise InputError(nested(str(error))) from None
    return replace(table, notes=tuple(nested(note) for note in table.notes))


def faces(chosen: configs.RoleConfig, store: PicturesConfig) -> Table:
    """Faces of a config, read or drawn.

    Raises:
        InputError: they cannot be read.
    """
    frame, expected, notes = load(chosen, store)
    return checked("faces", frame, LOADERS[type(chosen)][1], expected=expected, notes=notes)


def load(chosen: configs.RoleConfig, store: PicturesConfig) -> Loaded:
    """Stimuli of a config by its loader; its notes count the pictures that had to be converted, too.

    Raises:
        InputError: they cannot be read.
    """
    frame, expected, notes = LOADERS[type(chosen)][0](chosen, store)
    if "conversions" in frame:
        notes = [*notes, *remarks(frame.pop("conversions").tolist())]
    return frame, expected, notes


def _abstract(cfg: configs.AbstractConfig, store: PicturesConfig) -> Loaded:
    from src.demo import world

    frame = world.scenes(Path(store.stimuli), count=cfg.count, size=cfg.size, noise=cfg.noise, seed=cfg.seed)
    return frame, len(frame), []


def _fairface(cfg: configs.FairFaceConfig, _: PicturesConfig) -> Loaded:
    from src.stimuli import fairface

    return fairface.load(
        Path(cfg.root),
        cfg.csv,
        races=cfg.races,
        genders=cfg.genders,
        ages=cfg.ages,
        per_group=cfg.per_group,
        seed=cfg.seed,
        duplicates=cfg.duplicates,
    )


def _cfd(cfg: configs.CfdConfig, _: PicturesConfig) -> Loaded:
    from src.stimuli import cfd

    return cfd.load(
        Path(cfg.root),
        cfg.pictures,
        cfg.norming,
        races=cfg.races,
        genders=cfg.genders,
        expressions=cfg.expressions,
        per_group=cfg.per_group,
        seed=cfg.seed,
        duplicates=cfg.duplicates,
    )


def _utkface(cfg: configs.UtkFaceConfig, _: PicturesConfig) -> Loaded:
    from src.stimuli import utkface

    return utkface.load(
        Path(cfg.root),
        races=cfg.races,
        genders=cfg.genders,
        ages=cfg.ages,
        per_group=cfg.per_group,
        seed=cfg.seed,
        duplicates=cfg.duplicates,
    )


def _folder(cfg: configs.FolderConfig, _: PicturesConfig) -> Loaded:
    from src.stimuli import folder

    return folder.load(
        Path(cfg.root),
        cfg.csv,
        file=cfg.file,
        group=cfg.group,
        per_group=cfg.per_group,
        seed=cfg.seed,
        duplicates=cfg.duplicates,
    )


def _oasis(cfg: configs.OasisConfig, _: PicturesConfig) -> Loaded:
    from src.stimuli import oasis

    return oasis.load(
        Path(cfg.root),
        cfg.csv,
        cfg.pictures,
        lowest=cfg.lowest,
        highest=cfg.highest,
        duplicates=cfg.duplicates,
    )


def _vader(cfg: configs.VaderConfig, _: PicturesConfig) -> Loaded:
    from src.stimuli import lexicons

    return lexicons.vader(cfg.count, cfg.seed)


def _nrc_vad(cfg: configs.NrcVadConfig, _: PicturesConfig) -> Loaded:
    from src.stimuli import nrc_vad

    return nrc_vad.load(Path(cfg.path), word=cfg.word, lowest=cfg.lowest, highest=cfg.highest)


def _warriner(cfg: configs.WarrinerConfig, _: PicturesConfig) -> Loaded:
    from src.stimuli import lexicons

    return lexicons.warriner(
        Path(cfg.path), word=cfg.word, valence=cfg.valence, lowest=cfg.lowest, highest=cfg.highest
    )


def _phrases(cfg: configs.LabelsConfig, _: PicturesConfig) -> Loaded:
    from src.stimuli import texts

    frame = texts.phrases(cfg.race_words, cfg.gender_words)
    return frame, len(frame), []


# A new dataset: a YAML in conf/{role}/, a dataclass in src/configs/roles.py, a loader here.
LOADERS: dict[type[configs.RoleConfig], tuple[Callable[[Any, PicturesConfig], Loaded], str]] = {
    configs.AvatarsConfig: (_avatars, "faces=avatars"),
    configs.FairFaceConfig: (_fairface, "faces=fairface"),
    configs.CfdConfig: (_cfd, "faces=cfd"),
    configs.UtkFaceConfig: (_utkface, "faces=utkface"),
    configs.FolderConfig: (_folder, "faces=folder"),
    configs.MorphsConfig: (_morphs, "faces=morphs"),
    configs.AbstractConfig: (_abstract, "scenes=abstract"),
    configs.OasisConfig: (_oasis, "scenes=oasis"),
    configs.VaderConfig: (_vader, "words=vader"),
    configs.NrcVadConfig: (_nrc_vad, "words=nrc_vad"),
    configs.WarrinerConfig: (_warriner, "words=warriner"),
    configs.LabelsConfig: (_phrases, "labels"),
}
