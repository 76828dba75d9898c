"""Morphs: 50% mixtures of pairs of faces within a group, made once and kept in the store."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pandas as pd

from src.configs import MorphsConfig
from src.stimuli.morphs.methods import METHODS, Method, Parents
from src.stimuli.morphs.pairing import pairs
from src.stimuli.morphs.sheet import contact_sheet
from src.stimuli.morphs.work import files, workers_end
from src.stimuli.table import SHEET
from src.stimuli.work_folders import hold
from src.storage import cache

__all__ = ["contact_sheet", "load", "pairs"]

TABLE = "table.parquet"


def load(cfg: MorphsConfig, faces: pd.DataFrame, store: Path) -> tuple[pd.DataFrame, int, list[str]]:
    """Morphs of faces, read from the store or made.

    What is made lies in `.{store}-{key}.partial` beside the store until all of it is there: an interrupted
    run goes on from it.

    Args:
        cfg: see conf/faces/morphs.yaml.
        faces: `id` (unique), `group`, `path`, `sha256`; `race` and `gender` where there are any.
        store: folder of the entries.

    Returns:
        Columns `id` (the parents', joined by `~`), `group`, `race`, `gender`, `parent_a`, `parent_b`,
        `path`, `sha256`; number of morphs; notes.

    Raises:
        InputError: a group has too few pairs, or what the method needs is missing or wrong; all of it is
            said before anything is made.
        NotStored: within `artifacts.dry`, where they would have to be made.
    """
    table = _table(faces, cfg.per_group, cfg.seed)
    used = faces.set_index("id").loc[sorted({*table["parent_a"], *table["parent_b"]})]
    parents = Parents(list(used.index), [Path(path) for path in used["path"]], list(used["sha256"]))
    chosen = METHODS[cfg.method](cfg, parents)
    described = {
        "role": "morphs",
        "per_group": cfg.per_group,
        "size": cfg.size,
        "seed": cfg.seed,
        "pairs": cache.fingerprint(table.astype(object).where(table.notna(), None).values.tolist()),
        "parents": cache.fingerprint(list(zip(parents.ids, parents.hashes, strict=True))),
        **chosen.described(),
    }
    entry = _kept(store, described, table, parents, chosen, cfg.workers)
    frame = pd.read_parquet(entry / TABLE)
    frame = frame.assign(path=[str(entry / name) for name in frame["path"]])
    notes = [f"{cfg.method} morphs of {len(parents.ids)} of {len(faces)} parents", *chosen.notes]
    return frame, len(frame), notes


def _table(faces: pd.DataFrame, per_group: int, seed: int) -> pd.DataFrame:
    groups = {str(group): list(own["id"]) for group, own in faces.groupby("group")}
    rows = [
        {"id": f"{a}~{b}", "group": group, "parent_a": a, "parent_b": b}
        for group, drawn in pairs(groups, per_group, seed).items()
        for a, b in drawn
    ]
    table = pd.DataFrame(rows)
    for column in ("race", "gender"):
        if column in faces.columns:
            of = faces.set_index("id")[column]
            a, b = table["parent_a"].map(of), table["parent_b"].map(of)
            table.insert(2, column, a.where(a == b, None))
    return table


def _kept(
    store: Path,
    described: Mapping[str, Any],
    table: pd.DataFrame,
    parents: Parents,
    method: Method,
    workers: int,
) -> Path:
    key = cache.fingerprint(described)
    # Beside the store: a pipeline empties its outputs before it makes them.
    partial = store.parent / f".{store.name}-{key}.partial"
    with ExitStack() as until_published:

        def build(draft: Path) -> Mapping[str, Any]:
            until_published.enter_context(hold(partial, "Set store.morphs.", wait=True))
            if not cache.damaged(store / key):  # another process made it meanwhile
                shutil.copytree(
                    store / key, draft, ignore=shutil.ignore_patterns(cache.MANIFEST), dirs_exist_ok=True
                )
            else:
                made = _make(draft, partial, table, parents, method, workers)
                sheet = contact_sheet(made, parents.pictures, described["seed"])
                sheet.save(draft / SHEET, quality=90)
            return described

        entry = cache.fetch(store, key, build)
        shutil.rmtree(partial, ignore_errors=True)
    return entry


def _make(
    draft: Path, partial: Path, table: pd.DataFrame, parents: Parents, method: Method, workers: int
) -> pd.DataFrame:
    number = {name: index for index, name in enumerate(parents.ids)}
    couples = [(number[a], number[b]) for a, b in zip(table["parent_a"], table["parent_b"], strict=True)]
    with workers_end():
        morph = method.prepare(partial, workers)
        count = 1 if method.alone else workers
        made = files(morph, couples, partial / "morphs", suffix=".png", workers=count)
    kept = [_linked(path, draft / path.name) for path in made]
    hashes = [cache.file_hash(path) for path in kept]
    table = table.assign(path=[path.name for path in kept], sha256=hashes)
    table.to_parquet(draft / TABLE)
    return table.assign(path=[str(path) for path in kept])


def _linked(path: Path, target: Path) -> Path:
    # A second name costs nothing, and what is made stays where it is should publishing fail.
    try:
        os.link(path, target)
    except OSError:
        shutil.copyfile(path, target)
    return target
