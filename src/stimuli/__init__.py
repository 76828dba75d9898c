"""What is shown: tables of images and sentences with group and valence."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from src import configs
from src.errors import InputError
from src.stimuli.table import CARRIES, IMAGE_ROLES, ROLES, TEXT_ROLES, Table, checked

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CARRIES", "IMAGE_ROLES", "ROLES", "TEXT_ROLES", "Table", "checked", "drawn", "load"]

# Stimuli, how many the source announces, and why the two differ.
Loaded = tuple["pd.DataFrame", int, list[str]]

_tables: dict[str, Table] = {}


def load(cfg: configs.RunConfig, role: str) -> Table:
    """The stimulus table of one role of a job, read or drawn once per process.

    Raises:
        InputError: there is no such role, or the dataset cannot serve it; the message says what to do.
    """
    if role not in ROLES:
        raise InputError(f"exp: no role is called {role!r}; there are {', '.join(ROLES)}.")
    chosen = getattr(cfg, role)
    model = cfg.model if isinstance(cfg.model, configs.PrecomputedConfig) else None
    # Configs are plain dataclasses, whose repr tells all that they hold.
    key = repr((role, model or chosen, cfg.templates, cfg.store.stimuli))
    if key not in _tables:
        _tables[key] = _precomputed(model, role) if model else _read(cfg, role, chosen)
    return _tables[key]


def drawn(chosen: configs.RoleConfig, store: Path) -> int:
    """How many stimuli a role has that is drawn or morphed, be it done or not."""
    if isinstance(chosen, configs.MorphsConfig):
        return chosen.per_group * _groups(chosen.parents, store)
    if isinstance(chosen, configs.AvatarsConfig):
        return chosen.per_group * len(chosen.peoples) * len(chosen.genders)
    assert isinstance(chosen, configs.AbstractConfig)
    return chosen.count


def _groups(chosen: configs.RoleConfig, store: Path) -> int:
    if isinstance(chosen, configs.AvatarsConfig):
        return len(chosen.peoples) * len(chosen.genders)
    return int(_parents(chosen, store).frame["group"].nunique())


def _precomputed(model: configs.PrecomputedConfig, role: str) -> Table:
    from src.stimuli import precomputed

    return precomputed.load(Path(model.path), role)


def _read(cfg: configs.RunConfig, role: str, chosen: configs.RoleConfig) -> Table:
    loader, source = LOADERS[type(chosen)]
    frame, expected, notes = loader(chosen, Path(cfg.store.stimuli))
    if role in TEXT_ROLES:
        from src.stimuli import texts

        frame = texts.in_templates(frame, cfg.templates)
    return checked(role, frame, source, expected=expected, notes=notes)


def _avatars(cfg: configs.AvatarsConfig, store: Path) -> Loaded:
    from src.demo import world

    frame = world.faces(
        store,
        per_group=cfg.per_group,
        size=cfg.size,
        seed=cfg.seed,
        peoples={name: vars(look) for name, look in cfg.peoples.items()},
        genders=cfg.genders,
        hue_sd=cfg.hue_sd,
        hair_sd=cfg.hair_sd,
    )
    return frame, len(frame), []


def _morphs(cfg: configs.MorphsConfig, store: Path) -> Loaded:
    from src.stimuli import morphs

    parents = _parents(cfg.parents, store)
    frame, expected, notes = morphs.load(
        parents.frame,
        store,
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
    return frame, expected, notes + [f"of the parents, {note}" for note in parents.notes]


def _parents(chosen: configs.RoleConfig, store: Path) -> Table:
    if isinstance(chosen, configs.MorphsConfig):
        raise InputError("faces.parents: morphs are not morphed again. Choose other parents.")
    loader, source = LOADERS[type(chosen)]

    def nested(text: str) -> str:
        # Loaders speak of `faces.races`; a parent's setting lies one level lower.
        names = "|".join(vars(chosen))
        return re.sub(rf"(?<![\w./])faces\.(?=(?:{names})\b)", "faces.parents.", text)

    try:
        frame, expected, notes = loader(chosen, store)
    except InputError as error:
        raise InputError(nested(str(error))) from None
    return checked("faces", frame, source, expected=expected, notes=[nested(note) for note in notes])


def _abstract(cfg: configs.AbstractConfig, store: Path) -> Loaded:
    from src.demo import world

    frame = world.scenes(store, count=cfg.count, size=cfg.size, noise=cfg.noise, seed=cfg.seed)
    return frame, len(frame), []


def _fairface(cfg: configs.FairFaceConfig, _: Path) -> Loaded:
    from src.stimuli import fairface

    return fairface.load(
        Path(cfg.root),
        cfg.csv,
        races=cfg.races,
        genders=cfg.genders,
        ages=cfg.ages,
        per_group=cfg.per_group,
        seed=cfg.seed,
    )


def _cfd(cfg: configs.CfdConfig, _: Path) -> Loaded:
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
    )


def _utkface(cfg: configs.UtkFaceConfig, _: Path) -> Loaded:
    from src.stimuli import utkface

    return utkface.load(
        Path(cfg.root),
        races=cfg.races,
        genders=cfg.genders,
        ages=cfg.ages,
        per_group=cfg.per_group,
        seed=cfg.seed,
    )


def _folder(cfg: configs.FolderConfig, _: Path) -> Loaded:
    from src.stimuli import folder

    return folder.load(
        Path(cfg.root), cfg.csv, file=cfg.file, group=cfg.group, per_group=cfg.per_group, seed=cfg.seed
    )


def _oasis(cfg: configs.OasisConfig, _: Path) -> Loaded:
    from src.stimuli import oasis

    return oasis.load(Path(cfg.root), cfg.csv, cfg.pictures)


def _vader(cfg: configs.VaderConfig, _: Path) -> Loaded:
    from src.stimuli import lexicons

    return lexicons.vader(cfg.count, cfg.seed)


def _nrc_vad(cfg: configs.NrcVadConfig, _: Path) -> Loaded:
    from src.stimuli import lexicons

    return lexicons.nrc_vad(Path(cfg.path), cfg.lowest)


def _warriner(cfg: configs.WarrinerConfig, _: Path) -> Loaded:
    from src.stimuli import lexicons

    return lexicons.warriner(Path(cfg.path))


def _phrases(cfg: configs.LabelsConfig, _: Path) -> Loaded:
    from src.stimuli import texts

    frame = texts.phrases(cfg.race_words, cfg.gender_words)
    return frame, len(frame), []


# A new dataset: a YAML in conf/{role}/, a dataclass in src/configs/roles.py, a loader here.
LOADERS: dict[type[configs.RoleConfig], tuple[Callable[[Any, Path], Loaded], str]] = {
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
