"""Vectors that somebody else computed: DIR/{role}.safetensors (docs/architecture.md, "Formats")."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from src.artifacts import file_hash
from src.embeddings.store import TENSOR, Embeddings
from src.errors import InputError, NotApplicable, brief
from src.stimuli import IMAGE_ROLES, PROMPTS, Table, precomputed

NORM_TOLERANCE = 1e-3
# Of float32 vectors that somebody has divided by their norms.
ROUNDING = 1e-6
# Bytes of a file beyond which vectors stay on disk, mapped, where they can; rows that are checked at once.
MAPPED, ROWS = 2**32, 2**16
# Missing prompts that a message names.
LISTED = 100


def read(folder: Path, role: str) -> Embeddings:
    """The vectors of one role, in the order of its table (sorted by id).

    Norms within 1e-3 of 1 are made exact, in memory. A file above 4 GB stays on disk, mapped, where nothing
    is to be changed: its rows are sorted by id, its norms within 1e-6 of 1.

    Raises:
        InputError: the file is missing or damaged, or the tensor's shape, type, norms or number
            of rows do not fit.
    """
    path = folder / f"{role}.safetensors"
    ids = precomputed.raw(folder, role)["id"]
    vectors = _tensor(path)
    stray = _check(vectors, len(ids), role, path)
    # The table is sorted by id, so the vectors are too.
    order = torch.from_numpy(np.argsort(ids.to_numpy(dtype=str), kind="stable"))
    if vectors.nbytes > MAPPED and stray <= ROUNDING and torch.equal(order, torch.arange(len(order))):
        return Embeddings(vectors, file_hash(path))
    unit = torch.nn.functional.normalize(vectors[order].double(), dim=-1)
    return Embeddings(unit, file_hash(path))


def texts(folder: Path, prompts: Table) -> Embeddings:
    """The vectors of prompts, looked up by their sentences, in the order of their table.

    Raises:
        NotApplicable: a sentence is not there.
        InputError: see `read`.
    """
    found = read(folder, PROMPTS)
    return replace(found, vectors=found.vectors[torch.from_numpy(places(folder, prompts))])


def places(folder: Path, prompts: Table) -> np.ndarray:
    """Rows of DIR/prompts.parquet, sorted by id, in which the sentences of prompts stand.

    Raises:
        NotApplicable: there is no such table, or a sentence is not in it.
        InputError: it has no sentences, or one twice.
    """
    path = folder / f"{PROMPTS}.parquet"
    frame = precomputed.raw(folder, PROMPTS)
    if "sentence" not in frame:
        raise InputError(
            f"{path}: no column sentence; found {', '.join(map(str, frame.columns))}. "
            "Prompts need id and sentence."
        )
    said = frame.sort_values("id", kind="stable")["sentence"].astype(str).reset_index(drop=True)
    twice = said[said.duplicated()]
    if len(twice):
        raise InputError(
            f"{path}: {len(twice)} sentences stand more than once, first {brief(twice.iloc[0])!r}. "
            "Keep one row of each."
        )
    wanted = prompts.frame["sentence"]
    missing = wanted[~wanted.isin(said)]
    if len(missing):
        # All of them, where that can be read: whoever computes the vectors needs the list.
        shown = "; ".join(map(repr, missing[:LISTED]))
        more = len(missing) - LISTED
        raise NotApplicable(
            f"{path}: {len(missing)} of the {len(wanted)} prompts that are needed are not in it. Embed them, "
            f"and add a row and a vector for each: {shown}"
            + (
                f"; and {more} more. All of them: python -m src.stage prompts --output FILE.parquet exp=..."
                if more > 0
                else ""
            )
            + "."
        )
    found: np.ndarray = pd.Index(said).get_indexer(pd.Index(wanted)).astype(np.int64)
    return found


def key(folder: Path, role: str) -> str:
    """SHA-256 of the file of vectors.

    Raises:
        InputError: there is none.
    """
    path = folder / f"{role}.safetensors"
    if not path.is_file():
        raise InputError(_missing(path))
    return file_hash(path)


def several(folder: Path, role: str) -> bool:
    """Whether an image has several vectors; False where the file cannot be read, which `read` will say."""
    try:
        with safe_open(folder / f"{role}.safetensors", framework="pt") as file:
            return len(file.get_slice(TENSOR).get_shape()) == 3
    except (OSError, SafetensorError):
        return False


def _missing(path: Path) -> str:
    return f"{path}: no such file. Save the vectors of {path.stem} there as {TENSOR!r}."


def _tensor(path: Path) -> Tensor:
    if not path.is_file():
        raise InputError(_missing(path))
    try:
        with safe_open(path, framework="pt") as file:
            names = list(file.keys())
            if TENSOR not in names:
                raise InputError(
                    f"{path}: no tensor {TENSOR!r}; found {brief(', '.join(names)) or 'none'}. "
                    "Save the vectors under that name."
                )
            tensor: Tensor = file.get_tensor(TENSOR)
    except (SafetensorError, OSError, ValueError, RuntimeError, TypeError, KeyError) as error:
        raise InputError(f"{path}: not a safetensors file ({brief(str(error))}). Write it anew.") from None
    # Of floats of eight bits torch cannot even say whether they are finite.
    return tensor.float() if tensor.is_floating_point() and tensor.itemsize < 2 else tensor


def _check(vectors: Tensor, rows: int, role: str, path: Path) -> float:
    """See that a file's vectors fit; returns how far from 1 a norm is at most."""
    allowed = (2, 3) if role in IMAGE_ROLES else (2,)
    shape = tuple(vectors.shape)
    if vectors.ndim not in allowed or 0 in shape:
        wanted = "[N, D] or [N, Q, D]" if role in IMAGE_ROLES else "[N, D]"
        raise InputError(f"{path}: {TENSOR!r} has shape {list(shape)}, {role} need {wanted}.")
    if not vectors.is_floating_point():
        raise InputError(
            f"{path}: {TENSOR!r} holds {vectors.dtype}, floating point is needed. Save it as float32."
        )
    if len(vectors) != rows:
        raise InputError(
            f"{path}: {len(vectors)} vectors, but {path.stem}.parquet has {rows} rows. "
            "Write both anew: row i of one belongs to row i of the other."
        )
    tiles = [vectors[start : start + ROWS] for start in range(0, max(1, len(vectors)), ROWS)]
    finite = torch.cat([torch.isfinite(tile).flatten(1).all(dim=1) for tile in tiles])
    if not finite.all():
        first = int((~finite).nonzero()[0])
        raise InputError(
            f"{path}: {int((~finite).sum())} vectors hold NaN or infinity, first row {first}. "
            "Embed them anew."
        )
    norms = torch.cat([tile.double().norm(dim=-1).reshape(len(tile), -1) for tile in tiles])
    off = (norms - 1).abs()
    stray = (off > NORM_TOLERANCE).any(dim=1)
    if stray.any():
        first = int(stray.nonzero()[0])
        raise InputError(
            f"{path}: {int(stray.sum())} vectors are not of unit length, first row {first} with norm "
            f"{float(norms[first, 0]):.4g}. Divide each vector by its norm."
        )
    return float(off.max())
