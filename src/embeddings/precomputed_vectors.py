"""Vectors that somebody else computed: DIR/{role}.safetensors (docs/architecture.md, "Formats")."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from src import configs
from src.embeddings.store import TENSOR, Embeddings
from src.encoders.facts import UNKNOWN
from src.encoders.protocol import EncoderFamily
from src.errors import InputError, NotApplicable, brief
from src.stimuli import IMAGE_ROLES, PROMPTS, Table, precomputed_tables
from src.storage.cache import file_hash

log = logging.getLogger(__name__)

# A norm that is rounded to bfloat16, and quotients that are, are each off by 2^-8 at most: together by .0078.
# Squares and their sum in bfloat16 as well: .0094 at most, of all equal vectors of widths from 64 to 4096.
NORM_TOLERANCE = 1e-2
# From here on renormalising is noted.
NOTED = 1e-3
# Of float32 vectors that somebody has divided by their norms.
ROUNDING = 1e-6
# Bytes of a file beyond which vectors stay on disk, mapped, where they can; rows that are checked at once.
MAPPED, ROWS = 2**32, 2**16
# Missing prompts that a message names.
LISTED = 100


def read(folder: Path, role: str) -> Embeddings:
    """The vectors of one role, in the order of its table (sorted by id).

    Norms within 1e-2 of 1 are made exact, in memory; `notes` counts those that were off by more than 1e-3. Of
    floats of 8 bits they may be off by the rounding of that type. A file above 4 GB stays on disk, mapped,
    where nothing is to be changed: its rows are sorted by id, its norms within 1e-6 of 1.

    Raises:
        InputError: the file is missing or damaged, or the tensor's shape, type, norms or number
            of rows do not fit.
    """
    path = folder / f"{role}.safetensors"
    ids = precomputed_tables.raw(folder, role)["id"]
    stored = _tensor(path)
    # Of floats of eight bits torch cannot even say whether they are finite.
    vectors = stored.float() if stored.is_floating_point() and stored.itemsize < 2 else stored
    norms = _check(vectors, stored.dtype, len(ids), role, path)
    stray = float((norms - 1).abs().max())
    # The table is sorted by id, so the vectors are too.
    order = torch.from_numpy(np.argsort(ids.to_numpy(dtype=str), kind="stable"))
    if vectors.nbytes > MAPPED and stray <= ROUNDING and torch.equal(order, torch.arange(len(order))):
        return Embeddings(vectors, file_hash(path))
    unit = torch.nn.functional.normalize(vectors[order].double(), dim=-1)
    return Embeddings(unit, file_hash(path), notes=_renormalised(norms, role))


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
    frame = precomputed_tables.raw(folder, PROMPTS)
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
    return tensor


def _renormalised(norms: Tensor, role: str) -> tuple[str, ...]:
    """Count the items whose norms were off by more than rounding to float16 explains, and log it."""
    off = ((norms - 1).abs() > NOTED).any(dim=1)
    if not off.any():
        return ()
    note = (
        f"{int(off.sum())} of {len(norms)} {role} had vectors with norms from {float(norms.min()):.4f} to "
        f"{float(norms.max()):.4f}, as rounding leaves them: renormalised"
    )
    log.info("%s", note)
    return (note,)


def _check(vectors: Tensor, stored: torch.dtype, rows: int, role: str, path: Path) -> Tensor:
    """Check that vectors fit their table; returns their norms, [N, Q] float64 (Q is 1 of [N, D])."""
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
    # Rounding to the type that they are stored in moves a norm by no more than the type's unit roundoff.
    stray = ((norms - 1).abs() > max(NORM_TOLERANCE, torch.finfo(stored).eps / 2)).any(dim=1)
    if stray.any():
        first = int(stray.nonzero()[0])
        raise InputError(
            f"{path}: {int(stray.sum())} vectors are not of unit length, first row {first} with norm "
            f"{float(norms[first, (norms[first] - 1).abs().argmax()]):.4g}. Divide each vector by its norm."
        )
    return norms


def _several(config: configs.PrecomputedConfig, role: str) -> bool:
    """Return whether an item has several vectors; False of a file that `read` would refuse."""
    try:
        with safe_open(config.precomputed / f"{role}.safetensors", framework="pt") as file:
            return len(file.get_slice(TENSOR).get_shape()) == 3
    except (OSError, SafetensorError):
        return False


def _folder_name(config: configs.PrecomputedConfig, choice: str) -> str:  # noqa: ARG001
    if not config.path.strip():
        raise InputError("model.path is empty. Name the folder of the vectors.")
    return config.precomputed.resolve().name


FAMILY = EncoderFamily(
    name="precomputed",
    config=configs.PrecomputedConfig,
    pretraining=lambda config: config.pretraining or UNKNOWN,
    several=_several,
    default_name=_folder_name,
)
