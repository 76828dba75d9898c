"""Make morphs, 50% mixtures of two faces of a group, and store them."""

import math
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image, ImageDraw

from src.configs import MORPH_FAMILIES, MorphsConfig
from src.errors import InputError
from src.stimuli.morphs.methods import METHODS, MorphingMethod, standardise_parents
from src.stimuli.morphs.parallel_files import make_files, stop_workers_on_exit
from src.stimuli.pictures import standardise
from src.stimuli.table import CONTACT_SHEET, LoadedStimuli
from src.stimuli.work_folders import lock_folder
from src.storage import cache
from src.storage.versions import declared_versions, library_versions

TABLE = "table.parquet"
# Numbers of parents and of faces (parents and the morphs of all their pairs) in a family, the unit by which a
# corpus of morphs is permuted (docs/methods.md, section 2, "Stimuli").
FAMILY_PARENTS = 5
FAMILY_FACES = FAMILY_PARENTS + math.comb(FAMILY_PARENTS, 2)
Pair = tuple[str, str]
# Contact sheet: maximum number of morphs per group; pixels of a picture's width, a gap and a title's height.
MAX_SHEET_MORPHS = 6
TILE, GAP, TITLE = 112, 8, 16


def load(cfg: MorphsConfig, faces: pd.DataFrame, store: Path) -> LoadedStimuli:
    """Load the morphs of faces; make them if they are not stored.

    `faces` has the columns `id`, `group`, `path`, `sha256` and, if known, `race` and `gender`. The id of a
    morph is the ids of its parents, joined by `~`. With `faces.morphs=families` the table also contains the
    parents, as centre squares of the morphs' size; their `parent_a` and `parent_b` both equal their id. An
    interrupted run leaves its morphs in `.{store}-{key}.partial` next to the store, and the next run resumes
    there.

    Raises:
        InputError: a group has too few parents or pairs of parents, or an input of the method is missing or
            invalid; this is checked before any morph is made.
        NotStored: the morphs are not stored, within `forbid_building`.
    """
    table = list_faces(faces, cfg)
    parents = faces.set_index("id").loc[sorted({*table["parent_a"], *table["parent_b"]})]
    method = METHODS[cfg.method](cfg, parents)
    description = {
        "role": "morphs",
        "per_group": cfg.per_group,
        "size": cfg.size,
        "seed": cfg.seed,
        "pairs": cache.fingerprint(table.astype(object).where(table.notna(), None).values.tolist()),
        "parents": cache.fingerprint([*parents["sha256"].items()]),
        **method.settings,
        "parts": declared_versions(f"morphs.{cfg.method}"),
        "versions": library_versions("pillow", "numpy", *method.packages),
    }

    make = partial(_make_entry, table=table, parents=parents, method=method, cfg=cfg)
    entry = _fetch(store, description, make)
    frame = pd.read_parquet(entry / TABLE)
    frame = frame.assign(path=[str(entry / name) for name in frame["path"]])
    notes = [f"{cfg.method} morphs of {len(parents)} of {len(faces)} parents"]
    if cfg.morphs == MORPH_FAMILIES:
        sizes = frame["group"].value_counts().sort_index()
        counts = ", ".join(f"{group} {size // FAMILY_FACES} ({size} faces)" for group, size in sizes.items())
        contents = f"{FAMILY_PARENTS} parents and the {FAMILY_FACES - FAMILY_PARENTS} morphs of their pairs"
        notes.append(f"families of {contents}: {counts}, at most {cfg.per_group} faces per group")
        if len(parents) < len(faces):
            notes.append(f"{len(faces) - len(parents)} parents left over, not used")
    return frame, len(frame), [*notes, *method.notes]


def list_faces(faces: pd.DataFrame, cfg: MorphsConfig) -> pd.DataFrame:
    """List the morphs of faces (with `morphs=families` also their parents) without making pictures.

    Columns are `id`, `group`, `parent_a`, `parent_b`, and the `race` and `gender` that both parents share.
    """
    ids_of_group = {str(group): list(group_rows["id"]) for group, group_rows in faces.groupby("group")}
    if cfg.morphs == MORPH_FAMILIES:
        families_of_group = draw_families(ids_of_group, cfg.per_group, cfg.seed)
        # A pair of a face with itself stands for the face.
        pairs_of_group = {
            group: [pair for family in families for pair in combinations_with_replacement(family, 2)]
            for group, families in families_of_group.items()
        }
    else:
        pairs_of_group = draw_pairs(ids_of_group, cfg.per_group, cfg.seed)
    rows = [
        {"id": a if a == b else f"{a}~{b}", "group": group, "parent_a": a, "parent_b": b}
        for group, pairs in pairs_of_group.items()
        for a, b in pairs
    ]
    table = pd.DataFrame(rows)
    for column in ("race", "gender"):
        if column in faces.columns:
            values = faces.set_index("id")[column]
            a, b = table["parent_a"].map(values), table["parent_b"].map(values)
            table.insert(2, column, a.where(a == b, None))
    return table


def _fetch(store: Path, description: Mapping[str, Any], make: Callable[[Path, Path], None]) -> Path:
    """Return the stored entry of morphs; build it with `make` (draft folder, folder of unfinished work)."""
    key = cache.fingerprint(description)
    # The work folder is next to the store, not in it, as a pipeline empties its outputs before it makes them.
    work_folder = store.parent / f".{store.name}-{key}.partial"
    with ExitStack() as locks:

        def build(draft: Path) -> Mapping[str, Any]:
            locks.enter_context(lock_folder(work_folder, "Set store.morphs.", wait=True))
            if cache.find_damage(store / key):
                make(draft, work_folder)
            else:  # another process made the entry while this process waited for the lock
                ignored = shutil.ignore_patterns(cache.MANIFEST)
                shutil.copytree(store / key, draft, ignore=ignored, dirs_exist_ok=True)
            return description

        entry = cache.fetch(store, key, build)
        shutil.rmtree(work_folder, ignore_errors=True)
    return entry


def _make_entry(
    draft: Path,
    work: Path,
    table: pd.DataFrame,
    parents: pd.DataFrame,
    method: MorphingMethod,
    cfg: MorphsConfig,
) -> None:
    """Write the pictures, table and contact sheet of morphs to `draft`; unfinished morphs are in `work`."""
    columns = (parents.index.get_indexer(pd.Index(table[name])).tolist() for name in ("parent_a", "parent_b"))
    indices = [*zip(*columns, strict=True)]
    pairs = [(a, b) for a, b in indices if a != b]
    with stop_workers_on_exit():
        morph = method.prepare(work)
        processes = 1 if method.in_process else cfg.workers
        morph_paths = iter(make_files(morph, pairs, work / "morphs", suffix=".png", workers=processes))
        # The method's own folder may contain parents of another size.
        has_parents = len(pairs) < len(indices)
        folder = work / "faces"
        parent_paths = standardise_parents(parents, folder, cfg.size, cfg.workers) if has_parents else []
    pictures = []
    for a, b in indices:
        path = next(morph_paths) if a != b else parent_paths[a]
        # Morphs and parents are numbered separately.
        target = draft / (path.name if a != b else f"parent-{path.name}")
        pictures.append(target)
        try:
            os.link(path, target)  # takes no space, and the morph remains in `work` if publishing fails
        except OSError:
            shutil.copyfile(path, target)
    hashes = [cache.file_hash(path) for path in pictures]
    table = table.assign(path=[path.name for path in pictures], sha256=hashes)
    table.to_parquet(draft / TABLE)
    morphs = table.assign(path=[str(path) for path in pictures])
    draw_contact_sheet(morphs, parents["path"], cfg.seed).save(draft / CONTACT_SHEET, quality=90)


def draw_pairs(groups: Mapping[str, Sequence[str]], per_group: int, seed: int) -> dict[str, list[Pair]]:
    """Draw `per_group` of the n(n-1)/2 pairs of ids of each group; pairs, and ids in a pair, are sorted.

    The pairs of group i, in alphabetical order, are drawn with the seed [seed, i].

    Raises:
        InputError: a group has fewer pairs than requested.
    """
    n_pairs = {group: math.comb(len(ids), 2) for group, ids in sorted(groups.items())}
    if small_groups := [group for group in n_pairs if n_pairs[group] < per_group]:
        counts = "; ".join(
            f"{group}: {len(groups[group])} faces, {n_pairs[group]} pairs" for group in small_groups
        )
        limit = min(n_pairs.values())
        remedy = (
            f"Set faces.per_group={limit} or less, or choose more parents."
            if limit
            else "A morph needs two faces of its group: choose more parents, or leave the group out."
        )
        raise InputError(f"faces.per_group={per_group}: too few pairs of parents ({counts}). {remedy}")
    pairs = {}
    for index, group in enumerate(sorted(groups)):
        ids = sorted(groups[group])
        rng = np.random.default_rng([seed, index])
        ranks = rng.choice(n_pairs[group], per_group, replace=False).tolist()
        # Pairs (low, high) are ordered by high and then low: (0, 1), (0, 2), (1, 2), (0, 3), ...
        highs = [(1 + math.isqrt(1 + 8 * rank)) // 2 for rank in ranks]
        lows = [rank - math.comb(high, 2) for rank, high in zip(ranks, highs, strict=True)]
        pairs[group] = sorted((ids[low], ids[high]) for low, high in zip(lows, highs, strict=True))
    return pairs


def count_families(parents: Mapping[str, int], per_group: int) -> dict[str, int]:
    """Count the complete families of each group, from its number of parents and its maximum number of faces.

    >>> count_families({"Asian Men": 52, "Black Men": 93}, 1000)
    {'Asian Men': 10, 'Black Men': 18}

    Raises:
        InputError: a group has too few parents for a family, or `per_group` is too small for it.
    """
    if per_group < FAMILY_FACES:
        raise InputError(
            f"faces.per_group={per_group}: a family has {FAMILY_FACES} faces, {FAMILY_PARENTS} parents and "
            f"the morphs of their pairs. Set faces.per_group={FAMILY_FACES} or more, or faces.morphs=pairs."
        )
    small_groups = [f"{group}: {count}" for group, count in sorted(parents.items()) if count < FAMILY_PARENTS]
    if small_groups:
        raise InputError(
            f"faces.morphs=families: expected at least {FAMILY_PARENTS} parents in each group, one family; "
            f"got {'; '.join(small_groups)}. Choose more parents, leave the group out, or set "
            "faces.morphs=pairs."
        )
    return {
        group: min(count // FAMILY_PARENTS, per_group // FAMILY_FACES)
        for group, count in sorted(parents.items())
    }


def draw_families(
    groups: Mapping[str, Sequence[str]], per_group: int, seed: int
) -> dict[str, list[list[str]]]:
    """Draw the families of each group; a family is a sorted list of the ids of its parents.

    The families of group i, in alphabetical order, are drawn with the seed [seed, i] and do not depend on the
    order of the ids. A smaller `per_group` gives the first of the same families.

    Raises:
        InputError: a group has too few parents for a family, or `per_group` is too small for it.
    """
    counts = count_families({group: len(parents) for group, parents in groups.items()}, per_group)
    families = {}
    for index, (group, count) in enumerate(counts.items()):
        order = np.random.default_rng([seed, index]).permutation(len(groups[group]))
        shuffled_ids = np.array(sorted(groups[group]), dtype=object)[order]
        starts = range(0, count * FAMILY_PARENTS, FAMILY_PARENTS)
        families[group] = [sorted(shuffled_ids[start : start + FAMILY_PARENTS]) for start in starts]
    return families


def draw_contact_sheet(morphs: pd.DataFrame, parent_paths: pd.Series, seed: int) -> Image.Image:
    """Draw an overview with a row per group: up to six of its morphs, each between its parents."""
    morphs = morphs[morphs["parent_a"] != morphs["parent_b"]]
    groups = sorted(morphs["group"].unique())
    width = MAX_SHEET_MORPHS * (3 * TILE + GAP) - GAP
    sheet = Image.new("RGB", (width, len(groups) * (TITLE + TILE + GAP)), "white")
    draw = ImageDraw.Draw(sheet)
    for index, group in enumerate(groups):
        top = index * (TITLE + TILE + GAP)
        draw.text((2, top + 2), f"{group}: parent, morph, parent", fill="black")
        rows = morphs[morphs["group"] == group]
        rng = np.random.default_rng([seed, index, 1])
        sample = np.sort(rng.choice(len(rows), min(MAX_SHEET_MORPHS, len(rows)), replace=False))
        for column, row in enumerate(rows.iloc[sample].itertuples()):
            for number, path in enumerate((parent_paths[row.parent_a], row.path, parent_paths[row.parent_b])):
                tile = Image.fromarray(standardise(path, TILE))
                sheet.paste(tile, (column * (3 * TILE + GAP) + number * TILE, top + TITLE))
    return sheet
