"""Load stimuli with the loader of their config class, and compose the texts of words and labels."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import FunctionType

import pandas as pd
import pyarrow.parquet as pq

from src import configs
from src.configs import PicturesConfig, registry
from src.errors import InputError, NotApplicable, brief
from src.stimuli.clusters import WORD
from src.stimuli.pictures import count_conversions
from src.stimuli.table import NOT_ATTRIBUTES, TEXT_ROLES, LoadedStimuli, Table, build_table

# Config class -> loader (`module:attribute`), and the command-line option that selects it.
LOADERS: dict[type[configs.RoleConfig], tuple[str, str]] = {
    configs.AvatarsConfig: ("src.demo.world:draw_faces", "faces=avatars"),
    configs.MorphsConfig: ("src.stimuli.morphs:load", "faces=morphs"),
    configs.AbstractConfig: ("src.demo.world:draw_scenes", "scenes=abstract"),
    configs.LabelsConfig: ("src.stimuli.loaders:compose_phrases", "labels"),
    configs.AxisLabelsConfig: ("src.stimuli.loaders:compose_phrases", "labels"),
    configs.TranslatedLabelsConfig: ("src.stimuli.translated_labels:compose_phrases", "labels"),
    configs.FairFaceConfig: ("src.stimuli.csv_pictures:load_fairface", "faces=fairface"),
    configs.CfdConfig: ("src.stimuli.named_faces:load_cfd", "faces=cfd"),
    configs.UtkFaceConfig: ("src.stimuli.named_faces:load_utkface", "faces=utkface"),
    configs.FolderConfig: ("src.stimuli.csv_pictures:load_folder", "faces=folder"),
    configs.PictureFoldersConfig: ("src.stimuli.picture_folders:load", "faces=ieat"),
    configs.ListingConfig: ("src.stimuli.people:load_listing", "faces=people"),
    configs.FhibeConfig: ("src.stimuli.fhibe:load", "faces=fhibe"),
    configs.FacetConfig: ("src.stimuli.facet:load", "faces=facet"),
    configs.SispiConfig: ("src.stimuli.matched_pictures:load_sispi", "faces=sispi"),
    configs.SocialCounterfactualsConfig: (
        "src.stimuli.matched_pictures:load_social_counterfactuals",
        "faces=social_counterfactuals",
    ),
    configs.PairsConfig: ("src.stimuli.matched_pictures:load_pairs", "faces=pairs"),
    configs.VisoGenderConfig: ("src.stimuli.visogender:load", "faces=visogender"),
    configs.OasisConfig: ("src.stimuli.csv_pictures:load_oasis", "scenes=oasis"),
    configs.VaderConfig: ("src.stimuli.lexicons:load_vader", "words=vader"),
    configs.NrcVadConfig: ("src.stimuli.lexicons:load_nrc_vad", "words=nrc_vad"),
    configs.WarrinerConfig: ("src.stimuli.lexicons:load_warriner", "words=warriner"),
    configs.NormsConfig: ("src.stimuli.norms:load", "words=norms"),
}


def load_table(
    role: str, role_config: configs.RoleConfig, store: PicturesConfig, templates: Sequence[str] = ()
) -> Table:
    """Load the stimulus table of a role by the loader of its config; notes count converted pictures.

    Raises:
        InputError: the stimuli cannot be read.
    """
    (frame, n_source_items, notes), source = load_items(role_config, store)
    if "conversions" in frame:
        notes = [*notes, *count_conversions(frame.pop("conversions").tolist())]
    if role in TEXT_ROLES:
        frame = fill_templates(frame, templates)
    return build_table(role, frame, source, expected=n_source_items, notes=notes)


def load_items(role_config: configs.RoleConfig, store: PicturesConfig) -> tuple[LoadedStimuli, str]:
    """Load stimuli by the loader of their config, texts without templates; return them and their origin.

    The items of a translation are in the order of those that they translate.
    """
    if isinstance(role_config, configs.LabelsConfig):
        role_config = role_config.translation or role_config
    if isinstance(role_config, configs.OtherLayoutConfig):
        source = role_config.loader
        load = registry.load("loader", source, {}, FunctionType)
        try:
            inspect.signature(load).bind(**role_config.options)
        except TypeError as error:
            parameters = ", ".join(inspect.signature(load).parameters)
            raise InputError(f"options: {source}: {error}. Its options are {parameters}.") from None
        result = load(**role_config.options)
    else:
        reference, source = LOADERS[type(role_config)]
        load = registry.load("loader", source, {source: reference}, FunctionType)
        if isinstance(role_config, configs.AvatarsConfig | configs.AbstractConfig):
            result = load(role_config, Path(store.stimuli))
        elif isinstance(role_config, configs.MorphsConfig):
            faces = load_parents(role_config.parents, store)
            frame, n_source_items, notes = load(role_config, faces.frame, Path(store.morphs))
            result = frame, n_source_items, notes + [f"of the parents, {note}" for note in faces.notes]
        else:
            result = load(role_config)
    # A loader that uses all stimuli of its source may return only the frame.
    return result if isinstance(result, tuple) else (result, len(result), []), source


def load_parents(faces_config: configs.RoleConfig, store: PicturesConfig) -> Table:
    """Load the parents of morphs; raise `InputError` if they are morphs themselves."""
    if isinstance(faces_config, configs.MorphsConfig):
        raise InputError("faces.parents: morphs cannot be parents of morphs. Choose other faces.")

    def qualify(text: str) -> str:
        # Messages of loaders name settings such as `faces.races`, which is `faces.parents.races` here.
        names = "|".join(vars(faces_config))
        return re.sub(rf"(?<![\w./])faces\.(?=(?:{names})\b)", "faces.parents.", text)

    try:
        faces = load_table("faces", faces_config, store)
    except InputError as error:
        raise InputError(qualify(str(error))) from None
    return replace(faces, notes=tuple(qualify(note) for note in faces.notes))


def read_precomputed(folder: Path, role: str) -> pd.DataFrame:
    """Read the table of precomputed vectors, DIR/{role}.parquet (docs/architecture.md, "Formats").

    The rows are in the order of the file, which is also the order of the vectors.

    Raises:
        NotApplicable: the folder has no table of that role.
        InputError: the folder is missing, or the table is not a Parquet file with ids.
    """
    path = folder / f"{role}.parquet"
    # Unlike their counterparts in pathlib, os.path's functions accept too long names and need no permission.
    if not os.path.isdir(folder):  # noqa: PTH112
        raise InputError(f"{folder}: no such folder. Set model.path to the folder of the vectors.")
    if not os.path.isfile(path):  # noqa: PTH113
        content = "unknown, as it cannot be read"
        if os.access(folder, os.R_OK):
            content = ", ".join(sorted(item.name for item in folder.iterdir())) or "nothing"
        raise NotApplicable(
            f"{path}: no such file (in the folder: {content}). The experiment needs {role}: add "
            f"{role}.parquet and {role}.safetensors, or choose another experiment."
        )
    try:
        # pandas decodes text lazily: invalid text would be noticed only when it is used.
        pq.read_table(path).validate(full=True)
        frame = pd.read_parquet(path)
        # A named index was a column of the table, unless the table has one of that name.
        levels = [name for name in frame.index.names if name is not None and name not in frame]
        frame = frame.reset_index(levels) if levels else frame
    except Exception as error:  # pyarrow and pandas raise exceptions of any type over damaged files
        raise InputError(f"{path}: not a Parquet file ({brief(str(error))}). Write it again.") from None
    columns = [str(column) for column in frame.columns]
    if "id" not in columns:
        raise InputError(f"{path}: no column id; found {brief(', '.join(columns))}. Add unique ids.")
    if len(set(columns)) < len(columns):
        repeated_column = next(column for column in columns if columns.count(column) > 1)
        raise InputError(
            f"{path}: the column {brief(repeated_column)} occurs twice. Rename or delete one of them."
        )
    if frame["id"].isna().any():
        raise InputError(f"{path}: {frame['id'].isna().sum()} rows have no id. Give each row a unique one.")
    return frame.assign(id=frame["id"].astype(str)).reset_index(drop=True)


def load_precomputed(folder: Path, role: str) -> Table:
    """Load the stimulus table of precomputed vectors of one role, sorted by id.

    Raises:
        InputError: see `read_precomputed` and `build_table`.
    """
    return build_table(role, read_precomputed(folder, role), str(folder / f"{role}.parquet"))


def fill_templates(items: pd.DataFrame, templates: Sequence[str]) -> pd.DataFrame:
    """Insert each `word` into the `{}` of each template: add columns `id`, `template` and `sentence`."""
    for template in templates:
        if template.count("{}") != 1:
            raise InputError(f"templates: {template!r} must contain {{}} once, where the word goes.")
    if not templates or len(set(templates)) < len(templates):
        raise InputError(f"templates: expected different texts, at least one; got {list(templates)}.")
    tables = [
        items.assign(
            id=items["word"] + f" | {number}",
            template=template,
            sentence=[template.replace("{}", word) for word in items["word"]],
        )
        for number, template in enumerate(templates)
    ]
    return pd.concat(tables, ignore_index=True)


def compose_phrases(cfg: configs.LabelsConfig | configs.AxisLabelsConfig) -> pd.DataFrame:
    """Compose label phrases: a word of each axis, joined by spaces (docs/methods.md, section 2, "Stimuli").

    Raises:
        InputError: there is no axis, or the name of an axis is reserved.
    """
    words_by_axis = configs.list_axis_words(cfg)
    axes = [*words_by_axis]
    if wrong := [axis for axis in axes if axis in NOT_ATTRIBUTES or axis.endswith(WORD)]:
        raise InputError(f"labels.words: the name {wrong[0]!r} of an axis is reserved. Rename it.")
    if not axes:
        raise InputError("labels.words: expected words of at least one axis, got none. Add them.")
    choices = [
        [(value, word) for value, words in values.items() for word in words]
        for values in words_by_axis.values()
    ]
    rows = []
    for chosen in product(*choices):
        values, words = zip(*chosen, strict=True)
        rows.append((" ".join(words), " ".join(values), *values, *words))
    return pd.DataFrame(rows, columns=["word", "group", *axes, *(f"{axis}{WORD}" for axis in axes)])
