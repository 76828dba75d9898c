"""What is shown: tables of images and sentences with group and valence."""

from __future__ import annotations

from pathlib import Path

from src import configs
from src.errors import InputError
from src.stimuli import loaders
from src.stimuli.loaders import faces
from src.stimuli.table import CARRIES, IMAGE_ROLES, PROMPTS, ROLES, SHEET, TEXT_ROLES, Table, checked

__all__ = [
    "CARRIES",
    "IMAGE_ROLES",
    "PROMPTS",
    "ROLES",
    "SHEET",
    "TEXT_ROLES",
    "Table",
    "checked",
    "drawn",
    "faces",
    "load",
    "parents",
]

_tables: dict[str, Table] = {}


def load(cfg: configs.RunConfig, role: str) -> Table:
    """The stimulus table of one role of a job, read or drawn once per process.

    Raises:
        InputError: there is no such role, or the dataset cannot serve it; the message says what to do.
    """
    if role not in ROLES:
        raise InputError(f"exp: no role is called {role!r}; there are {', '.join(ROLES)}.")
    chosen = getattr(cfg, role)
    folder = cfg.model.precomputed
    # Configs are plain dataclasses, whose repr tells all that they hold.
    key = repr((role, folder or chosen, cfg.templates, cfg.store.stimuli, cfg.store.morphs))
    if key not in _tables:
        _tables[key] = _precomputed(folder, role) if folder else _read(cfg, role, chosen)
    return _tables[key]


def parents(cfg: configs.RunConfig) -> Table | None:
    """The faces that a job's faces are morphs of; None where they are none.

    Raises:
        InputError: they cannot be read.
    """
    if not isinstance(cfg.faces, configs.MorphsConfig):
        return None
    return loaders.parents(cfg.faces.parents, cfg.store)


def drawn(chosen: configs.RoleConfig, store: configs.StoreConfig) -> int:
    """How many stimuli a role has that is drawn or morphed, be it done or not."""
    if isinstance(chosen, configs.MorphsConfig):
        return chosen.per_group * _groups(chosen.parents, store)
    if isinstance(chosen, configs.AvatarsConfig):
        return chosen.per_group * len(chosen.peoples) * len(chosen.genders)
    assert isinstance(chosen, configs.AbstractConfig)
    return chosen.count


def _groups(chosen: configs.RoleConfig, store: configs.StoreConfig) -> int:
    if isinstance(chosen, configs.AvatarsConfig):
        return len(chosen.peoples) * len(chosen.genders)
    return int(loaders.parents(chosen, store).frame["group"].nunique())


def _precomputed(folder: Path, role: str) -> Table:
    from src.stimuli import precomputed_tables

    return precomputed_tables.load(folder, role)


def _read(cfg: configs.RunConfig, role: str, chosen: configs.RoleConfig) -> Table:
    frame, expected, notes = loaders.load(chosen, cfg.store)
    if role in TEXT_ROLES:
        from src.stimuli import texts

        frame = texts.in_templates(frame, cfg.templates)
    return checked(role, frame, loaders.source(chosen), expected=expected, notes=notes)
