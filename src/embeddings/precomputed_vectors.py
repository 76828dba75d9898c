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
from src.storage.cache import file_hash, fingerprint

log = logging.getLogger(__name__)

# Maximum deviation of a norm from 1. Normalising in bfloat16 rounds the norm and the quotients by it, with
# relative errors of at most 2^-8 each, together .0078; if squares and their sum are also in bfloat16, at most
# .0094 (constant vectors of widths from 64 to 4096).
NORM_TOLERANCE = 1e-2
# Deviation of a norm from 1 above which a note reports that vectors were renormalised.
NOTED_DEVIATION = 1e-3
# Maximum deviation of a norm from 1 for vectors normalised in float32.
ROUNDING = 1e-6
# Bytes above which vectors stay memory-mapped if possible, and number of rows that are checked at a time.
MIN_MAPPED, TILE_ROWS = 2**32, 2**16
# Maximum number of missing prompts that a message lists.
MAX_LISTED = 100


def read_vectors(folder: Path, role: str) -> Embeddings:
    """Read the vectors of one role, in the order of its table (sorted by id).

    Vectors are normalised in memory if their norms are within 1e-2 of 1 (for 8-bit floats: within the
    rounding of the type); a note counts vectors that deviate by more than 1e-3. A file above 4 GB stays
    memory-mapped if its rows are sorted by id and all norms are within 1e-6 of 1.

    Raises:
        InputError: the file is missing or damaged, or the tensor has an unsuitable shape, type, norm or
            number of rows.
    """
    ids = read_precomputed(folder, role)["id"]
    path = _find_vectors_file(folder, role)
    tensor = _load_tensor(path)
    # torch supports few operations on 8-bit floats: not even isfinite.
    vectors = tensor.float() if tensor.is_floating_point() and tensor.itemsize < 2 else tensor
    norms = _check(vectors, tensor.dtype, len(ids), role, path)
    deviation = float((norms - 1).abs().max())
    # `stimuli.load` sorts the table by id, so the vectors are sorted in the same way.
    order = torch.from_numpy(np.argsort(ids.to_numpy(dtype=str), kind="stable"))
    if vectors.nbytes > MIN_MAPPED and deviation <= ROUNDING and torch.equal(order, torch.arange(len(order))):
        return Embeddings(vectors, file_hash(path))
    unit, notes = torch.nn.functional.normalize(vectors[order].double(), dim=-1), []
    if n_renormalised := int(((norms - 1).abs() > NOTED_DEVIATION).any(dim=1).sum()):
        notes.append(
            f"{n_renormalised} of {len(norms)} {role} had vectors with norms from {float(norms.min()):.4f} "
            f"to {float(norms.max()):.4f}, within rounding of 1: renormalised"
        )
        log.info("%s", notes[0])
    return Embeddings(unit, file_hash(path), notes=tuple(notes))


def read_prompt_vectors(folder: Path, prompts: Table) -> Embeddings:
    """Read the vectors of prompts, looked up by their sentences, in the order of their table.

    Raises:
        NotApplicable: a sentence is missing.
        InputError: see `read_vectors`.
    """
    embeddings = read_vectors(folder, PROMPTS)
    return replace(
        embeddings, vectors=embeddings.vectors[torch.from_numpy(find_prompt_rows(folder, prompts))]
    )


def find_prompt_rows(folder: Path, prompts: Table) -> np.ndarray:
    """Return the row of each prompt's sentence in DIR/prompts.parquet after sorting by id, [N].

    Raises:
        NotApplicable: the table does not exist, or lacks a sentence.
        InputError: the table has no column of sentences, or repeats a sentence.
    """
    path = folder / f"{PROMPTS}.parquet"
    frame = read_precomputed(folder, PROMPTS)
    if "sentence" not in frame:
        raise InputError(
            f"{path}: no column sentence; found {', '.join(map(str, frame.columns))}. "
            "Prompts need id and sentence."
        )
    sentences = frame.sort_values("id", kind="stable")["sentence"].astype(str).reset_index(drop=True)
    repeats = sentences[sentences.duplicated()]
    if len(repeats):
        raise InputError(
            f"{path}: {len(repeats)} repeated sentences, first {brief(repeats.iloc[0])!r}. "
            "Keep one row of each."
        )
    prompt_sentences = prompts.frame["sentence"]
    missing = prompt_sentences[~prompt_sentences.isin(sentences)]
    if len(missing):
        # The user has to compute these vectors, so the message lists the sentences, up to a readable number.
        listed = "; ".join(map(repr, missing[:MAX_LISTED]))
        if len(missing) > MAX_LISTED:
            listed += f"; and {len(missing) - MAX_LISTED} more. To list them all: "
            listed += "python -m src.stage prompts --output FILE.parquet exp=..."
        raise NotApplicable(
            f"{path}: {len(missing)} of the {len(prompt_sentences)} prompts needed are missing. Embed them, "
            f"and add a row and a vector for each: {listed}."
        )
    return np.asarray(pd.Index(sentences).get_indexer(pd.Index(prompt_sentences)), dtype=np.int64)


def hash_vectors(folder: Path, role: str) -> str:
    """Hash the vectors of one role and the items that they belong to, by row.

    For rows in the order of their ids, this is the SHA-256 of the file of vectors: the hash of the stimulus
    table, whose rows have this order, identifies the items. Prompts are identified here: jobs look them up.

    Raises:
        NotApplicable: the folder has no table of that role.
        InputError: the file of vectors does not exist, or the table cannot be read.
    """
    digest, frame = file_hash(_find_vectors_file(folder, role)), read_precomputed(folder, role)
    ids = frame["id"].tolist()
    if role == PROMPTS:
        return fingerprint([digest, ids, frame["sentence"].astype(str).tolist()])
    return digest if ids == sorted(ids) else fingerprint([digest, ids])


def _find_vectors_file(folder: Path, role: str) -> Path:
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


def _check(vectors: Tensor, dtype: torch.dtype, rows: int, role: str, path: Path) -> Tensor:
    """Check that vectors fit their table; return their norms, [N, Q] float64 (Q = 1 for [N, D])."""
    allowed = (2, 3) if role in IMAGE_ROLES else (2,)
    shape = tuple(vectors.shape)
    if vectors.ndim not in allowed or 0 in shape:
        expected = "[N, D] or [N, Q, D]" if role in IMAGE_ROLES else "[N, D]"
        raise InputError(f"{path}: {TENSOR!r} has shape {list(shape)}, {role} need {expected}.")
    if not vectors.is_floating_point():
        raise InputError(
            f"{path}: expected {TENSOR!r} of floating point, got {vectors.dtype}. Save it as float32."
        )
    if len(vectors) != rows:
        raise InputError(
            f"{path}: {len(vectors)} vectors, but {path.stem}.parquet has {rows} rows. "
            "Write both again: row i of one belongs to row i of the other."
        )
    tiles = [vectors[start : start + TILE_ROWS] for start in range(0, max(1, len(vectors)), TILE_ROWS)]
    is_finite = torch.cat([torch.isfinite(tile).flatten(1).all(dim=1) for tile in tiles])
    if not is_finite.all():
        first = int((~is_finite).nonzero()[0])
        raise InputError(
            f"{path}: {int((~is_finite).sum())} vectors contain NaN or infinity, first row {first}. "
            "Embed them again."
        )
    norms = torch.cat([tile.double().norm(dim=-1).reshape(len(tile), -1) for tile in tiles])
    # Rounding to the stored type changes a norm by at most the type's unit roundoff.
    is_not_unit = ((norms - 1).abs() > max(NORM_TOLERANCE, torch.finfo(dtype).eps / 2)).any(dim=1)
    if is_not_unit.any():
        first = int(is_not_unit.nonzero()[0])
        raise InputError(
            f"{path}: {int(is_not_unit.sum())} vectors are not of unit length, first row {first} with norm "
            f"{float(norms[first, (norms[first] - 1).abs().argmax()]):.4g}. Divide each vector by its norm."
        )
    return norms


def _has_several_vectors(config: configs.PrecomputedConfig, role: str) -> bool:
    """Return whether an item has several vectors; False if the file is missing or damaged."""
    try:
        with safe_open(config.precomputed / f"{role}.safetensors", framework="pt") as file:
            return len(file.get_slice(TENSOR).get_shape()) == 3
    except (OSError, SafetensorError):
        return False


def _name_after_folder(config: configs.PrecomputedConfig, choice: str) -> str:  # noqa: ARG001
    if not config.path.strip():
        raise InputError("model.path is empty. Name the folder of the vectors.")
    return config.precomputed.resolve().name


FAMILY = EncoderFamily(
    name="precomputed",
    config=configs.PrecomputedConfig,
    pretraining=lambda config: config.pretraining or UNKNOWN,
    has_several_vectors=_has_several_vectors,
    default_name=_name_after_folder,
)
