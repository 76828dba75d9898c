"""Load stimulus tables: images and sentences with group and valence."""

from src import configs
from src.errors import InputError
from src.stimuli import languages, loaders
from src.stimuli.group_sampling import combine_group_names
from src.stimuli.loaders import load_table
from src.stimuli.table import CARRIES, IMAGE_ROLES, PROMPTS, ROLES, TEXT_ROLES, Table, build_table

__all__ = ["CARRIES", "IMAGE_ROLES", "PROMPTS", "ROLES", "TEXT_ROLES", "Table", "build_table"]
__all__ += ["count_generated", "load", "load_parents", "load_table"]

_tables: dict[str, Table] = {}


def load(cfg: configs.RunConfig, role: str) -> Table:
    """Load the stimulus table of one role of a job, only once per process.

    Raises:
        InputError: the role is unknown, or its stimuli cannot be loaded.
    """
    if role not in ROLES:
        raise InputError(f"exp: unknown role {role!r}. Choose from the roles {', '.join(ROLES)}.")
    role_config = getattr(cfg, role)
    folder = cfg.model.precomputed
    # Configs are plain dataclasses: their repr contains every field.
    sources = (role, folder or role_config, cfg.templates, cfg.store.stimuli, cfg.store.morphs)
    key = repr((*sources, cfg.language if role in TEXT_ROLES else None))
    if key not in _tables:
        if folder:
            table = loaders.load_precomputed(folder, role)
        else:
            languages.check_language(role, role_config, cfg.language)
            table = load_table(role, role_config, cfg.store, cfg.templates)
            table = languages.note_draft(table, cfg.templates, cfg.language)
        _tables[key] = languages.add_clusters(table, cfg.language)
    return _tables[key]


def load_parents(cfg: configs.RunConfig) -> Table | None:
    """Load the parents of a job's morphs; return None if its faces are not morphs."""
    if not isinstance(cfg.faces, configs.MorphsConfig):
        return None
    return loaders.load_parents(cfg.faces.parents, cfg.store)


def count_generated(role_config: configs.RoleConfig, store: configs.StoreConfig) -> int:
    """Count the stimuli of a role whose pictures are drawn or morphed, without making the pictures."""
    if isinstance(role_config, configs.AbstractConfig):
        return role_config.count
    assert isinstance(role_config, configs.AvatarsConfig | configs.MorphsConfig)
    faces_config = role_config.parents if isinstance(role_config, configs.MorphsConfig) else role_config
    if isinstance(faces_config, configs.AvatarsConfig):
        names = combine_group_names(faces_config.peoples, faces_config.genders)
        group_sizes = dict.fromkeys(names, faces_config.per_group)
    else:
        sizes = loaders.load_parents(faces_config, store).frame["group"].value_counts()
        group_sizes = {str(group): int(size) for group, size in sizes.items()}
    if isinstance(role_config, configs.MorphsConfig) and role_config.morphs == configs.MORPH_FAMILIES:
        from src.stimuli import morphs

        return morphs.FAMILY_FACES * sum(morphs.count_families(group_sizes, role_config.per_group).values())
    return role_config.per_group * len(group_sizes)
