"""Loaders of stimuli by config class; a loader from elsewhere is named module:attribute."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING

from src import configs
from src.configs import PicturesConfig, registry
from src.errors import InputError
from src.stimuli.pictures import remarks
from src.stimuli.table import TEXT_ROLES, Table, checked

if TYPE_CHECKING:
    import pandas as pd

# Config class -> loader, which takes the config, and its choice on the command line.
LOADERS: dict[type[configs.RoleConfig], tuple[str, str]] = {
    configs.AvatarsConfig: ("src.demo.world:faces", "faces=avatars"),
    configs.MorphsConfig: ("src.stimuli.morphs:load", "faces=morphs"),
    configs.AbstractConfig: ("src.demo.world:scenes", "scenes=abstract"),
    configs.LabelsConfig: ("src.stimuli.texts:phrases", "labels"),
    configs.FairFaceConfig: ("src.stimuli.fairface:load", "faces=fairface"),
    configs.CfdConfig: ("src.stimuli.cfd:load", "faces=cfd"),
    configs.UtkFaceConfig: ("src.stimuli.utkface:load", "faces=utkface"),
    configs.FolderConfig: ("src.stimuli.folder:load", "faces=folder"),
    configs.OasisConfig: ("src.stimuli.oasis:load", "scenes=oasis"),
    configs.VaderConfig: ("src.stimuli.lexicons:vader", "words=vader"),
    configs.NrcVadConfig: ("src.stimuli.nrc_vad:load", "words=nrc_vad"),
    configs.WarrinerConfig: ("src.stimuli.lexicons:warriner", "words=warriner"),
}
# Stimuli, how many the source announces, and why the two differ.
Loaded = tuple["pd.DataFrame", int, list[str]]


def table(
    role: str, chosen: configs.RoleConfig, store: PicturesConfig, templates: Sequence[str] = ()
) -> Table:
    """Stimulus table of a config by its loader; its notes count the pictures that had to be converted, too.

    Args:
        role: faces, scenes, words or labels.
        chosen: config of the role.
        store: folders of what is drawn or morphed.
        templates: of text roles.

    Raises:
        InputError: the stimuli cannot be read.
    """
    if isinstance(chosen, configs.OtherLayoutConfig):
        source, loaded = chosen.loader, _of_other_layout(chosen)
    else:
        reference, source = LOADERS[type(chosen)]
        load = registry.load("loader", source, {source: reference})
        if isinstance(chosen, configs.AvatarsConfig | configs.AbstractConfig):
            loaded = load(chosen, Path(store.stimuli))
        elif isinstance(chosen, configs.MorphsConfig):
            faces = parents(chosen.parents, store)
            frame, expected, notes = load(chosen, faces.frame, Path(store.morphs))
            loaded = frame, expected, notes + [f"of the parents, {note}" for note in faces.notes]
        else:
            loaded = load(chosen)
    # What is made holds all that there is.
    frame, expected, notes = loaded if isinstance(loaded, tuple) else (loaded, len(loaded), [])
    if "conversions" in frame:
        notes = [*notes, *remarks(frame.pop("conversions").tolist())]
    if role in TEXT_ROLES:
        from src.stimuli.texts import in_templates

        frame = in_templates(frame, templates)
    return checked(role, frame, source, expected=expected, notes=notes)


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
        faces = table("faces", chosen, store)
    except InputError as error:
        raise InputError(nested(str(error))) from None
    return replace(faces, notes=tuple(nested(note) for note in faces.notes))


def _of_other_layout(chosen: configs.OtherLayoutConfig) -> Loaded:
    """Read files by a loader from elsewhere.

    Raises:
        InputError: they cannot be read, or the loader takes other options.
    """
    load = registry.load("loader", chosen.loader, {}, FunctionType)
    try:
        inspect.signature(load).bind(**chosen.options)
    except TypeError as error:
        takes = ", ".join(inspect.signature(load).parameters)
        raise InputError(f"options: {chosen.loader}: {error}. Its options are {takes}.") from None
    loaded: Loaded = load(**chosen.options)
    return loaded
