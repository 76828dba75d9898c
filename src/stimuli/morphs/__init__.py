"""Make morphs, 50% mixtures of pairs of faces within a group, and store them."""

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
from src.stimuli.morphs.methods import METHODS, Method, standardise_parents
from src.stimuli.morphs.work import make_files, stop_workers_on_exit
from src.stimuli.pictures import standardise
from src.stimuli.table import CONTACT_SHEET, Loaded
from src.stimuli.work_folders import lock_folder
from src.storage import cache
from src.storage.versions import declared, versions

TABLE = "table.parquet"
# Numbers of parents and of faces (the parents and the morphs of all their pairs) of a closed family:
# a corpus of morphs can be permuted by family (docs/methods.md, section 2, "Stimuli").
PARENTS = 5
FACES = PARENTS + math.comb(PARENTS, 2)
Pair = tuple[str, str]
# Contact sheet: maximum number of morphs per group; pixels of a tile, a gap, and the title of a row.
MAX_SHEET_MORPHS = 6
TILE, GAP, TITLE = 112, 8, 16


def load(cfg: MorphsConfig, faces: pd.DataFrame, store: Path) -> Loaded:
    """Load morphs of faces (`id`, `group`, `path`, `sha256`, and `race`, `gender` if known), or make them.

    With `faces.morphs=families` the table holds the parents too, as centre squares of the morphs' size; both
    `parent_a` and `parent_b` of such a row are its id.

    Unfinished morphs are in `.{store}-{key}.partial` next to the store, where an interrupted run resumes. The
    id of a morph consists of the ids of its parents, joined by `~`.

    Raises:
        InputError: a group has too few parents or pairs of parents, or an input of the method is missing or
            wrong; this is checked before any morph is made.
        NotStored: within `cache.dry`, if the morphs would have to be made.
    """
    table = face_table(faces, cfg)
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
        "parts": declared(f"morphs.{cfg.method}"),
        "versions": versions("pillow", "numpy", *method.packages),
    }

    make = partial(_make, table=table, parents=parents, method=method, cfg=cfg)
    entry = _fetch(store, description, make)
    frame = pd.read_parquet(entry / TABLE)
    frame = frame.assign(path=[str(entry / name) for name in frame["path"]])
    notes = [f"{cfg.method} morphs of {len(parents)} of {len(faces)} parents"]
    if cfg.morphs == MORPH_FAMILIES:
        sizes = frame["group"].value_counts().sort_index()
        counts = ", ".join(f"{group} {size // FACES} ({size} faces)" for group, size in sizes.items())
        contents = f"{PARENTS} parents and the {FACES - PARENTS} morphs of their pairs"
        notes.append(f"families of {contents}: {counts}, at most {cfg.per_group} faces per group")
        if len(parents) < len(faces):
            notes.append(f"{len(faces) - len(parents)} parents left over, not used")
    return frame, len(frame), [*notes, *method.notes]


def face_table(faces: pd.DataFrame, cfg: MorphsConfig) -> pd.DataFrame:
    """List the morphs of faces, and with `morphs=families` their parents, without pictures.

    Columns are `id`, `group`, `parent_a`, `parent_b`, and `race`, `gender` where both parents share them.
    """
    groups = {str(group): list(rows_of_group["id"]) for group, rows_of_group in faces.groupby("group")}
    if cfg.morphs == MORPH_FAMILIES:
        drawn_families = draw_families(groups, cfg.per_group, cfg.seed)
        # The pair of a face with itself is the face.
        drawn = {
            group: [pair for family in of_group for pair in combinations_with_replacement(family, 2)]
            for group, of_group in drawn_families.items()
        }
    else:
        drawn = draw_pairs(groups, cfg.per_group, cfg.seed)
    rows = [
        {"id": a if a == b else f"{a}~{b}", "group": group, "parent_a": a, "parent_b": b}
        for group, drawn_pairs in drawn.items()
        for a, b in drawn_pairs
    ]
    table = pd.DataFrame(rows)
    for column in ("race", "gender"):
        if column in faces.columns:
            values = faces.set_index("id")[column]
            a, b = table["parent_a"].map(values), table["parent_b"].map(values)
            table.insert(2, column, a.where(a == b, None))
    return table


def _fetch(store: Path, description: Mapping[str, Any], make: Callable[[Path, Path], None]) -> Path:
    """Return the entry of morphs; `make` fills a draft, and keeps unfinished work in another folder."""
    key = cache.fingerprint(description)
    # Next to the store, not in it: a pipeline empties its outputs before it makes them.
    unfinished = store.parent / f".{store.name}-{key}.partial"
    with ExitStack() as until_published:

        def build(draft: Path) -> Mapping[str, Any]:
            until_published.enter_context(lock_folder(unfinished, "Set store.morphs.", wait=True))
            if cache.damaged(store / key):
                make(draft, unfinished)
            else:  # another process made it in the meantime
                ignored = shutil.ignore_patterns(cache.MANIFEST)
                shutil.copytree(store / key, draft, ignore=ignored, dirs_exist_ok=True)
            return description

        entry = cache.fetch(store, key, build)
        shutil.rmtree(unfinished, ignore_errors=True)
    return entry


def _make(
    draft: Path, work: Path, table: pd.DataFrame, parents: pd.DataFrame, method: Method, cfg: MorphsConfig
) -> None:
    columns = (parents.index.get_indexer(pd.Index(table[name])).tolist() for name in ("parent_a", "parent_b"))
    indices = [*zip(*columns, strict=True)]
    pairs = [(a, b) for a, b in indices if a != b]
    with stop_workers_on_exit():
        morph = method.prepare(work)
        processes = 1 if method.in_process else cfg.workers
        morph_paths = iter(make_files(morph, pairs, work / "morphs", suffix=".png", workers=processes))
        # Not in the folder of the method, whose parents may have another size.
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
            os.link(path, target)  # costs nothing, and leaves the morph in place if publishing fails
        except OSError:
            shutil.copyfile(path, target)
    hashes = [cache.file_hash(path) for path in pictures]
    table = table.assign(path=[path.name for path in pictures], sha256=hashes)
    table.to_parquet(draft / TABLE)
    morphs = table.assign(path=[str(path) for path in pictures])
    contact_sheet(morphs, parents["path"], cfg.seed).save(draft / CONTACT_SHEET, quality=90)


def draw_pairs(groups: Mapping[str, Sequence[str]], per_group: int, seed: int) -> dict[str, list[Pair]]:
    """Draw `per_group` of the n(n-1)/2 pairs of ids of each group; the pairs are sorted, and so are the ids.

    Groups are numbered in alphabetical order; the pairs of group i are drawn with the seed [seed, i].

    Raises:
        InputError: a group has fewer pairs than requested.
    """
    possible = {group: math.comb(len(ids), 2) for group, ids in sorted(groups.items())}
    if small := [group for group in possible if possible[group] < per_group]:
        counts = "; ".join(f"{group}: {len(groups[group])} faces, {possible[group]} pairs" for group in small)
        limit = min(possible.values())
        remedy = (
            f"Set faces.per_group={limit} or less, or take more parents."
            if limit
            else "A morph needs two faces of its group: take more parents, or leave the group out."
        )
        raise InputError(f"faces.per_group={per_group}: too few pairs of parents ({counts}). {remedy}")
    drawn = {}
    for index, group in enumerate(sorted(groups)):
        ids = sorted(groups[group])
        rng = np.random.default_rng([seed, index])
        ranks = rng.choice(possible[group], per_group, replace=False).tolist()
        # The order is (0, 1), (0, 2), (1, 2), (0, 3), ...: pairs of the first n faces precede face n's.
        highs = [(1 + math.isqrt(1 + 8 * rank)) // 2 for rank in ranks]
        lows = [rank - math.comb(high, 2) for rank, high in zip(ranks, highs, strict=True)]
        drawn[group] = sorted((ids[low], ids[high]) for low, high in zip(lows, highs, strict=True))
    return drawn


def count_families(parents: Mapping[str, int], per_group: int) -> dict[str, int]:
    """Count the whole families of each group, given its number of parents and its maximum number of faces.

    >>> count_families({"Asian Men": 52, "Black Men": 93}, 1000)
    {'Asian Men': 10, 'Black Men': 18}

    Raises:
        InputError: a group has too few parents, or `per_group` is too small, for one family.
    """
    if per_group < FACES:
        raise InputError(
            f"faces.per_group={per_group}: a family has {FACES} faces, {PARENTS} parents and the morphs of "
            f"their pairs. Set faces.per_group={FACES} or more, or faces.morphs=pairs."
        )
    small = [f"{group}: {count}" for group, count in sorted(parents.items()) if count < PARENTS]
    if small:
        raise InputError(
            f"faces.morphs=families: expected at least {PARENTS} parents in each group, one family; got "
            f"{'; '.join(small)}. Take more parents, leave the group out, or set faces.morphs=pairs."
        )
    return {group: min(count // PARENTS, per_group // FACES) for group, count in sorted(parents.items())}


def draw_families(
    groups: Mapping[str, Sequence[str]], per_group: int, seed: int
) -> dict[str, list[list[str]]]:
    """Draw the families of each group, each a sorted list of the ids of its parents.

    The draw of group i, in sorted order, uses the stream [seed, i]; the order of the ids is irrelevant. A
    smaller `per_group` gives the first of the same families.

    Raises:
        InputError: a group has too few parents, or `per_group` is too small, for one family.
    """
    counts = count_families({group: len(parents) for group, parents in groups.items()}, per_group)
    drawn = {}
    for index, (group, count) in enumerate(counts.items()):
        order = np.random.default_rng([seed, index]).permutation(len(groups[group]))
        shuffled = [sorted(groups[group])[place] for place in order]
        drawn[group] = [sorted(shuffled[n * PARENTS : (n + 1) * PARENTS]) for n in range(count)]
    return drawn


def contact_sheet(morphs: pd.DataFrame, parent_paths: pd.Series, seed: int) -> Image.Image:
    """Draw a row per group: up to six of its morphs, each between its parents."""
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
        chosen = np.sort(rng.choice(len(rows), min(MAX_SHEET_MORPHS, len(rows)), replace=False))
        for column, row in enumerate(rows.iloc[chosen].itertuples()):
            for number, path in enumerate((parent_paths[row.parent_a], row.path, parent_paths[row.parent_b])):
                tile = Image.fromarray(standardise(path, TILE))
                sheet.paste(tile, (column * (3 * TILE + GAP) + number * TILE, top + TITLE))
    return sheet
