"""The folder of precomputed vectors: what is free, what is refused."""

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load_file, save_file

from src.embeddings import precomputed
from src.errors import InputError
from src.stimuli.precomputed import load
from tests import conftest


@pytest.fixture
def folder(tmp_path):
    return conftest.precomputed(tmp_path / "lab", q=2)


def rewrite(folder, role, change):
    path = folder / f"{role}.safetensors"
    save_file({"embedding": change(load_file(path)["embedding"])}, path)


@pytest.mark.parametrize("role", ["faces", "scenes", "words", "labels"])
def test_vectors_follow_the_sorted_table(folder, role):
    table, found = load(folder, role), precomputed.read(folder, role)
    frame = pd.read_parquet(folder / f"{role}.parquet")
    stored = load_file(folder / f"{role}.safetensors")["embedding"]
    for row, name in enumerate(table.frame["id"]):
        (place,) = np.flatnonzero(frame["id"] == name)
        assert found.vectors[row].numpy() == pytest.approx(stored[place], abs=1e-6)
    assert torch.allclose(found.vectors.norm(dim=-1), torch.ones(1, dtype=torch.float64), atol=1e-15)


def scaled(factor):
    return lambda vectors: (vectors * factor).astype(vectors.dtype)


def spoil(value):
    def change(vectors):
        vectors = vectors.copy()
        vectors[3].flat[0] = value
        return vectors

    return change


@pytest.mark.parametrize(
    ("role", "change", "message"),
    [
        ("words", scaled(1.002), "90 vectors are not of unit length, first row 0 with norm 1.002"),
        ("faces", scaled(0.99), "66 vectors are not of unit length"),
        ("words", spoil(np.nan), "1 vectors hold NaN or infinity, first row 3"),
        ("faces", spoil(np.inf), "1 vectors hold NaN or infinity, first row 3"),
        ("words", lambda v: v[1:], "89 vectors, but words.parquet has 90 rows"),
        ("words", lambda v: v[:, None], r"has shape \[90, 1, 16\], words need \[N, D\]"),
        ("faces", lambda v: v[:, :, :, None], r"faces need \[N, D\] or \[N, Q, D\]"),
        ("words", lambda v: v.astype(np.int32), "floating point is needed"),
    ],
)
def test_vectors_that_do_not_fit_are_refused(folder, role, change, message):
    rewrite(folder, role, change)
    with pytest.raises(InputError, match=message):
        precomputed.read(folder, role)


def test_norms_near_one_are_made_exact(folder):
    before = precomputed.read(folder, "words").vectors
    rewrite(folder, "words", scaled(1.0005))
    assert torch.allclose(precomputed.read(folder, "words").vectors, before, atol=1e-6)


def in_order(folder, role):
    frame = pd.read_parquet(folder / f"{role}.parquet")
    order = np.argsort(frame["id"].to_numpy(dtype=str), kind="stable")
    frame.iloc[order].to_parquet(folder / f"{role}.parquet")
    rewrite(folder, role, lambda vectors: vectors[order])


def test_a_large_file_stays_on_disk_where_nothing_is_to_be_changed(folder, monkeypatch):
    before = precomputed.read(folder, "faces").vectors
    monkeypatch.setattr(precomputed, "MAPPED", 0)
    assert torch.equal(precomputed.read(folder, "faces").vectors, before)  # not in order
    in_order(folder, "faces")
    found = precomputed.read(folder, "faces").vectors
    assert found.dtype == torch.float32
    assert torch.allclose(found.double(), before, atol=1e-7)
    # What is written to the file is seen: it was never read.
    with (folder / "faces.safetensors").open("r+b") as file:
        file.seek(-4, 2)
        last = file.read()
        for written in (np.float32(0.5).tobytes(), last):
            file.seek(-4, 2)
            file.write(written)
            file.flush()
            assert found.flatten()[-1:].numpy().tobytes() == written
    rewrite(folder, "faces", scaled(1.0005))
    norms = precomputed.read(folder, "faces").vectors.norm(dim=-1)
    assert torch.allclose(norms, torch.ones(1, dtype=torch.float64), atol=1e-15)


def test_a_file_that_fits_is_read(folder):
    in_order(folder, "faces")
    assert precomputed.read(folder, "faces").vectors.dtype == torch.float64


@pytest.mark.parametrize("rows", [1, 40])
def test_all_rows_are_checked(folder, rows, monkeypatch):
    monkeypatch.setattr(precomputed, "ROWS", rows)
    rewrite(
        folder, "words", lambda vectors: vectors * np.where(np.arange(90) > 80, 2, 1)[:, None].astype("f4")
    )
    with pytest.raises(InputError, match="9 vectors are not of unit length, first row 81 with norm 2"):
        precomputed.read(folder, "words")


def test_files_that_are_not_there_or_not_readable_are_named(folder):
    with pytest.raises(InputError, match="no such folder. Set model.path"):
        load(folder / "nowhere", "faces")
    (folder / "faces.safetensors").write_bytes(b"nonsense")
    with pytest.raises(InputError, match=r"faces.safetensors: not a safetensors file"):
        precomputed.read(folder, "faces")
    (folder / "faces.safetensors").unlink()
    with pytest.raises(InputError, match=r"faces.safetensors: no such file"):
        precomputed.read(folder, "faces")
    (folder / "faces.parquet").write_bytes(b"nonsense")
    with pytest.raises(InputError, match=r"faces.parquet: not a Parquet file"):
        load(folder, "faces")
    (folder / "faces.parquet").unlink()
    with pytest.raises(InputError, match=r"faces.parquet: no such file .*The experiment needs faces"):
        load(folder, "faces")


def test_a_tensor_of_another_name_is_refused(folder):
    save_file({"vectors": np.ones((2, 2), dtype=np.float32)}, folder / "words.safetensors")
    with pytest.raises(InputError, match="no tensor 'embedding'; found vectors"):
        precomputed.read(folder, "words")
