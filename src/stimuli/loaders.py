"""Loaders of stimuli by config class; a loader from elsewhere is named module:attribute."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

from src import configs
from src.configs import PicturesConfig, registry
from src.errors import InputError
from src.stimuli.pictures import remarks
from src.stimuli.table import Table, checked

if TYPE_CHECKING:
    import pandas as pd

# Stimuli, how many the source announces, and why the two differ.
Loaded = tuple["pd.DataFrame", int, list[str]]


def _avatars(cfg: configs.AvatarsConfig, store: PicturesConfig) -> Loaded:
    from src.demo import world

    frame = world.faces(cfg, Path(store.stimuli))
    return frame, len(frame), []


def _morphs(cfg: configs.MorphsConfig, store: PicturesConfig) -> Loaded:
    from src.stimuli import morphs

    faces = parents(cfg.parents, store)
    frame, expected, notes = morphs.load(cfg, faces.frame, Path(store.morphs))
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
    return checked("faces", frame, source(chosen), expected=expected, notes=notes)


def load(chosen: configs.RoleConfig, store: PicturesConfig) -> Loaded:
    """Stimuli of a config by its loader; its notes count the pictures that had to be converted, too.

    Raises:
        InputError: they cannot be read.
    """
    made = MADE.get(type(chosen))
    frame, expected, notes = made[0](chosen, store) if made else _read(chosen)
    if "conversions" in frame:
        notes = [*notes, *remarks(frame.pop("conversions").tolist())]
    return frame, expected, notes


def _abstract(cfg: configs.AbstractConfig, store: PicturesConfig) -> Loaded:
    from src.demo import world

    frame = world.scenes(cfg, Path(store.stimuli))
    return frame, len(frame), []


def _phrases(cfg: configs.LabelsConfig, _: PicturesConfig) -> Loaded:
    from src.stimuli import texts

    frame = texts.phrases(cfg.race_words, cfg.gender_words)
    return frame, len(frame), []


# Roles that are made rather than read: config class -> function, and its choice on the command line.
MADE: dict[type[configs.RoleConfig], tuple[Callable[[Any, PicturesConfig], Loaded], str]] = {
    configs.AvatarsConfig: (_avatars, "faces=avatars"),
    configs.MorphsConfig: (_morphs, "faces=morphs"),
    configs.AbstractConfig: (_abstract, "scenes=abstract"),
    configs.LabelsConfig: (_phrases, "labels"),
}
# Layouts of files: config class -> loader, which takes it, and its choice on the command line.
LAYOUTS: dict[type[configs.RoleConfig], tuple[str, str]] = {
    configs.FairFaceConfig: ("src.stimuli.fairface:load", "faces=fairface"),
    configs.CfdConfig: ("src.stimuli.cfd:load", "faces=cfd"),
    configs.UtkFaceConfig: ("src.stimuli.utkface:load", "faces=utkface"),
    configs.FolderConfig: ("src.stimuli.folder:load", "faces=folder"),
    configs.OasisConfig: ("src.stimuli.oasis:load", "scenes=oasis"),
    configs.VaderConfig: ("src.stimuli.lexicons:vader", "words=vader"),
    configs.NrcVadConfig: ("src.stimuli.nrc_vad:load", "words=nrc_vad"),
    configs.WarrinerConfig: ("src.stimuli.lexicons:warriner", "words=warriner"),
}


def source(chosen: configs.RoleConfig) -> str:
    """Name a config's source, for messages."""
    if isinstance(chosen, configs.OtherLayoutConfig):
        return chosen.loader
    return (MADE.get(type(chosen)) or LAYOUTS[type(chosen)])[1]


def _read(chosen: configs.RoleConfig) -> Loaded:
    """Read files by the loader of their layout.

    Raises:
        InputError: they cannot be read, or the loader takes other options.
    """
    if isinstance(chosen, configs.OtherLayoutConfig):
        load = registry.load("loader", chosen.loader, {}, FunctionType)
        try:
            inspect.signature(load).bind(**chosen.options)
        except TypeError as error:
            takes = ", ".join(inspect.signature(load).parameters)
            raise InputError(f"options: {chosen.loader}: {error}. Its options are {takes}.") from None
        loaded: Loaded = load(**chosen.options)
        return loaded
    reference, choice = LAYOUTS[type(chosen)]
    loaded = registry.load("loader", choice, {choice: reference})(chosen)
    return loaded
