"""What is shown: tables of images and sentences with group and valence."""

from __future__ import annotations

from src import configs
from src.errors import InputError
from src.stimuli import loaders
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
    if key not in _tables and folder:
        from src.stimuli import precomputed_tables

        _tables[key] = precomputed_tables.load(folder, role)
    elif key not in _tables:
        _tables[key] = loaders.table(role, chosen, cfg.store, cfg.templates)
    return _tables[key]


def parents(cfg: configs.RunConfig) -> Table | None:
    """The faces that a job's faces are morphs of; None where they are none.

    Raises:
        InputError: they cannot be read.
    """
    if not isinstance(cfg.faces, configs.MorphsConfig):
        return None
    return loaders.parents(cfg.faces.parents, cfg.store)


def faces(chosen: configs.RoleConfig, store: configs.PicturesConfig) -> Table:
    """Faces of a config, read or drawn.

    Raises:
        InputError: they cannot be read.
    """
    return loaders.table("faces", chosen, store)


def drawn(chosen: configs.RoleConfig, store: configs.StoreConfig) -> int:
    """How many stimuli a role has that is drawn or morphed, be it done or not."""
    if isinstance(chosen, configs.AvatarsConfig):
        return chosen.per_group * len(chosen.peoples) * len(chosen.genders)
    if isinstance(chosen, configs.AbstractConfig):
        return chosen.count
    assert isinstance(chosen, configs.MorphsConfig)
    if isinstance(chosen.parents, configs.AvatarsConfig):
        return chosen.per_group * len(chosen.parents.peoples) * len(chosen.parents.genders)
    return chosen.per_group * len(loaders.parents(chosen.parents, store).groups)
