"""Read precomputed vectors: DIR/{role}.safetensors (docs/architecture.md, "Formats")."""

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
from src.encoders.catalogue import UNKNOWN
from src.encoders.protocol import EncoderFamily
from src.errors import InputError, NotApplicable, brief
from src.stimuli import IMAGE_ROLES, PROMPTS, Table
from src.stimuli.loaders import read_precomputed
from src.storage.cache import file_hash

log = logging.getLogger(__name__)

# Rounding a norm and the quotients by it to bfloat16 adds relative errors of at most 2^-8 each, together
# .0078; with squares and their sum in bfloat16, at most .0094 (constant vectors of widths from 64 to 4096).
NORM_TOLERANCE = 1e-2
# Deviation of a norm from 1 above which renormalising is noted.
NOTED_DEVIATION = 1e-3
# Maximum deviation from 1 of the norms of normalised float32 vectors.
ROUNDING = 1e-6
# Bytes of vectors above which they stay memory-mapped if possible; number of rows checked at a time.
MIN_MAPPED, TILE_ROWS = 2**32, 2**16
# Maximum number of missing prompts in a message.
MAX_LISTED = 100


def read(folder: Path, role: str) -> Embeddings:
    """Read the vectors of one role, in the order of its table (sorted by id).

    Norms within 1e-2 of 1 are made exact in memory; `notes` counts those that were off by more than 1e-3. For
    floats of 8 bits the tolerance is the rounding of that type. A file above 4 GB stays memory-mapped if
    nothing has to be changed: rows sorted by id, norms within 1e-6 of 1.

    Raises:
        InputError: the file is missing or damaged, or the tensor's shape, type, norms or number
            of rows do not fit.
    """
    ids = read_precomputed(folder, role)["id"]
    path = _vectors_path(folder, role)
    stored = _load_tensor(path)
    # torch implements hardly any operation on 8-bit floats, not even isfinite.
    vectors = stored.float() if stored.is_floating_point() and stored.itemsize < 2 else stored
    norms = _check(vectors, stored.dtype, len(ids), role, path)
    deviation = float((norms - 1).abs().max())
    # `stimuli.load` sorts the table by id: put the vectors in the same order.
    order = torch.from_numpy(np.argsort(ids.to_numpy(dtype=str), kind="stable"))
    if vectors.nbytes > MIN_MAPPED and deviation <= ROUNDING and torch.equal(order, torch.arange(len(order))):
        return Embeddings(vectors, file_hash(path))
    unit, notes = torch.nn.functional.normalize(vectors[order].double(), dim=-1), []
    if changed := int(((norms - 1).abs() > NOTED_DEVIATION).any(dim=1).sum()):
        notes.append(
            f"{changed} of {len(norms)} {role} had vectors with norms from {float(norms.min()):.4f} to "
            f"{float(norms.max()):.4f}, within rounding of 1: renormalised"
        )
        log.info("%s", notes[0])
    return Embeddings(unit, file_hash(path), notes=tuple(notes))


def prompt_vectors(folder: Path, prompts: Table) -> Embeddings:
    """Look up the vectors of prompts by their sentences, in the order of their table.

    Raises:
        NotApplicable: a sentence is missing.
        InputError: see `read`.
    """
    embedded = read(folder, PROMPTS)
    return replace(embedded, vectors=embedded.vectors[torch.from_numpy(prompt_rows(folder, prompts))])


def prompt_rows(folder: Path, prompts: Table) -> np.ndarray:
    """Return the row of each prompt's sentence in DIR/prompts.parquet after sorting that table by id.

    Raises:
        NotApplicable: the table does not exist, or lacks a sentence.
        InputError: the table has no column of sentences, or duplicates.
    """
    path = folder / f"{PROMPTS}.parquet"
    frame = read_precomputed(folder, PROMPTS)
    if "sentence" not in frame:
        raise InputError(
            f"{path}: no column sentence; found {', '.join(map(str, frame.columns))}. "
            "Prompts need id and sentence."
        )
    sentences = frame.sort_values("id", kind="stable")["sentence"].astype(str).reset_index(drop=True)
    extra = sentences[sentences.duplicated()]
    if len(extra):
        raise InputError(
            f"{path}: {len(extra)} repeated sentences, first {brief(extra.iloc[0])!r}. Keep one row of each."
        )
    wanted = prompts.frame["sentence"]
    missing = wanted[~wanted.isin(sentences)]
    if len(missing):
        # List all if they are few enough to read: the user has to compute their vectors.
        listed = "; ".join(map(repr, missing[:MAX_LISTED]))
        if len(missing) > MAX_LISTED:
            listed += f"; and {len(missing) - MAX_LISTED} more. To list them all: "
            listed += "python -m src.stage prompts --output FILE.parquet exp=..."
        raise NotApplicable(
            f"{path}: {len(missing)} of the {len(wanted)} prompts that are needed are not in it. Embed them, "
            f"and add a row and a vector for each: {listed}."
        )
    return np.asarray(pd.Index(sentences).get_indexer(pd.Index(wanted)), dtype=np.int64)


def key(folder: Path, role: str) -> str:
    """Return the SHA-256 of the file of vectors.

    Raises:
        InputError: the file does not exist.
    """
    return file_hash(_vectors_path(folder, role))


def _vectors_path(folder: Path, role: str) -> Path:
    path = folder / f"{role}.safetensors"
    if not path.is_file():
        raise InputError(f"{path}: no such file. Save the vectors of {role} there as {TENSOR!r}.")
    return path


def _load_tensor(path: Path) -> Tensor:
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
        raise InputError(f"{path}: not a safetensors file ({brief(str(error))}). Write it again.") from None
    return tensor


def _check(vectors: Tensor, stored_dtype: torch.dtype, rows: int, role: str, path: Path) -> Tensor:
    """Check that vectors fit their table; return their norms, [N, Q] float64 (Q = 1 for [N, D])."""
    allowed = (2, 3) if role in IMAGE_ROLES else (2,)
    shape = tuple(vectors.shape)
    if vectors.ndim not in allowed or 0 in shape:
        wanted = "[N, D] or [N, Q, D]" if role in IMAGE_ROLES else "[N, D]"
        raise InputError(f"{path}: {TENSOR!r} has shape {list(shape)}, {role} need {wanted}.")
    if not vectors.is_floating_point():
        raise InputError(f"{path}: {TENSOR!r} holds {vectors.dtype}, not floating point. Save it as float32.")
    if len(vectors) != rows:
        raise InputError(
            f"{path}: {len(vectors)} vectors, but {path.stem}.parquet has {rows} rows. "
            "Write both again: row i of one belongs to row i of the other."
        )
    tiles = [vectors[start : start + TILE_ROWS] for start in range(0, max(1, len(vectors)), TILE_ROWS)]
    finite = torch.cat([torch.isfinite(tile).flatten(1).all(dim=1) for tile in tiles])
    if not finite.all():
        first = int((~finite).nonzero()[0])
        raise InputError(
            f"{path}: {int((~finite).sum())} vectors hold NaN or infinity, first row {first}. "
            "Embed them again."
        )
    norms = torch.cat([tile.double().norm(dim=-1).reshape(len(tile), -1) for tile in tiles])
    # Rounding to the stored type changes a norm by at most the unit roundoff of that type.
    not_unit = ((norms - 1).abs() > max(NORM_TOLERANCE, torch.finfo(stored_dtype).eps / 2)).any(dim=1)
    if not_unit.any():
        first = int(not_unit.nonzero()[0])
        raise InputError(
            f"{path}: {int(not_unit.sum())} vectors are not of unit length, first row {first} with norm "
            f"{float(norms[first, (norms[first] - 1).abs().argmax()]):.4g}. Divide each vector by its norm."
        )
    return norms


def _has_several_vectors(config: configs.PrecomputedConfig, role: str) -> bool:
    """Return whether an item has several vectors; False for a file that `read` would reject."""
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
    has_several_vectors=_has_several_vectors,
    default_name=_folder_name,
)
